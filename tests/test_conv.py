"""Convolutions: any geometry against NumPy, JAX's options, signals against NumPy and SciPy, errors."""

import contextlib

import numpy as onp
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from samples import conv as reference
from scipy import signal as scipy_signal

import numbagrad as ng
import numbagrad.numpy as np
from numbagrad import lax
from numbagrad.kernels.cpu import conv as kernels
from numbagrad.kernels.cpu import conv_plane
from numbagrad.kernels.cpu.conv_plan import Axis, Geometry
from numbagrad.scipy import signal
from numbagrad.testing import check_grads, inner_product_identity

fixed = settings(deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@st.composite
def convolutions(draw):
    """Operands in float64 and every option of a convolution, padding that crops and outputs of length 0 among them."""
    axes = draw(st.integers(0, 3))
    n, groups, channels = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 4))
    outputs = draw(st.integers(1, 20 if axes < 3 else 3))
    several = lambda low, high: draw(st.lists(st.integers(low, high), min_size=axes, max_size=axes))
    spatial, taps = several(1, 9 if axes < 3 else 5), several(1, 4 if axes < 3 else 3)
    options = dict(strides=tuple(several(1, 3)), lhs_dilation=tuple(several(1, 3)), rhs_dilation=tuple(several(1, 3)))
    options["padding"] = tuple(zip(several(-3, 4), several(-3, 4), strict=True))
    rng = onp.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    x = rng.standard_normal((n, groups * channels, *spatial))
    w = rng.standard_normal((groups * outputs, channels, *taps))
    return x, w, groups, options


@contextlib.contextmanager
def compiled_only():
    """Small operands, too, by the kernels that are for large ones."""
    few, kernels.FEW = kernels.FEW, -1
    try:
        yield
    finally:
        kernels.FEW = few


def check_convolution(x, w, groups, options):
    """Value, and both gradients along a random cotangent, against the reference in float64; float32 beside it."""
    parameters = dict(groups=groups, **options)
    want = reference.conv(x, w, **parameters)
    ct = onp.random.default_rng(0).standard_normal(want.shape)
    to_input = reference.conv_input(ct, w, shape=x.shape[2:], **parameters)
    to_weights = reference.conv_weight(x, ct, shape=w.shape[2:], **parameters)
    numbers = [options[k] for k in ("strides", "padding", "lhs_dilation", "rhs_dilation")]
    f = lambda x, w: lax.conv_general_dilated(x, w, *numbers, feature_group_count=groups)
    for dtype, rtol, way in (
        (onp.float64, 1e-12, contextlib.nullcontext),
        (onp.float64, 1e-12, compiled_only),
        (onp.float32, 2e-5, compiled_only),
    ):
        with way():
            out, pull = ng.vjp(f, np.asarray(x.astype(dtype)), np.asarray(w.astype(dtype)))
            found = (out, *pull(ct.astype(dtype)))
        for got, wanted in zip(found, (want, to_input, to_weights), strict=True):
            assert got.dtype == dtype
            scale = 1 + onp.abs(wanted).max(initial=0) * onp.sqrt(max(1, x[0].size))
            onp.testing.assert_allclose(onp.asarray(got), wanted, rtol=0, atol=rtol * scale)


@settings(fixed, max_examples=60)
@given(convolutions())
def test_any_geometry(case):
    check_convolution(*case)


@pytest.mark.slow
@settings(fixed, max_examples=2000)
@given(convolutions())
def test_any_geometry_at_length(case):
    check_convolution(*case)


