"""Expressions as text: the body of a generated kernel, one readable line a node.

Types are inferred from the arguments'; a literal takes the type of what it meets (a bare 0.5 would make a
float32 kernel compute in float64). The text of an atom's code may name, besides its operands `{0}`, `{1}`:

    simd.tanh        the vectorised scalar function of that name for the operand's type
    double.polygamma a float64 function; float32 operands are widened for it and the result narrowed
    func.hypotenuse  a function of scalar/functions.py, specialised by type
    {T}              the type itself, as a conversion: `{T}(1)`
    {R}              the real type of a complex operand
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from numbagrad.core.dtypes import FLOATING, complex_dtype, is_half
from numbagrad.scalar.expr import Atom, Expr, in_order

NAMES = {
    "bool": "b1",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint8": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "uint64": "u64",
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    "complex64": "c64",
    "complex128": "c128",
}
KINDS = {"b": "b", "i": "i", "u": "i", "f": "f", "V": "f", "c": "c"}  # V: bfloat16
_REAL: dict[np.dtype, np.dtype] = {
    np.dtype(np.complex64): np.dtype(np.float32),
    np.dtype(np.complex128): np.dtype(np.float64),
}
BOOL = np.dtype(bool)
# What atoms call `simd.NAME` and a target with a mathematical library has in `math`; the rest is in gpu.py, which has
# its own of some for float32, too.
MATH = frozenset(
    "exp expm1 log log2 log10 log1p pow erf erfc lgamma sin cos tan asin acos atan atan2 sinh cosh tanh"
    " asinh acosh atanh".split()
)
OWN_SINGLE = frozenset("sin cos tan digamma".split())
_REAL_CODE = re.compile(r"simd\.|func\.|double\.|\bmath\.|[<>]")  # code for any type that has no complex meaning


def operand_dtype(atom: Atom, dtypes: Sequence[np.dtype | None]) -> np.dtype:
    """The type an atom computes in: that of its first operand that is no literal (a condition does not count)."""
    if atom.name == "select":
        dtypes = dtypes[1:]
    return next((d for d in dtypes if d is not None), np.dtype(np.float64))


def result_dtype(atom: Atom, dtype: np.dtype) -> np.dtype:
    """The type of an atom's result, given the type it computes in."""
    if atom.result == "same":
        return dtype
    if atom.result == "real":
        return _REAL.get(dtype, dtype)
    if atom.result == "complex":
        return complex_dtype(dtype) if dtype.kind in FLOATING else dtype
    return np.dtype(atom.result)


def infer(outputs: Sequence[Expr], dtypes: Sequence[np.dtype]) -> dict[Expr, np.dtype | None]:
    """The type of every node; None for literals. A choice between literals takes the type of what it meets, too."""
    types: dict[Expr, np.dtype | None] = {}
    choices: list[Expr] = []
    order = in_order(outputs)
    for node in order:
        if node.atom is None:
            types[node] = dtypes[node.value] if node.is_argument else None
        elif node.atom.name == "select" and types[node.args[1]] is None and types[node.args[2]] is None:
            types[node] = None
            choices.append(node)
        else:
            types[node] = result_dtype(node.atom, operand_dtype(node.atom, [types[a] for a in node.args]))
    if choices:
        for node in reversed(order):  # what meets a choice comes before it
            if node.atom is not None:
                met = types[node] if node.atom.name == "select" else _met(node, types)
                for a in node.args[1:] if node.atom.name == "select" else node.args:
                    if types[a] is None and a.atom is not None:
                        types[a] = met
        for node in choices:
            types[node] = types[node] or np.dtype(np.float64)
    return types


def _met(node: Expr, types: dict[Expr, np.dtype | None]) -> np.dtype:
    assert node.atom is not None
    return operand_dtype(node.atom, [types[a] for a in node.args])


def output_dtypes(outputs: Sequence[Expr], dtypes: Sequence[np.dtype]) -> tuple[np.dtype, ...]:
    """Types of the outputs for given argument types; a literal output takes the first argument's."""
    types = infer(outputs, dtypes)
    return tuple(types[e] or dtypes[0] for e in outputs)


