"""Errors in the user's words: `op: what is wrong: got A, B; needed C. Next step.`"""

from __future__ import annotations


class NumbagradError(Exception):
    """Base of the errors that are this library's own."""


class TracerConversionError(NumbagradError, TypeError):
    """A traced value was asked for a concrete number."""


class EscapedTracerError(NumbagradError, RuntimeError):
    """A traced value was used after the transform that made it had finished."""


class ViewAssignmentError(NumbagradError, ValueError):
    """An assignment that NumPy would pass through a view to another array."""


class DeviceError(NumbagradError, RuntimeError):
    """Arrays on different devices, or a device without a kernel."""


class KernelError(NumbagradError, RuntimeError):
    """A kernel that does what a GPU would not forgive: found by emulation, or reported by the driver."""


def message(op: str, wrong: str, got: object, needed: object, step: str = "") -> str:
    """The one form of an error text."""
    return f"{op}: {wrong}: got {got}; needed {needed}." + (f" {step}" if step else "")