@settings(fixed, max_examples=40)
@given(convolutions(), st.integers(20, 400))
def test_planes_in_bands(case, room):
    """One channel with one, in a room so small that the plane is cut into bands, or does not fit."""
    x, w, groups, options = case
    x, w = x[:, :groups], w[:groups, :1]
    if x.ndim == 2:
        return
    settings = dict(groups=groups, **options)
    want = reference.conv(x, w, **settings)
    ct = onp.random.default_rng(0).standard_normal(want.shape)
    axes = zip(x.shape[2:], want.shape[2:], w.shape[2:], options["strides"], options["padding"])
    axes = [(n, m, k, s, p[0]) for n, m, k, s, p in axes]
    axes = tuple(Axis(*a, b, d) for a, b, d in zip(axes, options["lhs_dilation"], options["rhs_dilation"]))
    geometry = Geometry(axes, groups, 1, 1)
    flat = lambda v: onp.ascontiguousarray(v).reshape(v.shape[0], groups, -1)
    kernel = w.reshape(groups, -1)
    forward, backward = conv_plane.layout(geometry, False, room), conv_plane.layout(geometry, True, room)
    if forward is not None:
        got = conv_plane.project(flat(x), kernel, geometry, forward, False).reshape(want.shape)
        onp.testing.assert_allclose(got, want, atol=1e-12)
        got = conv_plane.weights(flat(x), flat(ct), geometry, forward).reshape(w.shape)
        onp.testing.assert_allclose(got, reference.conv_weight(x, ct, shape=w.shape[2:], **settings), atol=1e-11)
    if backward is not None:
        got = conv_plane.project(flat(ct), kernel, geometry, backward, True).reshape(x.shape)
        onp.testing.assert_allclose(got, reference.conv_input(ct, w, shape=x.shape[2:], **settings), atol=1e-12)


@pytest.mark.parametrize(
    ("channels", "outputs", "size"), [(200, 20, 9), (3, 150, 20), (20, 70, 40), (1, 16, 30), (70, 1, 12)]
)
def test_channels_and_rows_beyond_one_panel(channels, outputs, size):
    rng = onp.random.default_rng(1)
    x, w = rng.standard_normal((2, channels, size, size + 3)), rng.standard_normal((outputs, channels, 3, 3))
    options = dict(strides=(1, 1), padding=((1, 1), (1, 1)), lhs_dilation=(1, 1), rhs_dilation=(1, 1))
    check_convolution(x, w, 1, options)


def test_results_do_not_depend_on_the_number_of_threads(monkeypatch):
    rng = onp.random.default_rng(2)
    x, w = np.asarray(rng.standard_normal((4, 8, 40, 40))), np.asarray(rng.standard_normal((16, 8, 3, 3)))
    plane = np.asarray(rng.standard_normal((8, 1, 3, 3)))

    def results():
        f = lambda x, w, p: (
            lax.conv(x, w, (2, 1), "SAME").sum()
            + (lax.conv_general_dilated(x, p, (1, 2), "SAME", feature_group_count=8) ** 2).sum()
        )
        return [onp.asarray(g) for g in ng.grad(f, (0, 1, 2))(x, w, plane)]

    found = []
    for threads in ("1", "2", "5"):
        monkeypatch.setenv("NUMBAGRAD_NUM_THREADS", threads)
        with compiled_only():
            found.append(results())
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            onp.testing.assert_array_equal(a, b)


# --- options of lax


def spec_of(text, letters):
    return [text.index(c) for c in letters]


@pytest.mark.parametrize("numbers", [("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NHWC"), ("CNWH", "WIHO", "HCWN")])
def test_dimension_numbers(numbers):
    rng = onp.random.default_rng(3)
    x, w = rng.standard_normal((2, 3, 5, 6)), rng.standard_normal((4, 3, 2, 3))
    plain = lax.conv_general_dilated(x, w, (2, 1), "SAME")
    inverse = lambda text, letters: onp.argsort(spec_of(text, letters))
    strides = [{"H": 2, "W": 1}[c] for c in numbers[1] if c in "HW"]  # spatial axes come in the kernel's order
    got = lax.conv_general_dilated(
        x.transpose(inverse(numbers[0], "NCHW")),
        w.transpose(inverse(numbers[1], "OIHW")),
        strides,
        "SAME",
        dimension_numbers=numbers,
    )
    onp.testing.assert_allclose(onp.asarray(got).transpose(spec_of(numbers[2], "NCHW")), onp.asarray(plain), rtol=1e-13)


