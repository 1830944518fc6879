"""Scalar expressions: what one element of an elementwise operation computes.

An expression is a hash-consed tree of atoms over numbered arguments, so equal expressions are one object and
every cache can use identity. An `Atom` is one scalar function: its code per kind of number, its partial
derivatives as expressions, its domain and its documentation, all in one block (see `atoms/`).
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any, ClassVar

Scalar = bool | int | float | complex

ATOMS: dict[str, Atom] = {}
SIMPLER: dict[str, Callable[..., Expr | None]] = {}  # by atom: a simpler expression for a call, see simplify.py


class Expr:
    """A node: an atom applied to expressions, or an argument, or a literal. Make it by calling an atom."""

    __slots__ = ("args", "atom", "value")
    _pool: ClassVar[dict[Any, Expr]] = {}

    atom: Atom | None  # None for arguments and literals
    args: tuple[Expr, ...]
    value: Any  # argument number (int, with args None) or literal

    def __repr__(self) -> str:
        if self.atom is not None:
            return f"{self.atom.name}({', '.join(map(repr, self.args))})"
        return f"x{self.value}" if self.is_argument else repr(self.value[1])

    @property
    def is_argument(self) -> bool:
        """Whether this is an argument of the whole expression."""
        return self.atom is None and type(self.value) is int

    @property
    def is_literal(self) -> bool:
        """Whether this is a constant."""
        return self.atom is None and type(self.value) is tuple

    @property
    def literal(self) -> Scalar | None:
        """The constant, or None."""
        return self.value[1] if self.atom is None and type(self.value) is tuple else None

    def __neg__(self) -> Expr:
        return ATOMS["negative"](self)

    def __add__(self, other: Any) -> Expr:
        return ATOMS["add"](self, other)

    def __radd__(self, other: Any) -> Expr:
        return ATOMS["add"](other, self)

    def __sub__(self, other: Any) -> Expr:
        return ATOMS["subtract"](self, other)

    def __rsub__(self, other: Any) -> Expr:
        return ATOMS["subtract"](other, self)

    def __mul__(self, other: Any) -> Expr:
        return ATOMS["multiply"](self, other)

    def __rmul__(self, other: Any) -> Expr:
        return ATOMS["multiply"](other, self)

    def __truediv__(self, other: Any) -> Expr:
        return ATOMS["divide"](self, other)

    def __rtruediv__(self, other: Any) -> Expr:
        return ATOMS["divide"](other, self)

    def __pow__(self, other: Any) -> Expr:
        return ATOMS["power"](self, other)

    def __rpow__(self, other: Any) -> Expr:
        return ATOMS["power"](other, self)

    def __lt__(self, other: Any) -> Expr:
        return ATOMS["less"](self, other)

    def __gt__(self, other: Any) -> Expr:
        return ATOMS["greater"](self, other)

    def __le__(self, other: Any) -> Expr:
        return ATOMS["less_equal"](self, other)

    def __ge__(self, other: Any) -> Expr:
        return ATOMS["greater_equal"](self, other)

    def __and__(self, other: Any) -> Expr:
        return ATOMS["logical_and"](self, other)

    def __or__(self, other: Any) -> Expr:
        return ATOMS["logical_or"](self, other)

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


def _intern(atom: Atom | None, args: tuple[Expr, ...], value: Any) -> Expr:
    key = (atom.name if atom else None, tuple(map(id, args)), value)
    found = Expr._pool.get(key)
    if found is None:
        found = object.__new__(Expr)
        found.atom, found.args, found.value = atom, args, value
        found = Expr._pool.setdefault(key, found)
    return found


def arg(number: int) -> Expr:
    """Argument `number` of the expression."""
    return _intern(None, (), number)


def lit(value: Any) -> Expr:
    """A constant; it takes the type of what it meets. The key keeps 1, 1.0, True, 0.0 and -0.0 apart."""
    if isinstance(value, Expr):
        return value
    return _intern(None, (), (repr(value), value))


class Atom:
    """One scalar function and all that is known about it.

    `partials(*inputs, output)` gives one expression per input, or None where the derivative is zero
    everywhere. `vjp(g, *inputs, output)` and `jvp(tangents, *inputs, output)` replace it where a product
    with the partial is not the rule (conjugation, real parts). `code` maps a kind of number (`b`ool,
    `i`nteger, `f`loat, `c`omplex, or `*`) to the text that computes it; see `render.py`.
    """

    def __init__(
        self,
        name: str,
        arity: int,
        code: dict[str, str],
        *,
        partials: Callable[..., Any] | None = None,
        vjp: Callable[..., Any] | None = None,
        jvp: Callable[..., Any] | None = None,
        result: str = "same",
        rule: str = "arithmetic",
        domain: Any = "real",
        doc: str = "",
        reference: Any = None,
        body: Callable[..., Any] | None = None,
        order: int = 3,
    ) -> None:
        self.name, self.arity, self.code = name, arity, code
        self.partials, self.vjp, self.jvp = partials, vjp, jvp
        self.result, self.rule, self.domain = result, rule, domain
        self.doc, self.reference, self.body, self.order = doc, reference, body, order
        self.constant = partials is None and vjp is None

    def __call__(self, *args: Any) -> Expr:
        if len(args) != self.arity:
            raise TypeError(f"{self.name}: wrong number of operands: got {len(args)}; needed {self.arity}.")
        exprs = tuple(map(lit, args))
        rule = SIMPLER.get(self.name)
        return (rule(*exprs) if rule else None) or _intern(self, exprs, None)

    @cached_property
    def source(self) -> str | None:
        """Text of the scalar implementation, where that is a Python function (read when first rendered: 1 ms)."""
        if self.body is None:
            return None
        text = textwrap.dedent(inspect.getsource(self.body))
        return text[text.index("def ") :]

    def __repr__(self) -> str:
        return f"<atom {self.name}>"


def atom(
    code: dict[str, str] | str | None = None,
    *,
    partials: Callable[..., Any] | None = None,
    name: str | None = None,
    **options: Any,
) -> Callable[[Callable[..., Any]], Atom]:
    """Define an atom from a function: its signature gives the arity, its docstring the documentation.

    Without `code` the function's own body is the scalar implementation: plain Python that Numba compiles, put
    into every kernel that uses it. It may use `math` and `np`, nothing else from around it.

    >>> from numbagrad.scalar import atom
    >>> @atom(partials=lambda x, y: 3 * x * x)
    ... def cube(x):
    ...     '''x * x * x'''
    ...     return x * x * x
    >>> cube
    <atom cube>
    """

    def define(function: Callable[..., Any]) -> Atom:
        title, arity = name or function.__name__, function.__code__.co_argcount
        codes = {"*": code} if isinstance(code, str) else code
        body = None
        if codes is None:
            body = function
            codes = {"*": f"{function.__name__}({', '.join(f'{{{k}}}' for k in range(arity))})"}
        doc = inspect.getdoc(function) or ""
        new = Atom(title, arity, codes, partials=partials, doc=doc, body=body, **options)
        old = ATOMS.get(title)
        if old is not None and (old.code, _bytecode(old.body)) != (codes, _bytecode(body)):
            raise ValueError(f"atom: the name {title!r} is taken: got a second definition. Choose another name.")
        return ATOMS.setdefault(title, new)

    return define


def _bytecode(body: Callable[..., Any] | None) -> Any:
    return None if body is None else (body.__code__.co_code, body.__code__.co_consts)


def in_order(outputs: Iterable[Expr]) -> list[Expr]:
    """Every node below the outputs once, operands first (no recursion: expressions may be deep)."""
    seen: set[Expr] = set()
    order: list[Expr] = []
    stack = [(e, False) for e in reversed(tuple(outputs))]
    while stack:
        node, ready = stack.pop()
        if ready:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack.extend((a, False) for a in reversed(node.args) if a not in seen)
    return order


def substitute(outputs: Iterable[Expr], values: dict[int, Expr]) -> tuple[Expr, ...]:
    """The expressions with arguments replaced."""
    outputs = tuple(outputs)
    new: dict[Expr, Expr] = {}
    for node in in_order(outputs):
        if node.is_argument:
            new[node] = values.get(node.value, node)
        elif node.atom is None:
            new[node] = node
        else:
            new[node] = node.atom(*(new[a] for a in node.args))
    return tuple(new[e] for e in outputs)


def arguments(outputs: Iterable[Expr]) -> list[int]:
    """Numbers of the arguments used, ascending."""
    return sorted({e.value for e in in_order(outputs) if e.is_argument})
