"""Sharing arrays with other libraries: DLPack and `__cuda_array_interface__`, and pickles of what cannot be shared."""

from __future__ import annotations

import ctypes
import pickle

import null_driver
import numpy as onp
import pytest
from cuda_emulated import DEVICE

import numbagrad as ng
import numbagrad.numpy as np
from numbagrad.kernels.cuda import interop

V = onp.array([1.0, 2.0, 3.0])
M = onp.arange(6.0).reshape(2, 3)


def put(x):
    return ng.device_put(x, DEVICE)


def equal(x, want, device=DEVICE):
    assert x.device == device, f"on {x.device}"
    onp.testing.assert_array_equal(onp.asarray(x), want)


def test_dlpack_shares_the_emulated_device_s_memory():
    x = put(M)
    for view, strides in ((x, (24, 8)), (x.T, (8, 24)), (x[:, ::2], (24, 16))):
        found = onp.from_dlpack(view)
        assert found.strides == strides and found.tolist() == view.tolist()
    assert onp.from_dlpack(put(onp.zeros((0, 3)))).shape == (0, 3)
    assert onp.from_dlpack(put(onp.array(True))).dtype == bool
    assert x.__dlpack_device__() == (1, 0)
    with pytest.raises(BufferError):
        x.__dlpack__(dl_device=(2, 0))
    assert onp.from_dlpack(x, copy=True).tolist() == M.tolist()


def test_dlpack_keeps_the_memory_alive_and_lets_it_go():
    alive = len(interop._alive)
    x = put(V)
    found = onp.from_dlpack(x)
    capsule = x.__dlpack__()
    assert len(interop._alive) == alive + 2
    del x
    assert found.tolist() == V.tolist()
    del found, capsule
    assert len(interop._alive) == alive


def test_traced_arrays_are_not_exported():
    for export in (lambda x: x.__dlpack__(), lambda x: onp.asarray(x), lambda x: pickle.dumps(x)):
        with pytest.raises(ng.TracerConversionError):
            ng.grad(lambda x, export=export: export(x) and x)(put(1.0))


def test_no_cuda_array_interface_off_gpus():
    assert not hasattr(put(V), "__cuda_array_interface__") and not hasattr(np.asarray(V), "__cuda_array_interface__")


class FakeGPU:
    """Stands for a GPU whose memory is the process's own: what interop says of it can be looked at."""

    platform, name, number = "cuda", "cuda:0", 0

    def synchronize(self):
        self.waits = getattr(self, "waits", 0) + 1

    def get(self, buffer):
        array = (ctypes.c_double * buffer.size).from_address(buffer.address)
        return onp.frombuffer(array, buffer.dtype).reshape(buffer.shape).copy()


class Foreign:
    """Another library's array."""

    def __init__(self, x, **more):
        self.x = x
        self.__cuda_array_interface__ = {
            "shape": x.shape, "typestr": x.dtype.str, "data": (x.ctypes.data, False), "version": 3,
            "strides": None if x.flags.c_contiguous else x.strides, **more,
        }  # fmt: skip


@pytest.fixture
def gpu(monkeypatch):
    device, waited = FakeGPU(), []
    monkeypatch.setattr(interop, "find", lambda name: {"cuda:0": device}[name])
    monkeypatch.setattr(interop, "_ordinal", lambda address: 0)
    monkeypatch.setattr(interop, "_wait_for", waited.append)
    device.waited = waited
    return device


def test_arrays_of_other_libraries_are_shared(gpu):
    host = M.copy()
    theirs = Foreign(host, stream=5)
    for made in (np.asarray(theirs), np.array(theirs), ng.device_put(theirs), np.from_dlpack(theirs)):
        assert made.device == "cuda:0" and made._value.address == host.ctypes.data and made._value.base is theirs
    assert gpu.waited == [5] * 4
    assert np.asarray(theirs).T._value.address == host.ctypes.data
    assert np.asarray(Foreign(host.T))._value.strides == host.T.strides
    assert np.asarray(theirs).tolist() == M.tolist()
    equal(ng.device_put(theirs, "cpu"), M, "cpu")
    with pytest.raises(TypeError, match="dtype is not supported"):
        np.asarray(Foreign(host.astype(onp.longdouble)))
    with pytest.raises(TypeError, match="masked"):
        np.asarray(Foreign(host, mask=1))


def test_arrays_are_shown_to_other_libraries(gpu):
    host = M.copy()
    x = np.asarray(Foreign(host))
    shown = x.__cuda_array_interface__
    assert shown == {"shape": (2, 3), "typestr": "<f8", "data": (host.ctypes.data, False), "strides": None,
                     "version": 3, "stream": 1}  # fmt: skip
    assert np.asarray(Foreign(host[:, ::2])).__cuda_array_interface__["strides"] == (24, 16)
    assert x.__dlpack_device__() == (2, 0)
    x.__dlpack__(stream=7)
    assert gpu.waits == 1
    for versioned, name in ((None, "dltensor"), ((1, 0), "dltensor_versioned")):
        capsule = x.__dlpack__(stream=1, max_version=versioned)
        assert f'"{name}"' in repr(capsule)
    assert gpu.waits == 1
    assert onp.from_dlpack(x, device="cpu", copy=True).tolist() == M.tolist()


def test_foreign_memory_is_neither_written_to_nor_freed(gpu):
    host = V.copy()
    made = np.asarray(Foreign(host))
    assert made._value.lent == 0
    from numbagrad.numpy.indexing import _set_on_device

    assert not _set_on_device(made._value, 0, 5.0)
    del made
    assert host.tolist() == V.tolist()


def test_sharing_through_the_driver_s_packages():
    """The same on a driver that does nothing, whose memory is the process's own: cuda.core reads and waits."""
    found = null_driver.run("""
        without_compiling()
        from numbagrad.kernels.cuda import interop

        class Interface:
            def __init__(self, x, **more): self.__cuda_array_interface__ = {**x.__cuda_array_interface__, **more}

        class DLPack:
            def __init__(self, x): self.x = x
            def __dlpack__(self, **options): return self.x.__dlpack__(**options)
            def __dlpack_device__(self): return self.x.__dlpack_device__()

        x = on_gpu([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
        made = [np.asarray(Interface(x)), np.from_dlpack(DLPack(x)), np.asarray(DLPack(x.T))]
        same = [m._value.address == x._value.address for m in made]
        strides, alive = made[2]._value.strides, len(interop._alive)
        empty = np.asarray(Interface(on_gpu(onp.zeros((0, 3))))).shape
        flags = np.from_dlpack(DLPack(on_gpu([True, False]))).tolist()
        values = [m.tolist() for m in made[:2]]
        del made
        before = counts()["waits"]
        np.asarray(Interface(x, stream=2))
        waits = counts()["waits"] - before
        answer([same, strides, alive, len(interop._alive), empty, flags, waits, values])
    """)
    values = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    assert found == [[True] * 3, [8, 24], 2, 0, [0, 3], [True, False], 1, [values, values]]
