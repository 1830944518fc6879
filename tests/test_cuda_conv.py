"""CUDA convolutions against plain NumPy: any geometry, every kernel, splitting, absorbing zeros, and what is chosen."""

import math
import re

import numpy as onp
import pytest
from cuda_emulated import DEVICE, put_strided
from samples import conv as reference

from numbagrad.kernels.cpu import conv as cpu
from numbagrad.kernels.cuda import conv as kernels
from numbagrad.kernels.cuda import conv_axes
from numbagrad.kernels.cuda.devices import find
from numbagrad.kernels.cuda.gemm import TILES, accumulator
from numbagrad.testing import tolerance

pytestmark = pytest.mark.slow  # the table's values are the quick check of these kernels

DEVICE = find(DEVICE)
INF, NAN = onp.inf, onp.nan


@pytest.fixture(autouse=True)
def fresh_plans():
    """Plans of this test's constants only."""
    kernels._plan.cache_clear()
    yield
    kernels._plan.cache_clear()


@pytest.fixture
def by_tiles(monkeypatch):
    """Small operands, too; a number picks the tile, from the largest on."""

    def choose(number=None):
        for name, value in (("FEW", -1), ("FEW_TARGETS", 0), ("IDLE", 0), ("PIECE", 1 << 20)):
            monkeypatch.setattr(kernels, name, value)
        if number is not None:
            pick = lambda dtype: TILES[accumulator(dtype).itemsize][number : number + 1]
            monkeypatch.setattr(kernels, "_tiles", pick)
        kernels._plan.cache_clear()

    return choose


def numbers(rng, shape, dtype):
    dtype = onp.dtype(dtype)
    if dtype.kind in "iu":
        return rng.integers(0 if dtype.kind == "u" else -4, 5, shape).astype(dtype)
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if dtype.kind == "c" else x).astype(dtype)


def settings(axes, strides=None, padding=None, lhs=None, rhs=None, groups=1):
    ones = (1,) * axes
    return dict(
        groups=groups,
        strides=strides or ones,
        padding=padding or ((0, 0),) * axes,
        lhs_dilation=lhs or ones,
        rhs_dilation=rhs or ones,
    )


def random_case(rng, axes, channels=4, outputs=6):
    """Shapes and every option, padding that crops among them."""
    several = lambda low, high: tuple(int(v) for v in rng.integers(low, high, axes))
    groups = int(rng.integers(1, 3))
    spatial, taps = several(1, 9 if axes < 3 else 5), several(1, 5 if axes < 3 else 3)
    padding = tuple(zip(several(-2, 4), several(-2, 4), strict=True))
    params = settings(axes, several(1, 4), padding, several(1, 4), several(1, 4), groups)
    c, o = int(rng.integers(1, channels)), int(rng.integers(1, outputs))
    return (int(rng.integers(1, 4)), groups * c, *spatial), (groups * o, c, *taps), params


def check(rng, x_shape, w_shape, params, dtype="float64", launches=1, put=DEVICE.put):
    """All three products, float32 against float64, each by so many launches."""
    wide = {"float32": "float64", "complex64": "complex128"}.get(onp.dtype(dtype).name, dtype)
    x, w = numbers(rng, x_shape, dtype), numbers(rng, w_shape, dtype)
    want = reference.conv(x.astype(wide), w.astype(wide), **params)
    g = numbers(rng, want.shape, dtype)
    spatial, taps = x_shape[2:], w_shape[2:]
    cases = (
        (kernels.conv, x, w, want, {}),
        (kernels.conv_input, g, w, reference.conv_input(*wides(wide, g, w), shape=spatial, **params), spatial),
        (kernels.conv_weight, x, g, reference.conv_weight(*wides(wide, x, g), shape=taps, **params), taps),
    )
    for function, a, b, want, shape in cases:
        a, b = put(a), put(b)
        before = DEVICE.counts["launch"]
        got = function(a, b, **params, **(dict(shape=shape) if function is not kernels.conv else {}))
        used = DEVICE.counts["launch"] - before
        assert used == (launches if got.size and a.size and b.size else bool(got.size))
        got = onp.asarray(got)
        assert (got.shape, got.dtype) == (want.shape, onp.dtype(dtype))
        if got.dtype.kind in "iu":
            onp.testing.assert_array_equal(got, want.astype(dtype))
        else:
            onp.testing.assert_allclose(got, want, **tolerance(dtype, 4))  # sums of up to 630 terms of order one


