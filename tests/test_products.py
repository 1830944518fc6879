"""Matrix products on the CPU: whoever multiplies, BLAS or our tiles, and however the operands lie."""

import numpy as onp
import pytest

import numbagrad as ng
import numbagrad.numpy as np
from numbagrad.kernels.cpu import contract, gemm, vector
from numbagrad.testing import check_grads

RNG = onp.random.default_rng(4)
# for BLAS in one call, in several by rows and by columns, with its threads; for tiles with rows and columns left over
SIZES = {
    "few": (5, 6, 7),
    "by rows": (300, 10, 256),
    "by columns": (12, 500, 200),
    "narrow and many": (30_000, 9, 20),
    "vector": (700, 1, 700),
    "even": (256, 256, 256),
    "left over": (137, 161, 301),
    "wide": (40, 3001, 65),
    "shallow": (1100, 1031, 3),
    "deep": (64, 96, 1500),
    "stack": (4, 67, 70, 90),
    "stacks": (2, 3, 64, 65, 66),
}
LAYOUTS = {
    "rows": lambda x: x,
    "columns": lambda x: onp.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2),
    "backwards": lambda x: onp.ascontiguousarray(x[..., ::-1, :])[..., ::-1, :],
    "every other": lambda x: onp.repeat(x, 2, -1)[..., ::2],
    "part of": lambda x: onp.pad(x, [(0, 0)] * (x.ndim - 1) + [(3, 5)])[..., 3:-5],
}


def operands(size, dtype):
    *stack, m, n, k = SIZES[size]
    made = [RNG.standard_normal((*stack, *shape)) for shape in ((m, k), (k, n))]
    if onp.dtype(dtype).kind == "c":
        made = [x + 1j * RNG.standard_normal(x.shape) for x in made]
    return [x.astype(dtype) for x in made]


def close(got, want, depth):
    eps = onp.finfo(got.dtype).eps
    onp.testing.assert_allclose(got, want, rtol=8 * eps, atol=8 * eps * depth)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
def test_values(size, dtype):
    a, b = operands(size, dtype)
    want = onp.matmul(*(x.astype("complex128" if dtype == "complex64" else "float64") for x in (a, b)))
    close(onp.asarray(np.matmul(a, b)), want, a.shape[-1])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("size", ["by columns", "left over", "wide", "stack"])
def test_layouts(size, layout):
    a, b = operands(size, "float32")
    want = onp.asarray(np.matmul(a, b))
    for left, right in ((LAYOUTS[layout](a), b), (a, LAYOUTS[layout](b))):
        close(onp.asarray(np.matmul(left, right)), want, a.shape[-1])


def test_stacks_are_broadcast():
    a, b = operands("stacks", "float64")
    close(onp.asarray(np.matmul(a[:1], b)), onp.matmul(a[:1], b), 66)
    close(onp.asarray(np.matmul(a, b[0, 1])), onp.matmul(a, b[0, 1]), 66)
    close(gemm.product(a[0], b), onp.matmul(a[0], b), 66)


@pytest.mark.parametrize("size", ["even", "left over", "wide", "stack"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_results_do_not_depend_on_the_number_of_threads(size, dtype, monkeypatch):
    a, b = operands(size, dtype)
    found = []
    for threads in ("1", "2", "3", "12"):
        monkeypatch.setenv("NUMBAGRAD_NUM_THREADS", threads)
        found.append(onp.asarray(np.matmul(a, b)))
    for other in found[1:]:
        onp.testing.assert_array_equal(other, found[0])


@pytest.mark.parametrize("size", ["by rows", "even", "left over", "wide", "stack"])
@pytest.mark.parametrize("bad", [onp.inf, -onp.inf, onp.nan])
def test_zeros_absorb(size, bad):
    """Of an operand that is a cotangent; a term that is not finite shows wherever it is not met by a zero."""
    a, b = operands(size, "float32")
    a[..., -1, :] = 0
    b[..., 3, 5] = bad
    stack = tuple(range(a.ndim - 2))
    settings = dict(contract=((a.ndim - 1,), (a.ndim - 2,)), batch=(stack, stack))
    got = contract.dot_general(a, b, absorbs=(0,), **settings)
    assert (got[..., -1, :] == 0).all()
    others = onp.delete(got[..., :-1, :], 5, -1)
    assert onp.isfinite(others).all() and not onp.isfinite(got[..., :-1, 5]).any()


@pytest.mark.parametrize("places", [(0, 0), (136, 160), (70, 0)])
def test_what_is_not_finite_is_seen(places):
    a, b = operands("left over", "float64")
    out = onp.empty((137, 161))
    assert gemm.matmul(a, b, out, look=True) is True
    a[places[0], 7] = onp.nan
    assert gemm.matmul(a, b, out, look=True) is False


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_vectors_of_other_processors(dtype, monkeypatch):
    """The tile of 16 registers; and without wide vectors everything is BLAS's."""
    a, b = operands("left over", dtype)
    want, out = onp.matmul(a.astype("float64"), b.astype("float64")), onp.empty((137, 161), dtype)
    for width in (32, 16):
        for cached in (gemm._kernel, gemm._plan):
            cached.cache_clear()
        with monkeypatch.context() as patch:
            for module in (gemm, vector):
                patch.setattr(module, "vector_bytes", lambda width=width: width)
            assert gemm.matmul(a, b, out, look=True) is (True if width == 32 else None)
        close(out, want, 301)
    for cached in (gemm._kernel, gemm._plan):
        cached.cache_clear()


def test_gradients():
    w = RNG.standard_normal((128, 130))
    check_grads(lambda x: np.tanh(x @ w * 0.01) @ w.T, (RNG.standard_normal((140, 128)),), order=2)


def test_products_in_threads_of_the_user():
    from concurrent.futures import ThreadPoolExecutor

    a, b = operands("left over", "float32")
    want = onp.asarray(np.matmul(a, b))
    with ThreadPoolExecutor(4) as pool:
        for got in pool.map(lambda _: onp.asarray(ng.device_put(a, "cpu") @ b), range(40)):
            onp.testing.assert_array_equal(got, want)
