"""Structural operations under their XLA names."""

from __future__ import annotations

from numbagrad.numpy.elementwise import call, composed