def wides(dtype, *arrays):
    return [a.astype(dtype) for a in arrays]


# ------------------------------------------------------------------------------- a thread a result


@pytest.mark.parametrize("axes", [0, 1, 2, 3])
def test_any_geometry(axes):
    rng = onp.random.default_rng(axes)
    for _ in range(8 if axes else 2):
        check(rng, *random_case(rng, axes))


@pytest.mark.parametrize("dtype", ["float32", "complex64", "complex128", "int32", "uint8", "int64"])
def test_dtypes(dtype):
    rng = onp.random.default_rng(1)
    check(rng, (2, 4, 7), (6, 2, 3), settings(1, (2,), ((1, 2),), groups=2), dtype)


def test_many_products_are_summed_in_pairs(monkeypatch):
    """A long filter: float32 loses next to nothing."""
    rng = onp.random.default_rng(2)
    x, w = (rng.standard_normal((1, 1, n)).astype(onp.float32) + 100 for n in (5000, 4990))
    monkeypatch.setattr(kernels, "PIECE", 1 << 20)
    params = settings(1)
    plan = kernels._plan("conv", DEVICE, x.dtype, x.shape, w.shape, None, *params.values())
    assert plan.kernel.name.endswith("_precise")
    got = onp.asarray(kernels.conv(DEVICE.put(x), DEVICE.put(w), **params))
    onp.testing.assert_allclose(got, reference.conv(*wides(float, x, w), **params), rtol=2e-7)


def test_long_weight_gradients_are_split():
    """Few weights: threads share each, and parts are added by a second launch."""
    rng = onp.random.default_rng(3)
    x, g = (rng.standard_normal((2, 1, n)).astype(onp.float32) + 10 for n in (12002, 12000))
    params = settings(1)
    before = DEVICE.counts["launch"]
    got = kernels.conv_weight(DEVICE.put(x), DEVICE.put(g), shape=(3,), **params)
    assert DEVICE.counts["launch"] - before == 2
    onp.testing.assert_allclose(
        onp.asarray(got), reference.conv_weight(*wides(float, x, g), shape=(3,), **params), rtol=2e-7
    )


# ------------------------------------------------------------------------------- tiles

EDGES = (  # more rows, columns and products than one tile has, and remainders
    ((3, 5, 9, 8), (70, 5, 3, 3), settings(2, padding=((1, 1), (1, 1)))),
    ((2, 6, 7, 10), (8, 3, 2, 3), settings(2, (2, 3), ((1, 0), (-1, 2)), groups=2)),
    ((2, 3, 6, 5), (5, 3, 3, 2), settings(2, (2, 1), ((2, 1), (0, 3)), (3, 2), (1, 2))),
)


@pytest.mark.parametrize(("dtype", "number"), [("float32", 0), ("float32", 1), ("float32", 2), ("float64", 0)])
def test_tiles(dtype, number, by_tiles):
    by_tiles(number)
    rng = onp.random.default_rng(4)
    for case in EDGES:
        check(rng, *case, dtype)


@pytest.mark.parametrize("dtype", ["complex64", "complex128", "uint8"])
def test_tiles_of_other_types(dtype, by_tiles):
    by_tiles(1 if dtype == "uint8" else 0)
    check(onp.random.default_rng(5), (2, 6, 40), (66, 3, 3), settings(1, (2,), ((1, 2),), groups=2), dtype)


@pytest.mark.parametrize("axes", [0, 1, 3])
def test_tiles_along_any_number_of_axes(axes, by_tiles):
    by_tiles(1)
    rng = onp.random.default_rng(6)
    for _ in range(4 if axes else 1):
        check(rng, *random_case(rng, axes, 9, 70), "float32")


def test_every_geometry_of_the_table_by_tiles(by_tiles):
    """What the registry's table has: no taps, no channels, no batch, taps that read nothing."""
    by_tiles(1)
    rng = onp.random.default_rng(7)
    for n, c, o, groups, spatial, taps, s, pads, b, d in reference.GEOMETRIES:
        options = settings(len(s), s, pads, b, d, groups)
        check(rng, (n, groups * c, *spatial), (groups * o, c, *taps), options, "float32")


