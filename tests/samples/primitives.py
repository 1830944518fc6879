"""Cases of every structural primitive: CASES, gathered from the files of this folder."""

from __future__ import annotations

from samples import along, basic, conv, fourier, order, scatter, segments, windows  # noqa: F401
from samples.cases import CASES, ELSEWHERE, Case, structural

__all__ = ["CASES", "ELSEWHERE", "Case", "structural"]
