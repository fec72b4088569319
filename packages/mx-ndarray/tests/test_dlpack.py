# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ctypes
import gc
import weakref
from typing import Any

import numpy as np
import pytest

from mx_core import dtypes
from mx_core.context import Context
from mx_core.errors import ArgumentError, DTypeError, MXNetError, NoKernelError, ShapeError
from mx_ndarray import nd

#: whether NumPy gives arrays that can be written
WRITES = np.lib.NumpyVersion(np.__version__) >= "2.3.0"


def test_memory_is_shared_both_ways() -> None:
    a = nd.array([1, 2, 3])
    view = np.from_dlpack(a)
    b = nd.from_dlpack(a)
    a += 1
    a.wait_to_read()
    assert view.tolist() == b.asnumpy().tolist() == [2, 3, 4]
    if WRITES:
        view[0] = 7
        assert b.asnumpy().tolist() == [7, 3, 4]


def test_memory_lives_as_long_as_somebody_uses_it() -> None:
    source = np.arange(4, dtype=np.int32)
    owner = weakref.ref(source)
    c = nd.from_dlpack(source)
    del source
    gc.collect()
    assert (c.dtype, c.asnumpy().tolist()) == (np.int32, [0, 1, 2, 3])
    assert owner() is not None
    kept = np.from_dlpack(nd.array([1, 2]) * 2)
    gc.collect()
    assert kept.tolist() == [2, 4]


def test_a_capsule_is_consumed_once() -> None:
    for capsule in (nd.ones((2,)).to_dlpack_for_read(), nd.ones((2,)).__dlpack__(max_version=(1, 0))):
        nd.from_dlpack(capsule)
        with pytest.raises(ArgumentError, match="consumed"):
            nd.from_dlpack(capsule)
    del capsule
    nd.ones((2,)).__dlpack__()  # nobody takes it


def test_what_is_not_row_major_is_copied() -> None:
    source = np.arange(12.0).reshape(3, 4)
    for part in (source[:, ::2], source.T, source[::-1]):
        taken = nd.from_dlpack(part)
        assert taken.asnumpy().tolist() == part.tolist()
        taken += 1
        taken.wait_to_read()
    assert source[0, 0] == 0
    with pytest.raises((ArgumentError, ValueError, BufferError)):
        nd.from_dlpack(source.T, copy=False)


def test_copies_on_demand() -> None:
    a, source = nd.array([1, 2]), np.arange(3.0)
    view = np.from_dlpack(a, copy=True)
    a[:] = 9
    a.wait_to_read()
    assert view.tolist() == [1, 2]
    taken = nd.from_dlpack(source, copy=True)
    taken[:] = 9
    taken.wait_to_read()
    assert source.tolist() == [0, 1, 2]
    assert nd.from_dlpack(a.to_dlpack_for_read(), copy=True).asnumpy().tolist() == [9, 9]


def test_read_only_memory_stays_as_it_is() -> None:
    source = np.zeros(4, np.float32)
    source.flags.writeable = False
    a = nd.from_dlpack(source)
    assert not a.writable and not a[1:].writable and not a.reshape((2, 2)).writable
    with pytest.raises(ArgumentError, match="read-only"):
        a[0] = 1
    with pytest.raises(ArgumentError, match="not writable"):
        nd.ones((4,), out=a)
    with pytest.raises(ArgumentError, match="not writable"):
        a += 1
    with pytest.raises(ArgumentError, match=r"\[sgd_mom_update\] input 2 is written.*read-only"):
        nd.sgd_mom_update(nd.ones((4,)), nd.ones((4,)), a, lr=1)
    assert source.sum() == 0
    assert not np.from_dlpack(a).flags.writeable
    with pytest.raises(BufferError, match="read-only"):
        a.__dlpack__()


@pytest.mark.parametrize("code", range(13))
def test_element_types(code: int) -> None:
    torch = pytest.importorskip("torch") if dtypes.name(code) == "bfloat16" else None
    a = (
        nd.zeros((2, 0, 3), dtype=dtypes.name(code))
        if code == 0
        else nd.ones((2, 3), dtype=dtypes.name(code))
    )
    shared: Any = np.from_dlpack(a) if torch is None else torch.from_dlpack(a)
    back = nd.from_dlpack(shared)
    assert back.dtype == a.dtype and back.shape == a.shape
    np.testing.assert_array_equal(back.astype("float32").asnumpy(), a.astype("float32").asnumpy())


