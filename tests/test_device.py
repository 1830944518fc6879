"""Arrays on devices: moving them, where new ones go, mixing, and what a device finds wrong."""

from __future__ import annotations

import copy
import pickle
import threading
import warnings

import numpy as onp
import pytest
from cuda_emulated import DEVICE
from processes import run

import numbagrad as ng
import numbagrad.numpy as np
from numbagrad import config, lax, nn, ops, random
from numbagrad.core.array import Array
from numbagrad.core.device import default
from numbagrad.kernels.cuda.devices import find
from numbagrad.testing import tolerance

V = onp.array([1.0, 2.0, 3.0])
M = onp.arange(6.0).reshape(2, 3)


def put(x):
    return ng.device_put(x, DEVICE)


def equal(x, want, device=DEVICE):
    assert x.device == device, f"on {x.device}"
    onp.testing.assert_array_equal(onp.asarray(x), want)


# ------------------------------------------------------------------------------------------- device_put


def test_devices():
    assert ng.devices()[0] == "cpu" and DEVICE not in ng.devices()


def test_pytrees():
    tree = {"a": [1.0, onp.arange(3)], "b": (np.asarray(2.0), None)}
    there = ng.device_put(tree, DEVICE)
    equal(there["a"][1], [0, 1, 2])
    assert [there["a"][0].device, there["b"][0].device, there["b"][1]] == [DEVICE, DEVICE, None]
    back = ng.device_put(there, "cpu")
    equal(back["a"][1], [0, 1, 2], "cpu")


def test_without_a_device_arrays_stay():
    assert ng.device_put(put(V)).device == DEVICE
    assert ng.device_put(V).device == ng.device_put(np.asarray(V)).device == "cpu"


def test_what_is_moved_is_a_copy():
    host = V.copy()
    moved = put(host), ng.device_put(host, "cpu")
    host[:] = 9
    for x in moved:
        assert x.tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("order", [1, 2, 3])
def test_derivative(order):
    """There and back, differentiated again and again: gradients are where the arguments are."""

    def f(x):
        y = ng.device_put(x, DEVICE)
        return np.sum(ng.device_put(y * y * put(V), "cpu") * x)

    g = f
    for _ in range(order):
        g = ng.grad(lambda x, g=g: np.sum(g(x)))
    for x in (np.asarray(V), onp.asarray(V)):
        assert g(x).device == "cpu"
        want = [3 * V * V**2, 6 * V * V, 6 * V][order - 1]
        onp.testing.assert_allclose(onp.asarray(g(x)), want, **tolerance("float64"))


def test_forward_mode():
    out, t = ng.jvp(lambda x: ng.device_put(x * x, DEVICE), (np.asarray(V),), (np.ones(3),))
    equal(out, V * V)
    equal(t, 2 * V)


def test_transforms_stay():
    f = lambda x: np.sum(np.tanh(x) ** 2)
    x, c = put(V), np.asarray(V)
    for made, want in (
        (ng.hessian(f)(x), ng.hessian(f)(c)),
        (ng.jacrev(np.sin)(x), ng.jacrev(np.sin)(c)),
        (ng.jacfwd(np.sin)(x), ng.jacfwd(np.sin)(c)),
        (ng.hvp(f, x, x), ng.hvp(f, c, c)),
        (ng.linearize(f, x)[1](x), ng.linearize(f, c)[1](c)),
        (ng.grad(ng.checkpoint(f))(x), ng.grad(f)(c)),
        (ng.value_and_grad(f)(x)[0], f(c)),
        (ng.grad(lambda v: 1.0 * np.sum(V))(x), onp.zeros(3)),
    ):
        assert made.device == DEVICE
        onp.testing.assert_allclose(onp.asarray(made), onp.asarray(want), **tolerance("float64"))


BAD = ["cuda:7", "cuda", "tpu", "cuda:x"]


@pytest.mark.parametrize("name", BAD)
def test_a_device_that_is_not_there(name):
    if name in ng.devices() or (name == "cuda" and len(ng.devices()) > 1):
        pytest.skip("it is there")
    calls = {
        "device_put": lambda: ng.device_put(V, name),
        "to_device": lambda: np.asarray(V).to_device(name),
        "zeros": lambda: np.zeros(3, device=name),
        "asarray": lambda: np.asarray(V, device=name),
        "default_device": lambda: ng.default_device(name),
    }
    for op, call in calls.items():
        with pytest.raises(ng.DeviceError, match=f"^{op}: there is no .*: got .*; needed "):
            call()
    assert default() is None


