# SPDX-License-Identifier: Apache-2.0
"""Runs plan capsules over NumPy arrays, with every request and any number of threads."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from mx_core import dtypes
from mx_core.kernels import KernelCall, TensorSpec

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
    *, threads: int = 2, is_train: bool = True,
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
    context = _Context(ctypes.sizeof(_Context), is_train, 1, 0, None, scratch, None, 0, threads)
    error = _Error()
    status = plan.run(
        ctypes.addressof(plan), context, tensors(inputs, [False] * len(inputs)), len(inputs),
        tensors(outputs, [r == NULL for r in req]), (ctypes.c_uint8 * len(req))(*req), len(outputs), error,
    )
    if status != 0:
        raise RuntimeError(f"status {status}: {error.message.decode()}")


def spec(array: np.ndarray) -> TensorSpec:
    """The signature of an array."""
    return TensorSpec(array.shape, dtypes.code(array.dtype))


def call(
    inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], *, is_train: bool = True, **params: Any
) -> KernelCall:
    """A kernel call with parameters given as keywords."""
    return KernelCall(
        op=None, params=SimpleNamespace(**params), inputs=tuple(map(spec, inputs)),  # type: ignore[arg-type]
        outputs=tuple(map(spec, outputs)), context=None, is_train=is_train,  # type: ignore[arg-type]
    )


def check(
    make: Any, inputs: Sequence[np.ndarray], expected: Sequence[np.ndarray], *, is_train: bool = True,
    rtol: float = 1e-4, atol: float = 1e-5, **params: Any,
) -> object:
    """Prepares a kernel and compares it with `expected` for every request on every output."""
    capsule = make(call(inputs, expected, is_train=is_train, **params))
    assert capsule is not None
    wanted = [np.asarray(e) for e in expected]
    n = len(wanted)
    requests = [[WRITE] * n, [ADD] * n, [NULL] * n]
    requests += [[ADD if i == j else NULL for j in range(n)] for i in range(n) if n > 1]
    requests += [[NULL if i == j else WRITE for j in range(n)] for i in range(n) if n > 1]
    for req in requests:
        for threads in (1, 2):
            before = [np.full_like(e, 0.5) for e in wanted]
            outputs = [b.copy() for b in before]
            run(capsule, [np.array(i) for i in inputs], outputs, req, threads=threads, is_train=is_train)
            for got, want, old, r in zip(outputs, wanted, before, req, strict=True):
                target = {NULL: old, WRITE: want, ADD: old + want}[r]
                np.testing.assert_allclose(
                    got.astype(np.float32), target.astype(np.float32), rtol=rtol, atol=atol, err_msg=f"req={req}"
                )
    return capsule
