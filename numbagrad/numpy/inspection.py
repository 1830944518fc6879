"""What there is, as the array API asks for it."""

from __future__ import annotations

from typing import Any

import numpy as np

from numbagrad.core import device as devices
from numbagrad.core.errors import message

_KINDS = {
    "bool": ("bool",),
    "signed integer": ("int8", "int16", "int32", "int64"),
    "unsigned integer": ("uint8", "uint16", "uint32", "uint64"),
    "real floating": ("float32", "float64"),
    "complex floating": ("complex64", "complex128"),
}
_KINDS["integral"] = _KINDS["signed integer"] + _KINDS["unsigned integer"]
_KINDS["numeric"] = _KINDS["integral"] + _KINDS["real floating"] + _KINDS["complex floating"]


class __array_namespace_info__:
    """Capabilities, devices and dtypes. Source: the Python array API standard, 2024.12.

    >>> import numbagrad.numpy as np
    >>> info = np.__array_namespace_info__()
    >>> info.default_device(), info.dtypes(kind="real floating")
    ('cpu', {'float32': dtype('float32'), 'float64': dtype('float64')})
    """

    def capabilities(self) -> dict[str, Any]:
        """Masks index, and shapes may depend on values (outside traced code)."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        """Where new arrays go."""
        place = devices.default()
        return devices.CPU if place is None else place.name

    def default_dtypes(self, *, device: Any = None) -> dict[str, np.dtype]:
        """Types of what is made from Python numbers; the same on every device."""
        names = {"real floating": "float64", "complex floating": "complex128", "integral": "int64", "indexing": "int64"}
        return {kind: np.dtype(name) for kind, name in names.items()}

    def dtypes(self, *, device: Any = None, kind: str | tuple[str, ...] | None = None) -> dict[str, np.dtype]:
        """The standard's types by name, of a kind or of several; the same on every device."""
        kinds = ("bool", "numeric") if kind is None else (kind,) if isinstance(kind, str) else kind
        for k in kinds:
            if k not in _KINDS:
                raise ValueError(message("dtypes", "no such kind", repr(k), f"one of {sorted(_KINDS)}"))
        return {name: np.dtype(name) for k in kinds for name in _KINDS[k]}

    def devices(self) -> list[str]:
        """The CPU, and GPUs that can be used."""
        return devices.names()
