"""NumPy's functions on Arrays and traced values: names, arguments and meanings are NumPy's."""

import numpy as _numpy

from numbagrad.core.array import Array as ndarray
from numbagrad.core.dtypes import finfo, isdtype
from numbagrad.numpy import (
    fft,
    linalg,
    methods,  # gives Array its operators
)
from numbagrad.numpy.calculus import *
from numbagrad.numpy.convolution import *
from numbagrad.numpy.creation import *
from numbagrad.numpy.cumulative import *
from numbagrad.numpy.elementwise import *
from numbagrad.numpy.histogram import *
from numbagrad.numpy.inspection import __array_namespace_info__
from numbagrad.numpy.logic import *
from numbagrad.numpy.order import *
from numbagrad.numpy.padding import *
from numbagrad.numpy.products import *
from numbagrad.numpy.quantile import *
from numbagrad.numpy.reductions import *
from numbagrad.numpy.searching import *
from numbagrad.numpy.shaping import *
from numbagrad.numpy.ufuncs import *

# constants and types are NumPy's own
pi = _numpy.pi
e = _numpy.e
inf = _numpy.inf
nan = _numpy.nan
newaxis = _numpy.newaxis
euler_gamma = _numpy.euler_gamma
bool_ = _numpy.bool_
int8 = _numpy.int8
int16 = _numpy.int16
int32 = _numpy.int32
int64 = _numpy.int64
uint8 = _numpy.uint8
uint16 = _numpy.uint16
uint32 = _numpy.uint32
uint64 = _numpy.uint64
float16 = _numpy.float16
float32 = _numpy.float32
float64 = _numpy.float64
complex64 = _numpy.complex64
complex128 = _numpy.complex128
dtype = _numpy.dtype
iinfo = _numpy.iinfo
floating = _numpy.floating
integer = _numpy.integer
inexact = _numpy.inexact
complexfloating = _numpy.complexfloating
number = _numpy.number
generic = _numpy.generic
broadcast_shapes = _numpy.broadcast_shapes
set_printoptions = _numpy.set_printoptions
bool = _numpy.bool_
int_ = _numpy.int64
float_ = _numpy.float64
uint = _numpy.uint64


def __getattr__(name: str) -> _numpy.dtype:
    """bfloat16, once it is asked for: it comes with another package."""
    if name != "bfloat16":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from numbagrad.core.dtypes import bfloat16

    try:
        return bfloat16()
    except TypeError as error:
        raise AttributeError(str(error)) from None