def test_what_dlpack_cannot_say_is_refused(device: Context) -> None:
    a = nd.array([1, 2], ctx=device)
    with pytest.raises(BufferError, match=device.device_type):
        a.__dlpack__()
    with pytest.raises(BufferError, match="copy"):
        a.__dlpack__(dl_device=(1, 0), copy=False)
    assert nd.from_dlpack(a.__dlpack__(dl_device=(1, 0))).asnumpy().tolist() == [1, 2]
    with pytest.raises(BufferError, match="no streams"):
        nd.ones((2,)).__dlpack__(stream=3)
    with pytest.raises(BufferError, match="2, 0"):
        nd.ones((2,)).__dlpack__(dl_device=(2, 0))


class Tensor(ctypes.Structure):
    """A DLManagedTensorVersioned of our own making."""

    _fields_ = [
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.c_void_p),
        ("offset", ctypes.c_uint64),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"major": 2}, NoKernelError),
        ({"device": 12}, NoKernelError),
        ({"lanes": 4}, DTypeError),
        ({"code": 9}, DTypeError),
        ({"ndim": -1}, ShapeError),
        ({"ndim": 1000}, ShapeError),
        ({"shape": (ctypes.c_int64 * 2)(-3, 4)}, ShapeError),
        ({"shape": (ctypes.c_int64 * 2)(2**62, 4)}, ShapeError),
    ],
)  # fmt: skip
def test_hostile_capsules(changes: dict[str, Any], error: type[MXNetError]) -> None:
    memory = (ctypes.c_float * 12)()
    values: dict[str, Any] = {
        "major": 1, "data": ctypes.addressof(memory), "device": 1, "ndim": 2, "code": 2, "bits": 32,
        "lanes": 1, "shape": (ctypes.c_int64 * 2)(3, 4), **changes,
    }  # fmt: skip
    tensor = Tensor(**values)
    new = ctypes.pythonapi.PyCapsule_New
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    name = ctypes.c_char_p(b"dltensor_versioned")
    capsule = new(ctypes.addressof(tensor), name, None)
    with pytest.raises(error):
        nd.from_dlpack(capsule)


def test_pytorch() -> None:
    torch = pytest.importorskip("torch")
    a = nd.array([[1, 2], [3, 4]])
    tensor = torch.from_dlpack(a)
    tensor += 1
    assert a.asnumpy().tolist() == [[2, 3], [4, 5]]
    back = nd.from_dlpack(tensor)
    back *= 2
    back.wait_to_read()
    assert tensor.tolist() == [[4, 6], [8, 10]]
    assert nd.from_dlpack(torch.utils.dlpack.to_dlpack(tensor)).shape == (2, 2)


def test_jax() -> None:
    jax = pytest.importorskip("jax")
    a = nd.array([1, 2, 3])
    assert (jax.dlpack.from_dlpack(a) + 1).tolist() == [2, 3, 4]
    assert nd.from_dlpack(jax.numpy.arange(3)).asnumpy().tolist() == [0, 1, 2]


class OnlyDLPack:
    """An array that NumPy does not take by `np.asarray`."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **settings):
        return self.array.__dlpack__(**settings)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_arrays_are_made_and_written_from_dlpack():
    given = OnlyDLPack(nd.array([1, 2, 3], dtype="int32"))
    made = nd.array(given)
    assert made.dtype == np.float32 and made.asnumpy().tolist() == [1, 2, 3]
    made += 1  # it is a copy
    assert given.array.asnumpy().tolist() == [1, 2, 3]
    assert nd.array(given, dtype="int64").dtype == np.int64
    target = nd.zeros((2, 3))
    target[1] = given
    assert target.asnumpy().tolist() == [[0, 0, 0], [1, 2, 3]]
    with pytest.raises(TypeError, match="got object"):
        nd.array(object())


def test_the_way_from_numba_is_named():
    class Numba:
        __cuda_array_interface__ = {"shape": (1,), "typestr": "<f4", "data": (16, False), "version": 3}

    with pytest.raises(TypeError, match="CuPy's asarray reads it"):
        nd.array(Numba())
