# SPDX-License-Identifier: Apache-2.0
"""NumPy arrays through a GPU: the device's C tables and plans, called through ctypes."""

from __future__ import annotations

import ctypes as c
from collections.abc import Sequence
from typing import Any

import numpy as np

from mx_core import cpu, dtypes, gpu
from mx_core.testing import tables
from mx_core.testing.case import RANDOM_KEY
from mx_core.testing.device import DeviceApi
from mx_core.testing.storage import Memory
from mx_operators_cuda import device, lending

_POINTER = c.c_void_p


class Tensor(c.Structure):
    """mx_tensor."""

    _fields_ = [
        ("data", _POINTER), ("shape", c.POINTER(c.c_int64)), ("bytes", c.c_size_t),
        ("context", tables.Context), ("dtype", c.c_int32), ("ndim", c.c_int32), ("layout", c.c_uint64),
    ]  # fmt: skip


class KernelContext(c.Structure):
    """mx_kernel_context."""

    _fields_ = [
        ("size", c.c_uint32), ("is_train", c.c_int32), ("context", tables.Context), ("stream", _POINTER),
        ("scratch", c.POINTER(_POINTER)), ("scalars", c.POINTER(c.c_double)), ("n_scalars", c.c_uint32),
        ("threads", c.c_uint32), ("random_key", c.c_uint64), ("random_offset", c.c_uint64),
        ("alloc_output", _POINTER), ("host", _POINTER), ("staging", _POINTER),
    ]  # fmt: skip


class Plan(c.Structure):
    """mx_plan."""

    _fields_ = [
        ("head", tables.Head), ("flags", c.c_uint32), ("n_scratch", c.c_uint32),
        ("scratch_bytes", c.POINTER(c.c_size_t)), ("random_blocks", c.c_uint64),
        ("run", c.CFUNCTYPE(c.c_int32, _POINTER, c.POINTER(KernelContext), c.POINTER(Tensor), c.c_uint32,
                            c.POINTER(Tensor), c.POINTER(c.c_uint8), c.c_uint32, c.POINTER(tables.Error))),
        ("retain", _POINTER), ("release", _POINTER),
        ("staging_bytes", c.CFUNCTYPE(c.c_size_t, _POINTER, c.POINTER(c.c_uint8), c.c_uint32)),
    ]  # fmt: skip


def at(capsule: Any, kind: type[Any], name: str) -> Any:
    """The struct in a capsule."""
    get = c.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = c.c_void_p, [c.py_object, c.c_char_p]
    return kind.from_address(get(capsule, name.encode()))


class GpuBench:
    """Runs plans on a GPU with NumPy arrays, waiting for each."""

    def __init__(self, device_id: int = 0) -> None:
        self.context = gpu(device_id)
        self.device = at(lending.make_device().capsule, DeviceApi, "mx.device.v1")
        self.memory = Memory(device.make_storage(), self.context)
        self.here = self.memory.context
        host = cpu()
        self.host = tables.Context(host.device_typeid, host.device_id)
        stream = _POINTER()
        self.check(self.device.stream, device_id, 0, c.byref(stream))
        self.stream = stream
        self._scratch: list[tables.Block] = []  # of launches not waited for

    def check(self, call: Any, *arguments: Any) -> None:
        """Calls a function of the device table that may fail."""
        error = tables.Error()
        if call(self.device.self, *arguments, c.byref(error)):
            raise AssertionError(error.message.decode())

    def wait(self) -> None:
        """Until the stream is empty."""
        token = _POINTER()
        self.check(self.device.record, self.stream, c.byref(token))
        try:
            self.check(self.device.wait, token)
        finally:
            self.device.release(self.device.self, token)
        for block in self._scratch:
            self.memory.free(block)
        self._scratch.clear()

    def copy_in(self, array: np.ndarray) -> tables.Block:
        """A block with an array's bytes."""
        block = self.memory.alloc(array.nbytes)
        self.check(
            self.device.copy, self.stream, block.data, self.here, array.ctypes.data, self.host, array.nbytes
        )
        self.wait()
        return block

    def copy_out(self, block: tables.Block, like: np.ndarray) -> np.ndarray:
        """A block's bytes as an array."""
        made = np.empty_like(like)
        self.check(
            self.device.copy, self.stream, made.ctypes.data, self.host, block.data, self.here, made.nbytes
        )
        self.wait()
        return made

    def run(
        self,
        capsule: Any,
        inputs: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray],
        req: Sequence[int] | None = None,
        scalars: Sequence[float] = (),
        changed: Sequence[int] = (),
    ) -> list[np.ndarray]:
        """What the outputs, then the inputs `changed`, are after a run.

        RuntimeError with the plan's message if it fails.
        """
        blocks = [self.copy_in(array) for array in (*inputs, *outputs)]
        arrays = [*inputs, *outputs]
        tensors = (Tensor * len(arrays))(*map(self.tensor, arrays, blocks))
        self.launch(capsule, tensors, len(inputs), req or [1] * len(outputs), scalars)
        self.wait()
        read = [*range(len(inputs), len(arrays)), *changed]
        made = [self.copy_out(blocks[i], arrays[i]) for i in read]
        for block in blocks:
            self.memory.free(block)
        return made

    def launch(
        self, capsule: Any, tensors: Any, n_inputs: int, req: Sequence[int], scalars: Sequence[float]
    ) -> None:
        """Enqueues one run on tensors of device memory: inputs, then outputs."""
        plan = at(capsule, Plan, "mx.plan.v1")
        scratch = [self.memory.alloc(plan.scratch_bytes[i]) for i in range(plan.n_scratch)]
        requests = (c.c_uint8 * len(req))(*req)
        staging = plan.staging_bytes(c.addressof(plan), requests, len(req))
        staged = [self.memory.alloc(staging)] if staging else []
        context = KernelContext(
            size=c.sizeof(KernelContext), context=self.here, stream=self.stream, threads=1, random_key=RANDOM_KEY,
            scratch=(_POINTER * len(scratch))(*(b.data for b in scratch)),
            scalars=(c.c_double * len(scalars))(*scalars), n_scalars=len(scalars),
            staging=staged[0].data if staged else None,
        )  # fmt: skip
        error, n_outputs = tables.Error(), len(req)
        outputs = c.cast(c.byref(tensors, n_inputs * c.sizeof(Tensor)), c.POINTER(Tensor))
        status = plan.run(
            c.addressof(plan), c.byref(context), tensors, n_inputs, outputs, requests, n_outputs, c.byref(error)
        )  # fmt: skip
        self._scratch += [*scratch, *staged]
        if status:
            raise RuntimeError(error.message.decode())

    def tensor(self, array: np.ndarray, block: tables.Block) -> Tensor:
        """A descriptor of an array that lies in a block."""
        shape = (c.c_int64 * array.ndim)(*array.shape)
        return Tensor(block.data, shape, array.nbytes, self.here, dtypes.code(array.dtype), array.ndim, 0)
