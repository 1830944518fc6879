"""NumPy's functions on Arrays and traced values: names, arguments and meanings are NumPy's."""

import numpy as _numpy

from numbagrad.core.array import Array as ndarray
from numbagrad.core.dtypes import result_type as _result_type
from numbagrad.numpy import elementwise as _elementwise
from numbagrad.numpy import methods as _methods
from numbagrad.numpy.creation import *  # noqa: F403
from numbagrad.numpy.elementwise import (
    abs,
    absolute,
    angle,
    around,
    clip,
    conj,
    conjugate,
    deg2rad,
    degrees,
    divmod,
    fabs,
    float_power,
    heaviside,
    imag,
    isfinite,
    isinf,
    isnan,
    ldexp,
    logaddexp2,
    modf,
    nan_to_num,
    pow,
    power,
    rad2deg,
    radians,
    real,
    round,
    sign,
    sinc,
    where,
)
from numbagrad.numpy.products import (
    cross,
    diag,
    diagflat,
    diagonal,
    dot,
    einsum,
    inner,
    kron,
    matmul,
    outer,
    tensordot,
    trace,
    vdot,
    vecdot,
)
from numbagrad.numpy.reductions import *  # noqa: F403
from numbagrad.numpy.shaping import *  # noqa: F403

globals().update(_elementwise.FUNCTIONS | {"abs": abs, "power": power, "pow": pow})
from numbagrad.numpy.elementwise import abs, power, pow  # noqa
pi, e, inf, nan, newaxis, euler_gamma = (getattr(_numpy, n) for n in ("pi", "e", "inf", "nan", "newaxis", "euler_gamma"))
