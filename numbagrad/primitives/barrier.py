"""stop_gradient: the identity with no derivative."""

from __future__ import annotations

from numbagrad.core.registry import Primitive

stop_gradient = Primitive(
    "stop_gradient", "views:identity", doc="The value itself, taken as a constant."
)
