# SPDX-License-Identifier: Apache-2.0
"""Plans and kernel tables through mx_core._native, with kernels written as ctypes callbacks."""

import ctypes as c
import threading

import numpy as np
import pytest

from mx_core import _native, dtypes
from mx_core.errors import ArgumentError, DTypeError, MXNetError, ShapeError
from mx_core.testing.plan import run_plan
from mx_core.testing.tables import Context, Error, Head


class Tensor(c.Structure):
    _fields_ = [
        ("data", c.c_void_p), ("shape", c.POINTER(c.c_int64)), ("bytes", c.c_size_t), ("context", Context),
        ("dtype", c.c_int32), ("ndim", c.c_int32), ("layout", c.c_uint64),
    ]  # fmt: skip


class Param(c.Structure):
    _fields_ = [
        ("name", c.c_char_p), ("text", c.c_char_p), ("number", c.c_double), ("is_number", c.c_int32),
        ("reserved", c.c_int32),
    ]  # fmt: skip


class Signature(c.Structure):
    _fields_ = [
        ("size", c.c_uint32), ("is_train", c.c_int32), ("context", Context), ("params", c.POINTER(Param)),
        ("inputs", c.POINTER(Tensor)), ("outputs", c.POINTER(Tensor)), ("n_params", c.c_uint32),
        ("n_inputs", c.c_uint32), ("n_outputs", c.c_uint32), ("reserved", c.c_uint32),
    ]  # fmt: skip


class KernelContext(c.Structure):
    _fields_ = [
        ("size", c.c_uint32), ("is_train", c.c_int32), ("context", Context), ("stream", c.c_void_p),
        ("scratch", c.POINTER(c.c_void_p)), ("scalars", c.POINTER(c.c_double)), ("n_scalars", c.c_uint32),
        ("threads", c.c_uint32), ("random_key", c.c_uint64), ("random_offset", c.c_uint64),
        ("alloc_output", c.c_void_p), ("host", c.c_void_p),
    ]  # fmt: skip


TENSORS = c.POINTER(Tensor)
RUN = c.CFUNCTYPE(
    c.c_int32, c.c_void_p, c.POINTER(KernelContext), TENSORS, c.c_uint32, TENSORS, c.POINTER(c.c_uint8),
    c.c_uint32, c.POINTER(Error),
)  # fmt: skip
VOID = c.CFUNCTYPE(None, c.c_void_p)


class Plan(c.Structure):
    _fields_ = [
        ("head", Head), ("flags", c.c_uint32), ("n_scratch", c.c_uint32), ("scratch_bytes", c.c_void_p),
        ("random_blocks", c.c_uint64), ("run", RUN), ("retain", VOID), ("release", VOID),
    ]  # fmt: skip


PREPARE = c.CFUNCTYPE(c.c_int32, c.c_void_p, c.POINTER(Signature), c.POINTER(c.c_void_p), c.POINTER(Error))


class Table(c.Structure):
    _fields_ = [("head", Head), ("self", c.c_void_p), ("prepare", PREPARE)]


def array(tensor):
    """A tensor's memory as an array of bytes-compatible floats."""
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    pointer = c.cast(tensor.data, c.POINTER(c.c_float))
    return np.ctypeslib.as_array(pointer, shape) if tensor.bytes else np.empty(shape, np.float32)


class Scale:
    """output = scalar * factor * input; keeps what it was asked and told."""

    def __init__(self):
        self.signatures, self.contexts, self.released = [], [], 0
        self._run, self._retain, self._release = RUN(self.run), VOID(lambda p: None), VOID(self.release)
        self._prepare = PREPARE(self.prepare)
        self.plan = Plan(Head(c.sizeof(Plan), 1, 0), 0, 0, None, 0, self._run, self._retain, self._release)
        self.table = Table(Head(c.sizeof(Table), 1, 0), None, self._prepare)

    def capsule(self, name="mx.kernel.v1"):
        self._name = name.encode()
        new = c.pythonapi.PyCapsule_New
        new.restype, new.argtypes = c.py_object, [c.c_void_p, c.c_char_p, c.c_void_p]
        target = self.table if name == "mx.kernel.v1" else self.plan
        return new(c.addressof(target), self._name, None)

    def prepare(self, _self, signature, plan, error):
        s = signature.contents
        params = {s.params[i].name.decode(): s.params[i] for i in range(s.n_params)}
        self.signatures.append({name: (p.text, p.number, p.is_number) for name, p in params.items()})
        if s.inputs[0].dtype != 0:
            return 7
        self.factor = params["factor"].number
        if self.factor < 0:
            error.contents.message = b"[scale] factor: expected at least 0, got -1"
            return 4
        plan[0] = c.addressof(self.plan)
        return 0

    def run(self, _plan, context, inputs, n_inputs, outputs, req, n_outputs, error):
        k = context.contents
        self.contexts.append((k.is_train, k.threads, k.random_key, k.random_offset, req[0]))
        if inputs[0].ndim != outputs[0].ndim:
            error.contents.message = b"[scale] output: expected another shape"
            return 2
        array(outputs[0])[...] = array(inputs[0]) * k.scalars[0] * self.factor
        return 0

    def release(self, _plan):
        self.released += 1