# ------------------------------------------------------------------------------------------- the array's side


def test_methods():
    x = np.asarray(M).to_device(DEVICE)
    equal(x, M)
    equal(x.to_device("cpu"), M, "cpu")
    equal(x.astype("float32"), M.astype("float32"))
    assert x.astype("int32", device="cpu").device == "cpu"
    assert (float(x[1, 2]), int(x[0, 1]), x.item(5), bool(x[0, 0]), x[1].tolist()) == (5.0, 1, 5.0, False, [3, 4, 5])
    assert repr(x[0]) == f"Array([0., 1., 2.], dtype=float64, device='{DEVICE}')"
    assert str(x[0]) == "[0. 1. 2.]" and f"{x[0, 1]:.1f}" == "1.0"
    assert onp.asarray(x).tolist() == M.tolist() and onp.asarray(x, onp.float32).dtype == onp.float32
    for twin in (copy.copy(x), copy.deepcopy(x), x.copy()):
        equal(twin, M)
    out = onp.zeros_like(M)
    onp.add(x, x, out=out)
    assert out.tolist() == (2 * M).tolist()


def test_assignment_writes_only_to_its_own():
    x = put(V)
    device = find(DEVICE)
    before = device.counts
    x[1] = 9.0
    assert device.counts["allocate"] == before["allocate"] and device.counts["put"] == before["put"]
    equal(x, [1, 9, 3])
    y, part = Array(x._value), x[:2]
    x[0] = 5.0
    equal(x, [5, 9, 3])
    equal(y, [1, 9, 3])
    equal(part, [1, 9])
    x[:2] = x[1:]
    equal(x, [9, 3, 3])
    z = np.zeros(4, device=DEVICE)
    z[:] = [1, 2, 3, 4]
    equal(z, [1, 2, 3, 4])
    g = ng.grad(lambda v: np.sum(_assign(v)))(put(V))
    equal(g, [0, 1, 1])


def _assign(v):
    v = v * 1.0
    v[0] = 2.0
    return v


def test_pickle():
    x = pickle.loads(pickle.dumps({"w": put(M.T)}))["w"]
    equal(x, M.T)


def test_pickle_of_a_device_that_is_not_there(monkeypatch):
    text = pickle.dumps(put(V))
    renamed = text.replace(DEVICE.encode(), b"cuda:12345678"[: len(DEVICE)])
    with pytest.warns(UserWarning, match=r"there is no cuda:\d+.*The array is on the CPU now"):
        equal(pickle.loads(renamed), V, "cpu")


def test_block_until_ready():
    x = put(V)
    device = find(DEVICE)
    before = device.counts["synchronize"]
    assert x.block_until_ready() is x
    tree = {"a": x, "b": np.asarray(V), "c": 3}
    assert ng.block_until_ready(tree) is tree
    assert device.counts["synchronize"] == before + 2


