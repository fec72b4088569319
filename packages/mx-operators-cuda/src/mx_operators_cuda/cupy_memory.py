# SPDX-License-Identifier: Apache-2.0
"""CuPy's arrays in the pool of mx, so that two libraries do not keep two pools on one GPU."""

from __future__ import annotations

from collections import deque
from typing import Any

from mx_core.context import gpu
from mx_core.errors import OutOfMemoryError


class CupyMemory:
    """Gives CuPy memory of mx's pool, and the pool what CuPy has finished with.

    `cupy.cuda.set_allocator(mx_operators_cuda.CupyMemory().allocator)` makes CuPy use it.

    CuPy gives memory back while kernels of its current stream may still use it, the pool of mx knows no
    streams: so a block waits for an event after that work. Work on other streams that uses an array
    must be done, or waited for by the current one, before the array goes; CuPy's own pool asks the same.

    Threads: any.
    """

    def __init__(self) -> None:
        from mx_core import services

        self._storage = services.storage("gpu")
        # without a lock: Python's garbage collector frees arrays of CuPy anywhere, also within a call of this class
        self._leaving: deque[tuple[Any, int]] = deque()

    @property
    def allocator(self) -> Any:
        """What `cupy.cuda.set_allocator` takes."""
        import cupy

        return cupy.cuda.PythonFunctionAllocator(self.malloc, self.free).malloc

    def malloc(self, size: int, device_id: int) -> int:
        """Address of a new block.

        Raises
        ------
        OutOfMemoryError  also after everything CuPy gave back was waited for
        """
        self._collect(wait=False)
        try:
            return int(self._storage.alloc(size, gpu(device_id)))
        except OutOfMemoryError:
            self._collect(wait=True)
            return int(self._storage.alloc(size, gpu(device_id)))

    def free(self, address: int, device_id: int) -> None:
        """Gives a block back when CuPy's current stream has come to here."""
        if not address:
            return
        import cupy

        with cupy.cuda.Device(device_id):
            event = cupy.cuda.Event(disable_timing=True)
            event.record()
        self._leaving.append((event, address))
        self._collect(wait=False)

    def _collect(self, wait: bool) -> None:
        for _ in range(len(self._leaving)):
            try:
                event, address = self._leaving.popleft()
            except IndexError:  # another thread was faster
                return
            if wait:
                event.synchronize()
            elif not event.done:
                self._leaving.append((event, address))
                continue
            self._storage.free(address)
