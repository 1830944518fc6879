"""Write docs/ops.md, the table of all operations, from the registry; --check only says whether it is current."""

from __future__ import annotations

import sys
from pathlib import Path

PATH = Path(__file__).resolve().parent.parent / "docs" / "ops.md"
KINDS = {"b": "bool", "i": "integer", "f": "float", "c": "complex"}
TITLE = """# Operations

Everything the library computes is made of these. Written by `tools/ops_table.py` from the registry: do not edit.
"""


def dtypes(atom) -> str:
    """Number types an atom has code for."""
    if atom.source is not None or (set(atom.code) == {"*"} and atom.rule != "float"):
        return "all real" if "simd." in atom.code.get("*", "") else "all"
    if set(atom.code) == {"*"}:
        return "float"
    return "all" if "*" in atom.code else ", ".join(KINDS[k] for k in "bifc" if k in atom.code)


def domain(atom) -> str:
    """Where the derivative is tested."""
    parts = atom.domain if isinstance(atom.domain, tuple) and not is_interval(atom.domain) else (atom.domain,)
    return ", ".join(f"({p[0]}, {p[1]})" if is_interval(p) else str(p) for p in parts)


def is_interval(part) -> bool:
    """(low, high), not one domain for each operand."""
    return isinstance(part, tuple) and len(part) == 2 and all(isinstance(v, (int, float)) for v in part)


def cell(text: str) -> str:
    """First line of a docstring, fit for a table."""
    return text.split("\n\n")[0].replace("\n", " ").replace("|", "\\|")


def atom_rows(public: bool) -> list[str]:
    """One row for each atom."""
    from numbagrad.scalar import ATOMS

    rows = []
    for name, atom in sorted(ATOMS.items()):
        if name.startswith("cast_") or (atom.rule == "internal") is public:
            continue
        kind = "constant" if atom.constant else "map"
        result = "" if atom.result == "same" else f" -> {atom.result}"
        rows.append(f"| `{name}` | {kind} | {cell(atom.doc)} | {dtypes(atom)}{result} | {domain(atom)} |")
    return rows


def primitive_rows() -> list[str]:
    """One row for each structural primitive."""
    from numbagrad.core.registry import PRIMITIVES, Primitive

    found = {name: p for name, p in PRIMITIVES.items() if isinstance(p, Primitive)}
    return [
        f"| `{name}` | {p.kind} | {cell(p.doc)} | {'cpu, cuda' if p.home else 'registered'} |"
        for name, p in sorted(found.items())
    ]


def table() -> str:
    """The whole page."""
    import importlib

    for module in ("numbagrad", *(f"numbagrad.{n}" for n in ("lax", "nn", "ops", "optim", "random", "scipy.special"))):
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            if not (error.name or "").startswith("numbagrad"):
                raise
    elementwise = ["| name | kind | value | types | tested on |", "|---|---|---|---|---|"]
    structural = ["| name | kind | value | kernels |", "|---|---|---|---|"]
    parts = [
        TITLE,
        "\n## Elementwise: atoms\n",
        "Each is one scalar function; derivatives of every order are expressions of atoms. Conversions between",
        "number types (`cast_*`) are left out.\n",
        *elementwise,
        *atom_rows(True),
        "\n## Atoms inside others\n",
        "Met in derivatives and in composed functions.\n",
        *elementwise,
        *atom_rows(False),
        "\n## Structural: primitives\n",
        "The kind says how an operation is differentiated; see [the engine](design/engine.md).\n",
        *structural,
        *primitive_rows(),
    ]
    return "\n".join(parts) + "\n"


def main() -> int:
    """Write the page, or with --check say whether it is current."""
    text = table()
    if "--check" in sys.argv[1:]:
        if PATH.exists() and PATH.read_text() == text:
            return 0
        print(f"{PATH} is out of date: run python tools/ops_table.py", file=sys.stderr)
        return 1
    PATH.write_text(text)
    print(f"wrote {PATH}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