def test_batch_groups():
    """Group g of the batch meets group g of the outputs."""
    rng = onp.random.default_rng(4)
    x, w = rng.standard_normal((6, 2, 5)), rng.standard_normal((4, 2, 3))
    got = onp.asarray(lax.conv_general_dilated(x, w, (1,), "SAME", batch_group_count=2))
    parts = [onp.asarray(lax.conv(x[3 * g : 3 * g + 3], w[2 * g : 2 * g + 2], (1,), "SAME")) for g in range(2)]
    onp.testing.assert_allclose(got, onp.concatenate(parts, 1), rtol=1e-13)
    f = lambda x, w: lax.conv_general_dilated(x, w, (1,), "SAME", batch_group_count=2)
    check_grads(f, [np.asarray(x), np.asarray(w)], order=2)


def test_transposed_is_the_adjoint():
    """With transpose_kernel it is the input gradient of the convolution with the same kernel."""
    rng = onp.random.default_rng(5)
    for stride, size, kernel in ((2, 8, 3), (3, 9, 2), (1, 5, 4)):
        x, w = rng.standard_normal((2, 3, size)), rng.standard_normal((4, 3, kernel))
        out, pull = ng.vjp(lambda x: lax.conv(x, w, (stride,), "VALID"), x)  # noqa: B023
        g = rng.standard_normal(out.shape)
        (want,) = pull(g)
        numbers = ("NCH", "OIH", "NCH")
        got = lax.conv_transpose(
            g, w, (stride,), "VALID", dimension_numbers=numbers, transpose_kernel=True, output_padding=(0,)
        )
        shared = min(size, got.shape[2])
        onp.testing.assert_allclose(onp.asarray(got)[..., :shared], onp.asarray(want)[..., :shared], rtol=1e-12)
        assert not onp.asarray(want)[..., shared:].any()
    x, w = rng.standard_normal((1, 4, 4, 2)), rng.standard_normal((3, 3, 2, 5))
    assert lax.conv_transpose(x, w, (2, 2), "SAME").shape == (1, 8, 8, 5)
    assert lax.conv_transpose(x, w, (2, 2), [(1, 1), (1, 1)], output_padding=(1, 0)).shape == (1, 8, 7, 5)
    check_grads(lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME"), [np.asarray(x), np.asarray(w)], order=2)


def test_patches():
    x = onp.arange(24.0).reshape(1, 2, 3, 4)
    got = onp.asarray(lax.conv_general_dilated_patches(x, (2, 2), (1, 1), "VALID"))
    assert got.shape == (1, 8, 2, 3)
    onp.testing.assert_array_equal(got[0, :, 1, 2], x[0, :, 1:3, 2:4].reshape(-1))


def test_founding_case():
    """Strided SAME convolution, overlapping SAME max-pool, dense, mean: the gradient of every weight."""
    rng = onp.random.default_rng(6)
    x = rng.standard_normal((2, 16, 16, 1))
    numbers = ("NHWC", "HWIO", "NHWC")

    def model(w, dense):
        h = lax.conv_general_dilated(x, w, (2, 2), "SAME", dimension_numbers=numbers)
        h = lax.reduce_window(h, -onp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
        return np.mean(np.tanh(h.reshape(2, -1) @ dense))

    w, dense = rng.standard_normal((7, 7, 1, 4)) * 0.1, rng.standard_normal((4 * 4 * 4, 3)) * 0.1
    check_grads(model, [np.asarray(w), np.asarray(dense)], order=1)  # differences of a gradient would cross its jumps
    inner_product_identity(ng.grad(model, (0, 1)), [np.asarray(w), np.asarray(dense)])


def test_gradient_of_the_gradient_penalty():
    rng = onp.random.default_rng(7)
    x, w = np.asarray(rng.standard_normal((2, 2, 6, 5))), np.asarray(rng.standard_normal((4, 1, 3, 2)))
    options = dict(lhs_dilation=(1, 2), rhs_dilation=(1, 2), feature_group_count=2)
    f = lambda x, w: (lax.conv_general_dilated(x, w, (2, 1), ((2, -1), (0, 1)), **options) ** 3).sum()
    check_grads(ng.grad(f, (0, 1)), [x, w], order=2)
    inner_product_identity(ng.grad(f, (0, 1)), [x, w])


@pytest.mark.parametrize("dtype", [onp.int32, onp.int64, onp.complex64, onp.complex128])
def test_other_numbers(dtype):
    rng = onp.random.default_rng(8)
    x, w = (onp.asarray(rng.integers(-9, 9, s) * (1 if onp.dtype(dtype).kind == "i" else 1 + 0.5j), dtype)
            for s in ((2, 2, 6), (3, 2, 3)))  # fmt: skip
    got = lax.conv(x, w, (2,), "SAME")
    want = reference.conv(x, w, groups=1, strides=(2,), padding=((0, 1),), lhs_dilation=(1,), rhs_dilation=(1,))
    assert got.dtype == dtype
    onp.testing.assert_allclose(onp.asarray(got), want, rtol=1e-6)


def test_sums_in_the_preferred_type():
    x, w = onp.full((1, 1, 4), 100, onp.int8), onp.full((1, 1, 2), 2, onp.int8)
    got = lax.conv_general_dilated(x, w, (1,), "VALID", preferred_element_type=onp.int32)
    assert got.dtype == onp.int32 and onp.asarray(got).tolist() == [[[400] * 3]]


def test_long_float32_sums():
    """200,704 equal terms: the error of a sum that is taken one by one would be 2e-3."""
    x, w = onp.full((1, 4096, 7, 7), 0.1, onp.float32), onp.ones((1, 4096, 7, 7), onp.float32)
    onp.testing.assert_allclose(float(lax.conv(x, w, (1, 1), "VALID").sum()), 200704 * float(x[0, 0, 0, 0]), rtol=3e-6)


X, W = onp.ones((1, 2, 5)), onp.ones((3, 2, 3))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: lax.conv(X[0], W, (1,), "SAME"), r"ranks differ.*x\[None\]"),
        (lambda: lax.conv(X, W[:, :1], (1,), "SAME"), "channels do not fit"),
        (lambda: lax.conv(X, W, (1, 1), "SAME"), "window_strides does not fit"),
        (lambda: lax.conv(X, W, (0,), "SAME"), "window_strides does not fit"),
        (lambda: lax.conv(X, W, (1,), "SOME"), "no such padding"),
        (lambda: lax.conv_general_dilated(X, W, (1,), [(1, 1)] * 2), "padding does not fit"),
        (lambda: lax.conv_general_dilated(X, W[:, :1], (1,), "SAME", feature_group_count=2), "not divisible"),
        (lambda: lax.conv_general_dilated(X, W, (1,), "SAME", batch_group_count=3), "not divisible"),
        (lambda: lax.conv_general_dilated(X, W, (1,), "SAME", dimension_numbers=("NHC", "OIW", "NCW")), "each axis"),
        (lambda: lax.conv(X, W, 2, "SAME"), "window_strides is not made of integers"),
        (lambda: lax.conv_general_dilated(X, W, (1,), 1), "padding is not made of pairs"),
        (lambda: lax.conv_general_dilated(X, W, (1,), [1]), "padding is not made of pairs"),
        (lambda: lax.conv_transpose(X, W, (1,), [(1, 1), (2, 2)]), "conv_transpose: padding does not fit"),
        (lambda: lax.conv_general_dilated(X, W, (1,), "SAME", dimension_numbers=("NCH", "OIH")), "not letters"),
        (lambda: lax.conv(X > 0, W > 0, (1,), "SAME"), "not numbers"),
        (lambda: np.convolve([], [1.0]), "empty"),
        (lambda: np.convolve([[1.0]], [1.0]), "not signals"),
        (lambda: np.correlate([1.0], [1.0], "middle"), "no such mode"),
        (lambda: signal.convolve(X, W[0]), "numbers of axes differ"),
        (lambda: signal.convolve(onp.ones((2, 5)), onp.ones((3, 3)), "valid"), "neither fits"),
        (lambda: signal.convolve2d(X, W), "not two axes"),
    ],
)
def test_errors(call, words):
    with pytest.raises((ValueError, TypeError), match=f"(?s){words}"):
        call()