@pytest.fixture
def scale():
    return Scale()


def prepare(scale, dtype="float32", factor="2", shape=(2, 3)):
    spec = [(shape, dtypes.code(dtype))]
    return _native.prepare_native(
        scale.capsule(), "scale", {"factor": factor, "mode": "fast"}, spec, spec, (1, 0), False
    )


def test_prepare_and_run(scale):
    plan = prepare(scale)
    x, y = np.arange(6, dtype=np.float32).reshape(2, 3), np.empty((2, 3), np.float32)
    (out,) = run_plan(plan, [x], [y], is_train=True, scalars=[5], random_key=11, random_offset=12, threads=3)
    np.testing.assert_array_equal(out, 10 * x)
    assert out is y and scale.contexts == [(1, 3, 11, 12, 1)]
    assert scale.signatures == [{"factor": (b"2", 2.0, 1), "mode": (b"fast", 0.0, 0)}]


def test_the_capsule_gives_its_reference_back(scale):
    plan = prepare(scale)
    del plan
    assert scale.released == 1


def test_capsules_are_known_by_name(scale):
    assert _native.capsule_name(scale.capsule()) == "mx.kernel.v1"
    for thing in (None, 3, "mx.kernel.v1", scale):
        assert _native.capsule_name(thing) is None


def test_a_declined_signature_is_none_and_a_refused_one_raises(scale):
    assert prepare(scale, dtype="float64") is None
    with pytest.raises(ArgumentError, match=r"\[scale\] factor: expected at least 0, got -1"):
        prepare(scale, factor="-1")


def test_an_error_of_the_kernel_has_its_class(scale):
    plan = prepare(scale)
    with pytest.raises(ShapeError, match="another shape"):
        run_plan(plan, [np.zeros((2, 3), np.float32)], [np.zeros(6, np.float32)], scalars=[1])


def test_read_only_inputs_are_copied_and_read_only_outputs_refused(scale):
    plan = prepare(scale)
    x, y = np.ones((2, 3), np.float32), np.zeros((2, 3), np.float32)
    x.flags.writeable = False
    run_plan(plan, [x], [y], scalars=[1])
    assert (y == 2).all()
    y.flags.writeable = False
    with pytest.raises((BufferError, ValueError)):
        run_plan(plan, [x], [y], scalars=[1])


def test_requests_are_checked(scale):
    plan = prepare(scale)
    x = np.ones((2, 3), np.float32)
    with pytest.raises(ArgumentError, match="expected 1 requests, got 2"):
        run_plan(plan, [x], [x.copy()], [1, 1], scalars=[1])
    with pytest.raises(ArgumentError, match="got 4"):
        run_plan(plan, [x], [x.copy()], [4], scalars=[1])


def test_strided_arrays_and_odd_types_are_refused(scale):
    plan = prepare(scale)
    x = np.ones((2, 6), np.float32)
    with pytest.raises(DTypeError, match="C-contiguous"):
        run_plan(plan, [x[:, ::2]], [np.zeros((2, 3), np.float32)], scalars=[1])
    with pytest.raises(DTypeError, match="input 0"):
        _native.run_plan(plan, [np.array(["ab"])], [np.zeros(1, np.float32)], [1])
    with pytest.raises(TypeError):
        _native.run_plan(plan, [3.0], [np.zeros(1, np.float32)], [1])


@pytest.mark.parametrize("code", range(15))
def test_every_element_type_arrives(code):
    seen = []

    def run(_plan, context, inputs, n_inputs, outputs, req, n_outputs, error):
        seen.append((inputs[0].dtype, inputs[0].bytes, inputs[0].ndim))
        return 0

    kernel = Scale()
    kernel.plan.run = keep = RUN(run)
    data = np.zeros((3, 2), dtypes.numpy_dtype(code))
    run_plan(kernel.capsule("mx.plan.v1"), [data], [data.copy()])
    assert seen == [(code, 6 * dtypes.itemsize(code), 2)] and keep


def test_shapes_of_too_many_axes_are_refused(scale):
    with pytest.raises(ShapeError, match="40 axes"):
        prepare(scale, shape=(1,) * 40)
    with pytest.raises(ShapeError, match="overflows"):
        prepare(scale, shape=(2**40, 2**40))


def test_a_plan_of_another_interface_is_refused(scale):
    scale.plan.head.major = 9
    with pytest.raises(MXNetError, match="offers 9.0"):
        prepare(scale)


def test_threads_may_run_one_plan(scale):
    plan = prepare(scale)
    results = []

    def work(value):
        x, y = np.full((2, 3), value, np.float32), np.zeros((2, 3), np.float32)
        for _ in range(50):
            run_plan(plan, [x], [y], scalars=[1])
        results.append((y == 2 * value).all())

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert results == [True] * 4
