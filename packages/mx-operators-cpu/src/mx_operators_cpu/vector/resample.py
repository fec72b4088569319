# SPDX-License-Identifier: Apache-2.0
"""Images mixed along rows and columns, with the matrices that the operators declare."""

from __future__ import annotations

from typing import Any

import numpy as np

from mx_core.kernels import KernelCall
from mx_operators_cpu import _vector
from mx_operators_cpu.vector.signature import real, tensors


def _sparse(matrix: Any) -> tuple[list[int], list[int], list[float]]:
    rows, columns = np.nonzero(matrix)
    begins = np.searchsorted(rows, np.arange(len(matrix) + 1))
    return begins.tolist(), columns.tolist(), matrix[rows, columns].tolist()


def _plan(call: KernelCall, rows: Any, columns: Any) -> Any:
    height, width = call.inputs[0].shape[2:]
    return _vector.resample_plan(
        tensors(call.inputs), tensors(call.outputs), height=height, width=width, rows=_sparse(rows),
        columns=_sparse(columns),
    )  # fmt: skip


def resample(call: KernelCall) -> Any:
    """A Resample operator."""
    op: Any = call.op
    if not real(call):
        return None
    extents = zip(call.inputs[0].shape[2:], call.outputs[0].shape[2:], strict=True)
    return _plan(call, *(op.weights(call.params, old, new) for old, new in extents))


def backward(call: KernelCall) -> Any:
    """Its gradient: the matrices transposed."""
    op: Any = call.op
    if not real(call):
        return None
    extents = zip(call.outputs[0].shape[2:], call.inputs[0].shape[2:], strict=True)
    return _plan(call, *(op.forward.weights(call.params, old, new).T for old, new in extents))