def test_parts(by_tiles, monkeypatch):
    """Few results of many products: parts, which a second launch adds."""
    by_tiles(1)
    monkeypatch.setattr(kernels, "PIECE", 16)
    rng = onp.random.default_rng(8)
    launches = []
    for case in EDGES:
        x, w, params = case
        plan = kernels._plan("conv", DEVICE, onp.dtype("f4"), x, w, None, *params.values())
        launches.append(1 + (plan.pieces > 1))
        check_parts(rng, *case)
    assert 2 in launches
    monkeypatch.setattr(kernels, "LONG", 24)
    kernels._plan.cache_clear()
    check_parts(rng, *EDGES[0])


def check_parts(rng, x, w, params):
    x, w = numbers(rng, x, "float32"), numbers(rng, w, "float32")
    want = reference.conv(*wides(float, x, w), **params)
    g = numbers(rng, want.shape, "float32")
    taps, spatial = w.shape[2:], x.shape[2:]
    for name, a, b, more in (
        ("conv", x, w, {}),
        ("conv_input", g, w, dict(shape=spatial)),
        ("conv_weight", x, g, dict(shape=taps)),
    ):
        want = getattr(reference, name)(*wides(float, a, b), **params, **more)
        got = getattr(kernels, name)(DEVICE.put(a), DEVICE.put(b), **params, **more)
        onp.testing.assert_allclose(onp.asarray(got), want, **tolerance("float32"))


# ------------------------------------------------------------------------------- large indices


@pytest.mark.parametrize("tiles", [False, True])
def test_large_indices(tiles, by_tiles, monkeypatch):
    """The twin for 2**31 elements and more, on few."""
    monkeypatch.setattr(conv_axes, "LARGE", 1)
    if tiles:
        by_tiles(1)
    rng = onp.random.default_rng(9)
    for case in EDGES[1:]:
        check(rng, *case, "float32")


# ------------------------------------------------------------------------------- absorbing zeros


def spoiled(rng, shape):
    """Many zeros, some numbers that are not finite."""
    x = rng.standard_normal(shape)
    x[rng.random(shape) < 0.4] = 0
    x[rng.random(shape) < 0.03] = NAN
    x[rng.random(shape) < 0.03] = INF
    return x


@pytest.mark.parametrize("tiles", [False, True])
@pytest.mark.parametrize("absorbs", [(0,), (1,), (0, 1)])
def test_absorbing_zeros(absorbs, tiles, by_tiles, monkeypatch):
    """0 * inf and 0 * nan are 0 where the CPU's are, padding included; what else meets them does not stay finite."""
    if tiles:
        by_tiles(1)
        monkeypatch.setattr(kernels, "PIECE", 16)
    rng = onp.random.default_rng(10)
    params = settings(2, (1, 2), ((1, 1), (1, 0)))
    mended = kept = 0
    for _ in range(4):
        x, w = spoiled(rng, (2, 2, 5, 6)), spoiled(rng, (5, 2, 2, 3))
        with onp.errstate(all="ignore"):
            g = spoiled(rng, cpu.conv(x, w, **params).shape)
        for name, a, b, more in (
            ("conv", x, w, {}),
            ("conv_input", g, w, dict(shape=x.shape[2:])),
            ("conv_weight", x, g, dict(shape=w.shape[2:])),
        ):
            with onp.errstate(all="ignore"):
                want = getattr(cpu, name)(a, b, absorbs=absorbs, **params, **more)
                plain = getattr(cpu, name)(a, b, **params, **more)
            got = onp.asarray(getattr(kernels, name)(DEVICE.put(a), DEVICE.put(b), absorbs=absorbs, **params, **more))
            finite = onp.isfinite(want)
            onp.testing.assert_allclose(got[finite], want[finite], rtol=1e-12, atol=1e-12)
            assert not onp.isfinite(got[~finite]).any()
            mended += (finite & ~onp.isfinite(plain)).sum()
            kept += (~finite).sum()
    assert kept > 20
    assert mended > 20