class Body:
    """The statements that compute some expressions, and what they need from elsewhere.

    `library` says where scalar functions come from: "simd" for ours, else "math" (and gpu.py for what that lacks).
    """

    def __init__(self, outputs: Sequence[Expr], dtypes: Sequence[np.dtype], library: str = "simd") -> None:
        self.library = library
        self.lines: list[str] = []
        self.simd: set[str] = set()
        self.functions: set[str] = set()
        self.sources: dict[str, str] = {}
        self.types = infer(outputs, dtypes)
        names: dict[Expr, str] = {}
        for node in in_order(outputs):
            if node.is_argument:
                names[node] = f"x{node.value}"
            elif node.atom is not None:
                names[node] = self._statement(node, names)
        default = dtypes[0] if dtypes else np.dtype(np.float64)
        self.results = [names[e] if e in names else literal(e.literal, default) for e in outputs]

    def _statement(self, node: Expr, names: dict[Expr, str]) -> str:
        atom = node.atom
        assert atom is not None
        dtype = operand_dtype(atom, [self.types[a] for a in node.args])
        if atom.name == "select":
            dtype = self.types[node] or dtype  # of a choice between literals
        operands = [
            names[a] if a in names else literal(a.literal, BOOL if atom.name == "select" and k == 0 else dtype)
            for k, a in enumerate(node.args)
        ]
        code = atom.code.get(KINDS[dtype.kind], atom.code.get("*"))
        if code is not None and dtype.kind == "c" and "c" not in atom.code:
            code = None if _REAL_CODE.search(atom.source or code) else code
        if code is None:
            words = {"b": "bool", "i": "integer", "f": "floating", "c": "complex", "*": "real"}
            needed = " or ".join(words[kind] for kind in atom.code)
            raise TypeError(f"{atom.name}: dtype {dtype} is not supported: got {dtype}; needed a {needed} dtype.")
        if atom.source is not None:
            self.sources[atom.name] = atom.source
        text = self._expand(code, dtype, operands)
        if dtype.kind in "iu" and atom.result == "same":
            text = f"{_numba(dtype)}({text})"  # Numba widens narrow integers; NumPy wraps
        name = f"t{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        return name

    def _expand(self, code: str, dtype: np.dtype, operands: list[str]) -> str:
        def scalar(match: re.Match[str]) -> str:
            name = f"{match[1]}_{NAMES[dtype.name]}"
            if self.library == "math":
                if match[1] in OWN_SINGLE and dtype == np.float32:
                    self.functions.add(name)
                    return name
                return f"math.{match[1]}" if match[1] in MATH else plain(match)
            self.simd.add(name)
            return name

        def plain(match: re.Match[str]) -> str:
            self.functions.add(match[1])
            return match[1]

        if "double." in code and dtype.itemsize < 8:
            operands = [f"float64({o})" for o in operands]
            code = f"{_numba(dtype)}({code})"
        code = re.sub(r"simd\.(\w+)", scalar, re.sub(r"(?:double|func)\.(\w+)", plain, code))
        real = _REAL.get(dtype, dtype)
        return code.format(*operands, T=_numba(dtype), R=_numba(real), C=_numba(complex_dtype(dtype)))


def _numba(dtype: np.dtype) -> str:
    return "boolean" if dtype.kind == "b" else dtype.name


def literal(value: object, dtype: np.dtype) -> str:
    """A typed constant."""
    if dtype.kind == "b":
        return repr(bool(value))
    if isinstance(value, float) and not np.isfinite(value):
        value = "np.nan" if value != value else "np.inf" if value > 0 else "-np.inf"
        return f"{_numba(dtype)}({value})"
    return f"{_numba(dtype)}({value!r})"


def loaded(dtype: np.dtype, text: str) -> str:
    """An element as kernels compute with it, from the text that reads it (half.py has the functions)."""
    if dtype.kind == "b":
        return f"{text} != 0"
    return f"{dtype.name}_to_float({text})" if is_half(dtype) else text


def stored(dtype: np.dtype, text: str) -> str:
    """A result as it is kept."""
    return f"float_to_{dtype.name}(float32({text}))" if is_half(dtype) else text
