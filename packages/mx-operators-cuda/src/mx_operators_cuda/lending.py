# SPDX-License-Identifier: Apache-2.0
"""The device `gpu` for code in Python that uses CuPy or PyTorch on arrays of mx."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from mx_operators_cuda import _native
from mx_operators_cuda.captured_step import CapturedStep
from mx_operators_cuda.device import require


class Device(_native.Device):
    """Streams, tokens and copies, and what other libraries need to take turns with them. Threads: any."""

    def captured_step(
        self, forward: Callable[..., Any], update: Callable[[], Any] | None, **settings: Any
    ) -> Any:
        """A step that becomes a CUDA graph; arguments as of `CapturedStep`."""
        return CapturedStep(forward, update, **settings)

    @contextmanager
    def other_libraries(self, device_id: int) -> Iterator[None]:
        """While the block runs, CuPy and PyTorch, where they are loaded, use the stream that computes.

        At its end everything on the GPU has ended, whichever library enqueued it on whichever stream.

        Raises
        ------
        MXNetError  while a step is captured: code in Python is no part of a graph
        """
        self.synchronize(device_id)
        with ExitStack() as stack:
            for enter in (_cupy, _torch):
                for manager in enter(self.stream(device_id), device_id):
                    stack.enter_context(manager)
            try:
                yield
            finally:
                self.synchronize(device_id)


def make_device() -> Device:
    """The service `device("gpu")`."""
    require()
    return Device()


def _cupy(stream: int, device_id: int) -> tuple[Any, ...]:
    cuda = getattr(sys.modules.get("cupy"), "cuda", None)
    return () if cuda is None else (cuda.Device(device_id), cuda.ExternalStream(stream, device_id))


def _torch(stream: int, device_id: int) -> tuple[Any, ...]:
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda is None or not cuda.is_available():
        return ()
    return (cuda.stream(cuda.ExternalStream(stream, device=device_id)),)
