# SPDX-License-Identifier: Apache-2.0
"""Runs plans over NumPy arrays with every request and any number of threads, and compares them with references."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from mx_core import dtypes, operators
from mx_core.context import cpu
from mx_core.kernels import KernelCall, TensorSpec, resolve
from mx_core.operator import OperatorProperty, ReferenceContext, gradient_of
from mx_operators_cpu.onednn.register import KERNELS

NULL, WRITE, INPLACE, ADD = range(4)


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("shape", ctypes.POINTER(ctypes.c_int64)), ("bytes", ctypes.c_size_t),
        ("device", ctypes.c_int32), ("device_id", ctypes.c_int32), ("dtype", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("layout", ctypes.c_uint64),
    ]


class _Context(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_uint32), ("is_train", ctypes.c_int32), ("device", ctypes.c_int32),
        ("device_id", ctypes.c_int32), ("stream", ctypes.c_void_p), ("scratch", ctypes.POINTER(ctypes.c_void_p)),
        ("scalars", ctypes.POINTER(ctypes.c_double)), ("n_scalars", ctypes.c_uint32), ("threads", ctypes.c_uint32),
        ("random_key", ctypes.c_uint64), ("random_offset", ctypes.c_uint64), ("alloc_output", ctypes.c_void_p),
        ("host", ctypes.c_void_p),
    ]


class _Error(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int32), ("message", ctypes.c_char * 508)]


_RUN = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.POINTER(_Context), ctypes.POINTER(_Tensor), ctypes.c_uint32,
    ctypes.POINTER(_Tensor), ctypes.POINTER(ctypes.c_uint8), ctypes.c_uint32, ctypes.POINTER(_Error),
)


class _Plan(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_uint32), ("major", ctypes.c_uint16), ("minor", ctypes.c_uint16), ("flags", ctypes.c_uint32),
        ("n_scratch", ctypes.c_uint32), ("scratch_bytes", ctypes.POINTER(ctypes.c_size_t)),
        ("random_blocks", ctypes.c_uint64), ("run", _RUN),
    ]


def _plan(capsule: object) -> _Plan:
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return _Plan.from_address(pointer(capsule, b"mx.plan.v1"))


def _aligned(size: int) -> np.ndarray:
    raw = np.full(size + 64, 0xA5, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size]


def scratch_bytes(capsule: object) -> int:
    """Scratch memory one run needs."""
    plan = _plan(capsule)
    return sum(plan.scratch_bytes[i] for i in range(plan.n_scratch))


def run(
    capsule: object, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], req: Sequence[int] | None = None,
    *, threads: int = 2, is_train: bool = True, scalars: Sequence[float] = (),
) -> None:
    """Runs a plan once; outputs with request NULL are passed as null pointers."""
    plan = _plan(capsule)
    req = [WRITE] * len(outputs) if req is None else list(req)
    keep: list[Any] = []

    def tensors(arrays: Sequence[np.ndarray], hidden: Sequence[bool]) -> Any:
        table = (_Tensor * max(len(arrays), 1))()
        for slot, array, hide in zip(table, arrays, hidden, strict=False):
            assert array.flags.c_contiguous
            shape = (ctypes.c_int64 * max(array.ndim, 1))(*array.shape)
            keep.append(shape)
            slot.data = None if hide else array.ctypes.data
            slot.shape, slot.bytes, slot.ndim, slot.device = shape, array.nbytes, array.ndim, 1
            slot.dtype = dtypes.code(array.dtype)
        return table

    memory = [_aligned(plan.scratch_bytes[i]) for i in range(plan.n_scratch)]
    scratch = (ctypes.c_void_p * max(len(memory), 1))(*[m.ctypes.data for m in memory])
    numbers = (ctypes.c_double * max(len(scalars), 1))(*scalars)
    context = _Context(ctypes.sizeof(_Context), is_train, 1, 0, None, scratch, numbers, len(scalars), threads)
    error = _Error()
    status = plan.run(
        ctypes.addressof(plan), context, tensors(inputs, [False] * len(inputs)), len(inputs),
        tensors(outputs, [r == NULL for r in req]), (ctypes.c_uint8 * len(req))(*req), len(outputs), error,
    )
    if status != 0:
        raise RuntimeError(f"status {status}: {error.message.decode()}")


def _specs(arrays: Sequence[np.ndarray]) -> tuple[TensorSpec, ...]:
    return tuple(TensorSpec(a.shape, dtypes.code(a.dtype)) for a in arrays)


def prepare(
    op: OperatorProperty, p: Any, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], is_train: bool = True
) -> object | None:
    """The oneDNN plan of an operator for arrays of these signatures; None when it declines."""
    _, make, supports = next(kernel for kernel in KERNELS if kernel[0] == op.name)
    call = KernelCall(op, p, _specs(inputs), _specs(outputs), cpu(0), is_train)
    if not resolve(f"mx_operators_cpu.onednn.{supports}")(call):
        return None
    return resolve(f"mx_operators_cpu.onednn.{make}")(call)


def compare(
    op: OperatorProperty, p: Any, inputs: Sequence[np.ndarray], expected: Sequence[np.ndarray], *,
    states: Sequence[np.ndarray] = (), is_train: bool = True, rtol: float = 1e-4, atol: float = 1e-5,
) -> None:
    """Runs the plan with every request on every output, on one and two threads.

    `expected` are the outputs; `states` the values of the last inputs afterwards.
    """
    plan = prepare(op, p, inputs, expected, is_train)
    assert plan is not None, f"{op.name} declined"
    n = len(expected)
    requests = [[WRITE] * n, [ADD] * n, [NULL] * n]
    requests += [[ADD if i == j else NULL for j in range(n)] for i in range(n) if n > 1]
    requests += [[NULL if i == j else WRITE for j in range(n)] for i in range(n) if n > 1]
    for req in requests:
        for threads in (1, 2):
            old = [np.full_like(e, 0.5) for e in expected]
            outputs = [o.copy() for o in old]
            given = [np.array(i) for i in inputs]
            run(plan, given, outputs, req, threads=threads, is_train=is_train, scalars=p.scalars)
            for got, want, before, r in zip(outputs, expected, old, req, strict=True):
                target = {NULL: before, WRITE: want, ADD: before + want}[r]
                np.testing.assert_allclose(
                    got.astype(np.float32), target.astype(np.float32), rtol=rtol, atol=atol,
                    err_msg=f"{op.name} {p} requests {req}",
                )
            for got, want in zip(given[len(given) - len(states) :], states, strict=True):
                np.testing.assert_allclose(got, want, rtol=rtol, atol=atol, err_msg=f"{op.name} {p} states")


def verify(
    name: str, attrs: Mapping[str, Any], inputs: Sequence[np.ndarray], *, is_train: bool = True,
    rtol: float = 1e-4, atol: float = 1e-5, gradient: bool = True,
) -> None:
    """Compares an operator and everything its gradient applies with the references."""
    op = operators.get(name)
    p = op.Param.parse(attrs, op=name)
    context = ReferenceContext(is_train=is_train, scalars=p.scalars)
    made = [np.ascontiguousarray(a) for a in op.reference(p, [np.array(i) for i in inputs], context)]
    outputs, states = made[: len(op.outputs(p))], made[len(op.outputs(p)) :]
    compare(op, p, inputs, outputs, states=states, is_train=is_train, rtol=rtol, atol=atol)
    if not gradient:
        return
    rng = np.random.default_rng(5)
    heads = [rng.standard_normal(o.shape).astype(o.dtype) for o in outputs]
    arrays = {"out_grad": heads, "input": inputs, "output": outputs}
    for node in gradient_of(op, p).nodes:
        backward = operators.get(node.op)
        kept = [arrays[e.kind][e.index] for e in node.inputs]
        expected = [np.ascontiguousarray(a) for a in backward.reference(node.params, kept, context)]
        scale = max(float(np.abs(e).max(initial=1)) for e in expected)
        compare(backward, node.params, kept, expected, is_train=is_train, rtol=rtol, atol=atol * scale)
