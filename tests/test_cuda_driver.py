"""The host side of CUDA on a driver that does nothing: launches, allocations, copies and waits of every operation."""

import pytest
from null_driver import run

pytestmark = pytest.mark.xdist_group("null_driver")
NOTHING = dict(allocations=0, to_device=0, to_host=0, waits=0, loads=0)


def quiet(found, launches):
    """Only launches: no new memory, no copies, no waiting, nothing compiled."""
    assert {k: found[k] for k in NOTHING} == NOTHING
    assert found["launches"] == launches


def test_device():
    found = run("""
        device = find("cuda")
        answer([ng.devices(), device.name, device.arch, find("cuda:0") is device])
    """)
    assert found == [["cpu", "cuda:0"], "cuda:0", "sm_90", True]


def test_a_missing_gpu_is_named():
    found = run("""
        try:
            find("cuda:3")
        except ng.DeviceError as error:
            answer(str(error))
    """)
    assert found.startswith("device: there is no cuda:3: got 1 GPU ")


def test_values_go_there_and_back():
    """Memory is the process's own here, so copies can be checked; results of kernels cannot."""
    found = run("""
        x = onp.arange(12.0).reshape(3, 4)
        on = on_gpu(x)
        same = [onp.array_equal(onp.asarray(on), x), onp.array_equal(onp.asarray(on[1]), x[1])]
        answer([*same, on.device, counts()])
    """)
    assert found[:3] == [True, True, "cuda:0"]
    assert found[3]["launches"] == 0 and found[3]["to_device"] == 1 and found[3]["to_host"] == 2


def test_one_launch_an_operation():
    """And none for views."""
    found = run("""
        without_compiling()
        rng = onp.random.default_rng(0)
        x, y, v = (on_gpu(rng.standard_normal(s), "float32") for s in ((30, 40), (30, 40), 40))
        i = on_gpu(onp.arange(5))
        calls = dict(
            add=lambda: x + y,
            scale=lambda: x * 2.0,
            sin=lambda: np.sin(x),
            broadcast=lambda: x + v,
            strided=lambda: x[:, ::2] + y[:, ::2],
            where=lambda: np.where(x > 0, x, y),
            sum=lambda: np.sum(x),
            rows=lambda: np.sum(x, 1),
            columns=lambda: np.max(x, 0),
            softmax=lambda: nn.softmax(x),
            matmul=lambda: x @ y.T,
            take=lambda: x[i],
            cumsum=lambda: np.cumsum(x, 1),
            slice=lambda: x[3:7, ::-1],
            reshape=lambda: x.reshape(-1),
            transpose=lambda: x.T,
            broadcast_to=lambda: np.broadcast_to(v, (30, 40)),
        )
        answer({name: counted(f) for name, f in calls.items()})
    """)
    expected = dict.fromkeys(found, 1)
    expected |= dict(where=2, take=1, slice=0, reshape=0, transpose=0, broadcast_to=0)
    for name, launches in expected.items():
        assert found[name] | dict(frees=0) == {**NOTHING, "launches": launches, "frees": 0}, name


def test_every_primitive_stays_on_the_device():
    """No case of the table copies, waits or allocates once it has run: the host never looks at the device's numbers."""
    found = run("""
        without_compiling()
        from samples.primitives import CASES
        offenders = {}
        for k, case in enumerate(CASES):
            args = [on_gpu(a) for a in case.args]
            asked = counted(lambda: case(*args))
            kinds = ("allocations", "to_device", "to_host", "waits", "loads")
            kept = {kind: asked[kind] for kind in kinds if asked[kind]}
            if kept or asked["launches"] > 40:
                offenders[f"{k} {case}"] = {**kept, "launches": asked["launches"]}
        answer(offenders)
    """)
    assert found == {}


def test_training_neither_leaks_nor_waits():
    found = run("""
        without_compiling()
        rng = onp.random.default_rng(0)
        put = lambda *shape: on_gpu(rng.standard_normal(shape).astype("float32"))
        params = dict(w=put(8, 16), b=put(16), v=put(16, 3))
        x, t = put(32, 8), put(32, 3)

        def loss(p):
            return np.mean((np.tanh(x @ p["w"] + p["b"]) @ p["v"] - t) ** 2)

        def step(p):
            return ng.tree_map(lambda a, g: a - 0.1 * g, p, ng.grad(loss)(p))

        for _ in range(3):
            params = step(params)
        before = counts()
        for _ in range(200):
            params = step(params)
        after = counts()
        answer({k: after[k] - before[k] for k in KINDS})
    """)
    assert {k: found[k] for k in NOTHING} == NOTHING
    assert found["frees"] == 0 and found["launches"] % 200 == 0
