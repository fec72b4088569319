# SPDX-License-Identifier: Apache-2.0
"""Counts what the runs of plans allocate, in a process that has `counter.c` preloaded."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from mx_core import _native, dtypes, operators
from mx_core.context import cpu
from mx_core.errors import MXNetError
from mx_core.kernels import TensorSpec, prepare
from mx_operators_cpu.library import native

WRITE, ADD, NULL = 1, 3, 0
#: scalars that a plan may read at run time: no kernel has more
SCALARS = (0.5,) * 64
#: bytes of one allocation of oneDNN itself while small tensors are computed: its tables of arguments are smaller, and
#: operands that its products pack, for which it has no scratchpad, are no larger
MOST_OF_PRIMITIVES = 128 << 10


class Counter:
    """What is allocated between `begin` and `end`."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(os.environ["LD_PRELOAD"])
        native.instruction_set()  # makes the tables of loops, once for the process
        self._begin_thread()

    @staticmethod
    def _begin_thread() -> None:
        """Runs a kernel: the first one of a thread gives it a signal stack."""
        op, x = operators.get("relu"), np.ones(4, np.float32)
        specs = [TensorSpec(x.shape, dtypes.code(x.dtype))]
        made = prepare(op, op.Param.parse({}), specs, specs, cpu(), False)
        _native.run_plan(made.plan, [x], [np.empty_like(x)], [WRITE])

    def begin(self) -> None:
        self._library.allocations_begin(ctypes.c_long(-1))

    def fail(self, allowed: int) -> None:
        """As `begin`; after `allowed` allocations outside of oneDNN one fails."""
        self._library.allocations_begin(ctypes.c_long(allowed))

    def end(self) -> tuple[int, ...]:
        """Allocations of the kernels, bytes of the largest, allocations of oneDNN, bytes of its largest."""
        return self._counted()[:4]

    def failed(self) -> bool:
        """Whether one has failed since `fail`."""
        return bool(self._library.allocations_failed())

    def failable(self) -> int:
        """Allocations of all native code of mx; ends counting."""
        kernels, _, _, _, extensions, _ = self._counted()
        return kernels + extensions

    def _counted(self) -> tuple[int, ...]:
        counted = (ctypes.c_long * 6)()
        self._library.allocations_end(counted)
        return tuple(counted)


def count(
    counter: Counter,
    plan: Any,
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    scalars: Sequence[float] = SCALARS,
    is_train: bool = True,
) -> list[dict[str, Any]]:
    """Runs of a plan that allocate, with every request, on one and on two threads.

    The first run counts as well, but for oneDNN, which generates some of its code when that is first called. A run
    that fails is no finding: an error has a message, which is memory.
    """
    found = []
    for threads in (1, 2):
        for turn, request in enumerate((WRITE, ADD, NULL, WRITE)):
            req = [request if not isinstance(output, int) else WRITE for output in outputs]
            counter.begin()
            try:
                _native.run_plan(
                    plan, inputs, outputs, req, is_train=is_train, scalars=scalars, threads=threads
                )
            except MXNetError:
                counter.end()
                continue
            kernels, size, primitives, primitive_size = counter.end()
            if kernels or (turn == 3 and primitive_size > MOST_OF_PRIMITIVES):
                found.append({"threads": threads, "request": request, "kernels": [kernels, size],
                              "oneDNN": [primitives, primitive_size]})  # fmt: skip
    return found
