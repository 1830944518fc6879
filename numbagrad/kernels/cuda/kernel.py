"""A kernel: a generated text, the name of a `@cuda.jit` function in it, and the types of its parameters.

Types are written "f32*" (a pointer), "f32", "u32" and so on. Indices are uint32 where everything has fewer than 2**31
elements: 64-bit index arithmetic takes three times the instructions. A text says `{I}` for the index type.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

MADE: dict[tuple[str, str, tuple[str, ...]], Kernel] = {}  # every kernel of this process, for ahead-of-time compilation
LARGE = 1 << 31  # elements from which on the index type is int64
THREADS = 256  # of a block, where nothing else is said


class Kernel:
    """Make it with `kernel`. Devices keep what they compiled it to under it."""

    __slots__ = ("name", "signature", "source")

    def __init__(self, name: str, source: str, signature: tuple[str, ...]) -> None:
        self.name, self.source, self.signature = name, source, signature

    def __repr__(self) -> str:
        return f"<kernel {self.name}({', '.join(self.signature)})>"


def kernel(name: str, source: str, signature: Sequence[str]) -> Kernel:
    """The one kernel of a text, name and signature."""
    key = name, source, tuple(signature)
    found = MADE.get(key)
    if found is None:
        found = MADE.setdefault(key, Kernel(*key))
    return found


def index_type(*sizes: int) -> str:
    """The type of indices into arrays of these sizes, as a kernel's text spells it."""
    return "uint32" if max(sizes, default=0) < LARGE else "int64"


def short(index: str) -> str:
    """The same as a signature spells it."""
    return "u32" if index == "uint32" else "i64"


def blocks(count: int, threads: int = THREADS) -> int:
    """Blocks for a number of threads."""
    return -(-count // threads)


def vector_width(dtypes: Sequence[np.dtype]) -> int:
    """Elements that one access of 16 bytes takes of the widest type: 4, 2, or 1 for none."""
    return max(1, min(4, 16 // max(d.itemsize for d in dtypes)))