def test_an_infinity_beside_an_absorbed_product():
    """The sum goes on without it: inf * 1 + 0 * inf is inf."""
    x, w = onp.array([[[INF, INF]]]), onp.array([[[1.0, 0.0]]])
    got = kernels.conv(DEVICE.put(x), DEVICE.put(w), absorbs=(1,), **settings(1))
    assert onp.asarray(got).item() == INF
    assert onp.isnan(onp.asarray(kernels.conv(DEVICE.put(x), DEVICE.put(w), absorbs=(), **settings(1)))).all()


# ------------------------------------------------------------------------------- layouts, choice


@pytest.mark.parametrize("layout", ["step", "reverse", "fortran"])
def test_strided_operands(layout):
    """Copied first: a launch more for each."""
    put = lambda x: put_strided(x, layout)._value
    check(onp.random.default_rng(11), (2, 4, 5, 6), (4, 4, 2, 3), settings(2), launches=3, put=put)


def plan(which, a, b, shape=None, dtype="float32", **options):
    axes = len(a) - 2
    return kernels._plan(which, DEVICE, onp.dtype(dtype), a, b, shape, *settings(axes, **options).values())


def test_what_is_chosen():
    """Tiles for the layers of a network: large ones where there is work for all multiprocessors, else parts."""
    pads = ((1, 1), (1, 1))
    wide = plan("conv", (32, 256, 28, 28), (256, 256, 3, 3), padding=pads)
    assert (wide.kernel.name, wide.pieces) == ("conv_128x128_f32_2", 1)
    late = plan("conv", (1, 512, 7, 7), (512, 512, 3, 3), padding=pads)
    assert late.kernel.name.startswith("conv_64x64")
    assert late.pieces > 1
    assert late.grid >= kernels.FULL // 2
    weights = plan("conv_weight", (32, 64, 56, 56), (32, 64, 56, 56), (3, 3), padding=pads)
    assert weights.kernel.name.startswith("conv_weight_64x64")
    assert weights.pieces > 8
    depthwise = plan("conv", (32, 256, 28, 28), (256, 1, 3, 3), padding=pads, groups=256)
    assert depthwise.kernel.name == "conv_direct_f32_2"
    depthwise = plan("conv_weight", (32, 256, 28, 28), (32, 256, 28, 28), (3, 3), padding=pads, groups=256)
    assert depthwise.kernel.name.startswith("conv_weight_direct_f32_2")
    pixels = plan("conv_input", (32, 64, 112, 112), (64, 3, 7, 7), (224, 224), strides=(2, 2), padding=((3, 2),) * 2)
    assert pixels.kernel.name.startswith("conv_direct_f32_2_phases")
    pointwise = plan("conv", (32, 64, 56, 56), (256, 64, 1, 1))
    assert pointwise.kernel.name.endswith("f32_1")  # its places are one axis
    huge = plan("conv", (1 << 10, 64, 256, 256), (64, 64, 3, 3), padding=pads)
    assert huge.kernel.name.endswith("_large")
    assert math.prod(huge.shape) >= 1 << 31


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_machine_code_of_tiles(arch):
    """Sums stay in registers, tiles are read four numbers at a time. The registry's samples are too small for them."""
    pytest.importorskip("numba_cuda", reason="compiling for GPUs needs numba-cuda")
    pytest.importorskip("cuda.core", reason="compiling for GPUs needs cuda-core")
    from numbagrad.kernels.cuda import conv_tile, cubin

    single = onp.dtype(onp.float32)
    made = [conv_tile.tile_kernel(TILES[4][0], single, True, 2, weight, "uint32") for weight in (False, True)]
    made.append(conv_tile.tile_kernel(TILES[16][0], onp.dtype(complex), False, 2, True, "uint32"))
    for kernel in made:
        _, _, log = cubin.build(kernel, arch)
        assert "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads" in log, kernel
        assert int(re.search(r"Used (\d+) registers", log)[1]) <= 128, kernel
        text, _ = cubin.ptx(kernel, arch)
        if kernel.signature[0] == "f32*":
            assert ".f64" not in text, kernel
            assert "ld.shared.v4.f32" in text, kernel
