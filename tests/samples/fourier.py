"""Cases of the Fourier transform."""

from __future__ import annotations

import numpy as np

from samples.cases import case, r


def _cases() -> None:
    for shape, axes in (((5,), (0,)), ((3, 4), (1,)), ((2, 3, 4), (0, 2)), ((1,), (0,)), ((2, 3), ()), ((0, 3), (1,))):
        x = r(*shape, dtype=complex)
        forward = lambda x, a=axes: np.fft.fftn(x, axes=a) if a and x.size else x
        backward = lambda x, a=axes: np.fft.ifftn(x, axes=a, norm="forward") if a and x.size else x
        case("fourier", x, reference=forward, axes=axes)
        case("fourier", x, reference=backward, axes=axes, inverse=True)
    case("fourier", r(6, dtype=np.complex64), reference=np.fft.fft, axes=(0,), order=1)


_cases()