WRONG = {
    "x[i]": lambda x, i: x[i],
    "x[i, i]": lambda x, i: x.reshape(1, 3)[i * 0, i],
    "x.at": lambda x, i: x.at[i].add(1.0),
    "take": lambda x, i: np.take(x, i),
    "take_along_axis": lambda x, i: np.take_along_axis(x, i, 0),
    "labels": lambda x, i: nn.softmax_cross_entropy_with_integer_labels(np.stack([x, x]), i),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_index_raises_at_the_next_wait(name):
    found = WRONG[name](put(V), put(onp.array([0, 3])))
    with pytest.raises(IndexError, match=rf"out of range \(found on {DEVICE}\)"):
        ng.block_until_ready(found)
    found.block_until_ready()  # once
    ng.block_until_ready(WRONG[name](put(V), put(onp.array([0, 2]))))


# ------------------------------------------------------------------------------------------- new arrays

MAKERS = {
    "asarray": lambda **k: np.asarray([1.0, 2.0], **k),
    "array": lambda **k: np.array([[1, 2]], **k),
    "zeros": lambda **k: np.zeros((2, 3), **k),
    "ones": lambda **k: np.ones(3, "int32", **k),
    "empty": lambda **k: np.empty(3, bool, **k),
    "full": lambda **k: np.full((2, 2), 7.5, **k),
    "full list": lambda **k: np.full((2, 2), [7, 8], **k),
    "arange": lambda **k: np.arange(1.0, 9.0, 2.5, **k),
    "linspace": lambda **k: np.linspace(0.0, 1.0, 5, **k),
    "eye": lambda **k: np.eye(3, 4, 1, "float32", **k),
    "tri": lambda **k: np.tri(3, 2, -1, **k),
    "zeros_like": lambda **k: np.zeros_like(M, **k),
    "full_like": lambda **k: np.full_like(M, 3, dtype=int, **k),
}
HOST = {  # no device= of their own
    "sin": lambda: np.sin(2.0),
    "add": lambda: np.add([1.0, 2.0], 3),
    "sum": lambda: np.sum(M, 0),
    "concatenate": lambda: np.concatenate([V, [1.0]]),
    "where": lambda: np.where([True, False], 1.0, 2.0),
    "take": lambda: np.take(M, [2, 0], 1),
    "nonzero": lambda: np.nonzero([0, 3, 4])[0],
    "indices": lambda: np.indices((2, 2)),
    "tril_indices": lambda: np.tril_indices(3)[1],
    "identity": lambda: np.identity(2),
    "iota": lambda: lax.iota("int32", 4),
    "key": lambda: random.key(3),
    "normal": lambda: random.normal(random.key(3), (4,)),
    "choice": lambda: random.choice(random.key(3), V, (2,)),
    "segment_sum": lambda: ops.segment_sum(V, [0, 0, 1]),
    "one_hot": lambda: nn.one_hot([0, 2], 3),
    "device_put": lambda: ng.device_put(V),
    "grad": lambda: ng.grad(lambda x: np.sum(x * x))(V),
    "frombuffer": lambda: np.frombuffer(b"abcd", "uint8"),
}


@pytest.mark.parametrize("name", MAKERS)
def test_creation(name):
    make = MAKERS[name]
    want = make()
    for found in (make(device=DEVICE), _by_default(make)):
        assert found.dtype == want.dtype
        equal(found, onp.asarray(want))
    assert want.device == "cpu"
    with ng.default_device(DEVICE):
        assert make(device="cpu").device == "cpu"


def _by_default(make):
    with ng.default_device(DEVICE):
        return make()


@pytest.mark.parametrize("name", HOST)
def test_host_data_alone(name):
    want, found = HOST[name](), _by_default(HOST[name])
    assert (want.device, found.device) == ("cpu", DEVICE)
    onp.testing.assert_allclose(onp.asarray(found), onp.asarray(want), **tolerance(want.dtype))


def test_like_stays_beside():
    assert np.zeros_like(put(V)).device == np.full_like(put(V), 3).device == DEVICE
    with ng.default_device(DEVICE):
        assert np.ones_like(Array(V)).device == (Array(V) + V).device == np.concatenate([Array(V), V]).device == "cpu"


def test_default_device_nests_and_is_a_setter():
    before = threading.Thread(target=lambda: seen.append(np.zeros(1).device))
    seen: list[str] = []
    try:
        with ng.default_device(DEVICE):
            with ng.default_device("cpu"):
                assert np.zeros(1).device == "cpu"
            assert np.zeros(1).device == DEVICE
            before.start()
            before.join()
        assert np.zeros(1).device == "cpu" and seen == ["cpu"]
        ng.default_device(DEVICE)
        other = threading.Thread(target=lambda: seen.append(np.zeros(1).device))
        other.start()
        other.join()
        assert np.zeros(1).device == seen[1] == DEVICE
        with pytest.raises(ZeroDivisionError), ng.default_device("cpu"):
            1 / 0  # noqa: B018
        assert np.zeros(1).device == DEVICE
    finally:
        ng.default_device()
    assert np.zeros(1).device == "cpu"


# ------------------------------------------------------------------------------------------- mixing


def test_different_devices_are_refused():
    x, c = put(V), np.asarray(V)
    for call in (
        lambda: x + c,
        lambda: c * x,
        lambda: x < c,
        lambda: np.add(c, x),
        lambda: np.where(True, x, c),
        lambda: np.concatenate([x, c]),
        lambda: x @ c,
        lambda: c.at[0].set(x[0]),
        lambda: np.stack([c, x]),
        lambda: c[put(onp.array([0, 1]))],
        lambda: c.at[put(onp.array([0, 1]))].set(1.0),
        lambda: np.take(c, put(onp.array([0, 1]))),
        lambda: ops.segment_sum(c, put(onp.array([0, 1, 1])), 2),
        lambda: ng.grad(lambda v: np.sum(v * x))(c),
        lambda: ng.grad(lambda v: np.sum(v * c))(x),
        lambda: ng.jvp(lambda v: v * x, (c,), (c,)),
        lambda: ng.grad(lambda v: ng.grad(lambda w: np.sum(w * v * x))(x).sum())(c),
    ):
        with pytest.raises(ng.DeviceError, match=r"on different devices: got .* and .*; needed one device. Move one"):
            call()


def test_single_numbers_of_the_cpu_go_along():
    """As in PyTorch: an untraced one is passed to the kernel, a traced one is moved and gets its gradient."""
    x, rate = put(V), np.asarray(2.0)
    puts = find(DEVICE).counts["put"]
    equal(x * rate, 2 * V)
    equal(rate - x, 2 - V)
    equal(np.where(x > rate, x, rate), [2, 2, 3])
    assert find(DEVICE).counts["put"] == puts
    for f in (lambda r: np.sum(x * r), lambda r: np.sum(np.add(r, x) * r), lambda r: np.sum(np.where(x > 1.5, r, x))):
        got, want = ng.grad(f)(rate), ng.grad(lambda r, f=f: ng.device_put(f(put(r)), "cpu"))(rate)
        assert got.device == "cpu" and float(got) == float(want)
    with pytest.raises(ng.DeviceError):
        np.asarray(V) * put(2.0)


def test_host_data_is_taken_along():
    x = put(V)
    equal(x + V, 2 * V)
    equal(V - x, 0 * V)
    equal(x * [1, 2, 3], V * [1, 2, 3])
    equal(onp.float64(2.0) * x, 2 * V)
    equal(x[[0, 2]], V[[0, 2]])
    equal(x[np.asarray([0, 2])], V[[0, 2]])
    equal(x[np.asarray([True, False, True])], V[[0, 2]])
    equal(x.at[np.asarray([0])].add(1.0), [2, 2, 3])
    equal(ng.grad(lambda v: np.sum(v * V))(x), V)
    lists = np.asarray([x, x])
    equal(lists, onp.stack([V, V]))


def test_nothing_is_asked_while_there_is_only_the_cpu():
    found = run("import json, numbagrad.numpy as np, numbagrad as ng\nx = np.ones(3) + np.ones(3)\n"
                "from numbagrad import config\nprint(json.dumps(list(config.OPENED)))")  # fmt: skip
    assert found == []
    assert DEVICE in config.OPENED or find(DEVICE)


# ------------------------------------------------------------------------------------------- no waiting


def test_a_training_step_does_not_wait():
    """Nothing is read back from the device, but for the loss that the user asks for."""
    from numbagrad import optim

    params = put({"w": M * 0.1, "b": onp.zeros(3)})
    x, labels = put(onp.ones((4, 2))), put(onp.array([0, 1, 2, 1]))
    optimizer = optim.adam(optim.cosine_decay(1e-2, 10))

    def loss(p, x, labels):
        scores = nn.relu(x @ p["w"] + p["b"])
        return np.mean(nn.softmax_cross_entropy_with_integer_labels(scores, labels))

    state = optimizer.init(params)
    device = find(DEVICE)
    before = device.counts
    value = None
    for _ in range(2):
        value, grads = ng.value_and_grad(loss)(params, x[np.asarray([3, 1, 0, 2])], labels)
        params, state = optimizer.update(grads, state, params)
    after = device.counts
    assert (after["get"], after["synchronize"]) == (before["get"], before["synchronize"])
    assert params["w"].device == state.mean["w"].device == value.device == DEVICE
    assert float(value) > 0 and device.counts["get"] == before["get"] + 1


G = lax.GatherDimensionNumbers((1,), (0,), (0, 1))
S = lax.ScatterDimensionNumbers((1,), (0,), (0, 1))
X6 = onp.arange(30.0).reshape(5, 6) % 7
AT = onp.array([[0, 2], [4, 5], [9, 1], [-1, 0], [0, 2]])
U = onp.arange(15.0).reshape(5, 3) - 4
INDEXED = {
    "gather": lambda x, i, u: lax.gather(x, i, G, (1, 3)),
    "gather clip": lambda x, i, u: lax.gather(x, i, G, (1, 3), mode="clip"),
    "gather fill": lambda x, i, u: lax.gather(x, i, G, (1, 3), mode="fill", fill_value=2.0),
    "gather uint64": lambda x, i, u: lax.gather(x, i.astype("uint64"), G, (1, 3), mode="clip"),
    "index_take": lambda x, i, u: lax.index_take(x, (i[:, 0], i[:, 1]), (0, 1)),
    "scatter_add of booleans": lambda x, i, u: (x > 9).at[i[:, 0] % 5].add(u[:, :1] > 0) * x,
    "unwrap": lambda x, i, u: np.unwrap(x * 2, axis=1),
    "isin": lambda x, i, u: np.isin(i, i[:, 1]) * x[:, :2],
    "choose": lambda x, i, u: np.choose(i[:3, 1] % 5, list(u)) * x[0, :3],
}
for f in (lax.scatter, lax.scatter_add, lax.scatter_sub, lax.scatter_mul, lax.scatter_min, lax.scatter_max):
    for mode in ("clip", "fill"):
        INDEXED[f"{f.__name__} {mode}"] = lambda x, i, u, f=f, m=mode: f(x, i, u, S, mode=m)


@pytest.mark.parametrize("name", INDEXED)
def test_index_arrays_stay(name):
    """Indices on a device are not read, and results and gradients are the CPU's."""
    function = INDEXED[name]
    want = function(*map(np.asarray, (X6, AT, U)))
    x, i, u = put(X6), put(AT), put(U)
    loss = lambda x, u, i: np.sum(function(x, i, u) ** 2)
    grads = ng.grad(loss, (0, 1))(*map(np.asarray, (X6, U, AT)))
    before = dict(find(DEVICE).counts)
    got = function(x, i, u), *ng.grad(loss, (0, 1))(x, u, i)
    after = find(DEVICE).counts
    assert after["get"] == before["get"] and after["synchronize"] == before["synchronize"]
    for g, w in zip(got, (want, *grads), strict=True):
        equal(g, onp.asarray(w))


def test_choices_that_are_not_there():
    np.choose(put(onp.array([0, 5])), [put(V[:2]), put(V[:2])])
    with pytest.raises(IndexError, match="choose: an index is out of range"):
        find(DEVICE).synchronize()


def test_no_warnings_at_import():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ng.device_put(V, DEVICE)


@pytest.mark.parametrize("place", ["cpu", DEVICE])
@pytest.mark.parametrize("dtype", ["float32", "complex64", "float16"])
def test_products_and_their_gradients_do_not_overflow_on_the_way(place, dtype):
    big = 1e4 if dtype == "float16" else 1e30
    x = ng.device_put(np.asarray([big, big, 1 / big, 2 / big, 2.0], dtype=dtype), place)
    ids = onp.zeros(5, int)
    weight = onp.asarray(1, dtype)
    for product in (np.prod, lambda v: ops.segment_prod(v, ids, 1)[0]):
        loss = lambda v, f=product: np.real(f(v) * weight)
        onp.testing.assert_allclose(onp.asarray(product(x)), 4, rtol=1e-2 if dtype == "float16" else 1e-6)
        g = onp.asarray(ng.grad(loss)(x))
        onp.testing.assert_allclose(g, 4 / onp.asarray(x).astype("c16"), rtol=1e-2 if dtype == "float16" else 1e-6)
        assert g.dtype == dtype


def _own_rules():
    sine = ng.custom_jvp(np.sin)
    sine.defjvp(lambda primals, tangents: (np.sin(*primals), tangents[0] * np.cos(*primals)))
    pair = ng.custom_vjp(lambda a, b: (a * b, np.sin(a)))
    pair.defvjp(
        lambda a, b: ((a * b, np.sin(a)), (a, b)), lambda r, g: (g[0] * r[1] + g[1] * np.cos(r[0]), g[0] * r[0])
    )
    return {
        "custom_jvp": lambda v: np.sum(sine(v) ** 2),
        "custom_vjp, first of two": lambda v: np.sum(pair(v, 2 * v)[0]),
        "custom_vjp, second of two": lambda v: np.sum(pair(v, v)[1]),
        "checkpoint, one of two": lambda v: ng.checkpoint(lambda u: (np.sum(np.sin(u) ** 2), u * 3))(v)[0],
    }


@pytest.mark.parametrize("name", _own_rules())
def test_rules_of_ones_own(name):
    """Zeros that stand in for what nothing came back to, or for the point of a linear function, are there, too."""
    f = _own_rules()[name]
    for transform in (ng.grad, ng.hessian, ng.jacfwd, lambda f: lambda v: ng.linearize(f, v)[1](v)):
        want = transform(f)(np.asarray(V))
        got = transform(f)(put(V))
        assert got.device == DEVICE
        onp.testing.assert_allclose(onp.asarray(got), onp.asarray(want), **tolerance("float64"))