# --- signals


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("name", ["convolve", "correlate"])
def test_signals_as_numpy(name, mode):
    rng = onp.random.default_rng(9)
    for n, k in ((1, 1), (5, 1), (1, 4), (5, 2), (6, 5), (2, 5), (5, 5), (4, 6)):
        for dtype in (onp.float64, onp.float32, onp.complex128, onp.int64):
            turn = 1 + 2j if dtype == onp.complex128 else 1
            a, v = (rng.standard_normal(m) * 4 * turn for m in (n, k))
            a, v = a.astype(dtype), v.astype(dtype)
            want, got = getattr(onp, name)(a, v, mode), getattr(np, name)(a, v, mode)
            assert got.dtype == want.dtype
            onp.testing.assert_allclose(onp.asarray(got), want, rtol=1e-5 if dtype == onp.float32 else 1e-12, atol=1e-5)
        real = [np.asarray(rng.standard_normal(m)) for m in (n, k)]
        check_grads(lambda a, v: getattr(np, name)(a, v, mode), real, order=2)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("name", ["convolve", "correlate"])
def test_arrays_as_scipy(name, mode):
    rng = onp.random.default_rng(10)
    for a, b in (((5, 6), (2, 3)), ((4, 3), (4, 3)), ((3, 2, 4), (2, 2, 1)), ((2, 3), (4, 5)), ((5,), (3,)), ((), ())):
        x, w = rng.standard_normal(a), rng.standard_normal(b)
        want = getattr(scipy_signal, name)(x, w, mode, method="direct")
        onp.testing.assert_allclose(onp.asarray(getattr(signal, name)(x, w, mode)), want, atol=1e-12)


