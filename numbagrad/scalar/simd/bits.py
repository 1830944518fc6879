"""Building blocks of the vectorised scalar functions: bit casts, selects, LLVM intrinsics and the decorator.

Everything here lowers to plain LLVM instructions or `llvm.*` intrinsics, so the loop vectoriser can widen it.
"""

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import config
from numba.core.codegen import get_host_cpu_features
from numba.extending import intrinsic

# No "nsz": with it LLVM may drop the sign of a zero result, and it buys no measurable time here.
# No "reassoc": it destroys two-part reductions and magic-number rounding.
# forceinline: LLVM leaves the longest of these as calls otherwise, and a loop with a call is not vectorised.
simd = numba.njit(fastmath={"contract"}, error_model="numpy", no_cpython_wrapper=True,
                  no_cfunc_wrapper=True, _nrt=False, forceinline=True)


def _host_has_fma():
    features = config.CPU_FEATURES
    features = get_host_cpu_features() if features is None else features
    names = features.split(",")
    return "+fma" in names or "+neon" in names or "+fp-armv8" in names


HAS_FMA = _host_has_fma()


def _bitcast(source, target, llvm_target):
    def cast(typingctx, x):
        if isinstance(x, types.Integer) and isinstance(source, types.Integer):
            width = source.bitwidth

            def codegen(context, builder, signature, args):
                value = args[0]
                if value.type.width > width:  # Numba widens int32 arithmetic to int64
                    value = builder.trunc(value, ir.IntType(width))
                return builder.bitcast(value, llvm_target)

            return target(x), codegen
        if x == source:
            return target(x), lambda context, builder, signature, args: builder.bitcast(args[0], llvm_target)
        return None

    return cast


i32_of = intrinsic(_bitcast(types.float32, types.int32, ir.IntType(32)))
f32_of = intrinsic(_bitcast(types.int32, types.float32, ir.FloatType()))
i64_of = intrinsic(_bitcast(types.float64, types.int64, ir.IntType(64)))
f64_of = intrinsic(_bitcast(types.int64, types.float64, ir.DoubleType()))


@intrinsic
def select(typingctx, condition, a, b):
    """`a if condition else b` as one LLVM select: both sides are always computed."""
    if a != b or not isinstance(condition, types.Boolean):
        return None

    def codegen(context, builder, signature, args):
        flag = context.cast(builder, args[0], signature.args[0], types.boolean)
        return builder.select(builder.trunc(flag, ir.IntType(1)), args[1], args[2])

    return a(condition, a, a), codegen


def _llvm(name, arity):
    """A Numba function of `arity` floats of one type that emits the LLVM intrinsic `name`."""

    def emit(context, builder, signature, args):
        kind = args[0].type
        function = builder.module.declare_intrinsic(name, [kind], ir.FunctionType(kind, [kind] * arity))
        return builder.call(function, args)

    def ok(*kinds):
        return isinstance(kinds[0], types.Float) and all(k == kinds[0] for k in kinds)

    def unary(typingctx, a):
        return (a(a), emit) if ok(a) else None

    def binary(typingctx, a, b):
        return (a(a, b), emit) if ok(a, b) else None

    def ternary(typingctx, a, b, c):
        return (a(a, b, c), emit) if ok(a, b, c) else None

    return intrinsic((unary, binary, ternary)[arity - 1])


rint = _llvm("llvm.rint", 1)
fabs = _llvm("llvm.fabs", 1)
floor = _llvm("llvm.floor", 1)
sqrt = _llvm("llvm.sqrt", 1)
copysign = _llvm("llvm.copysign", 2)


def _shift(method):
    def shift(typingctx, value, count):
        if not isinstance(value, types.Integer) or not isinstance(count, types.Integer):
            return None

        def codegen(context, builder, signature, args):
            amount = context.cast(builder, args[1], count, value)
            return getattr(builder, method)(args[0], amount)

        return value(value, count), codegen

    return intrinsic(shift)


shl = _shift("shl")  # these keep int32, where Numba's own operators widen to int64
sar = _shift("ashr")
shr = _shift("lshr")


@intrinsic
def low32(typingctx, value):
    """The low 32 bits of an integer as int32."""
    if not isinstance(value, types.Integer):
        return None

    def codegen(context, builder, signature, args):
        if args[0].type.width == 32:
            return args[0]
        return builder.trunc(args[0], ir.IntType(32))

    return types.int32(value), codegen


@simd
def _fma_soft(a, b, c):
    """a*b + c with the product exact (Dekker 1971), for CPUs without an FMA unit."""
    scale = 134217729.0
    t = scale * a
    ah = t - (t - a)
    al = a - ah
    t = scale * b
    bh = t - (t - b)
    bl = b - bh
    p = a * b
    e = al * bl - (((p - ah * bh) - al * bh) - ah * bl)
    s = p + c
    v = s - p
    rest = ((p - (s - v)) + (c - v)) + e
    # not finite: the splitting or the product overflowed
    return select(rest - rest == 0.0, s + rest, 4.0 * ((0.5 * a) * (0.5 * b) + 0.25 * c))


@simd
def _fma_soft32(a, b, c):
    return np.float32(np.float64(a) * np.float64(b) + np.float64(c))


if HAS_FMA:
    fma = _llvm("llvm.fma", 3)
    fma32 = fma
else:  # llvm.fma would call libm
    fma = _fma_soft
    fma32 = _fma_soft32


@intrinsic
def wide_vectors(typingctx):
    """Call it once in a kernel: asks for 512 bit vectors, where the CPU has them, in that kernel's loops.

    LLVM prefers 256 bits on most AVX-512 CPUs; over these functions 512 take 0.6 to 0.9 of the time. An
    attribute of the calling function, so it has to be called there and not in a function inlined into it."""

    def codegen(context, builder, signature, args):
        # llvmlite's own check knows no string attributes
        set.add(builder.function.attributes, '"prefer-vector-width"="512"')
        return context.get_dummy_value()

    return types.void(), codegen


def poly(dtype, coefficients):
    """A function x -> c0 + c1 x + c2 x^2 + ... in Horner form, unrolled, each step contracted to one FMA."""
    kind = numba.from_dtype(np.dtype(dtype))
    values = tuple(float(dtype(c)) for c in coefficients)

    def horner(typingctx, x):
        if x != kind:
            return None

        def codegen(context, builder, signature, args):
            t = args[0]
            acc = ir.Constant(t.type, values[-1])
            for c in values[-2::-1]:
                product = builder.fmul(acc, t, flags=("contract",))
                acc = builder.fadd(product, ir.Constant(t.type, c), flags=("contract",))
            return acc

        return x(x), codegen

    return intrinsic(horner)