@pytest.mark.parametrize("boundary", ["fill", "wrap", "symm"])
@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_matrices_with_boundaries_as_scipy(mode, boundary):
    rng = onp.random.default_rng(11)
    x, w = rng.standard_normal((6, 5)), rng.standard_normal((3, 4))
    for name in ("convolve2d", "correlate2d"):
        for fill in (0, 1.5):
            want = getattr(scipy_signal, name)(x, w, mode, boundary, fill)
            got = getattr(signal, name)(x, w, mode, boundary, fill)
            onp.testing.assert_allclose(onp.asarray(got), want, atol=1e-12)


def test_convolution_over_some_axes():
    rng = onp.random.default_rng(12)
    x, w = rng.standard_normal((3, 6)), rng.standard_normal((1, 3))
    want = scipy_signal.fftconvolve(x, w, "same", axes=1)
    onp.testing.assert_allclose(onp.asarray(signal.fftconvolve(x, w, "same", axes=1)), want, atol=1e-12)
    assert list(signal.correlation_lags(3, 2)) == [-1, 0, 1, 2]


def test_long_kernels_leave_the_stack_alone():
    """A kernel too long for the plane's room goes by patches; a long signal is cut into bands."""
    rng = onp.random.default_rng(13)
    for n, k in ((60_000, 30_000), (200_000, 50)):
        x, w = rng.standard_normal(n), rng.standard_normal(k)
        got = onp.asarray(np.convolve(x, w, "valid"))
        onp.testing.assert_allclose(got, scipy_signal.fftconvolve(x, w, "valid"), atol=1e-9)
