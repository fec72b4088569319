# SPDX-License-Identifier: Apache-2.0
"""Images mixed along rows and columns, with the matrices that the operators declare."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from mx_core.kernels import KernelCall
from mx_operators_cpu.indexing.view import View, move
from mx_operators_cpu.library import native
from mx_operators_cpu.signature import plain, real, tensors

#: where each row's entries begin (and the last ends), their columns and weights
Mixing: TypeAlias = tuple[list[int], list[int], list[float]]


def _sparse(matrix: Any) -> Mixing:
    rows, columns = np.nonzero(matrix)
    begins = np.searchsorted(rows, np.arange(len(matrix) + 1))
    return begins.tolist(), columns.tolist(), matrix[rows, columns].tolist()


def _plan(call: KernelCall, rows: Mixing, columns: Mixing) -> object:
    height, width = call.inputs[0].shape[2:]
    return native.resample_plan(
        tensors(call.inputs), tensors(call.outputs), height=height, width=width, rows=rows,
        columns=columns,
    )  # fmt: skip


def resample(call: KernelCall) -> object:
    """A Resample operator."""
    op: Any = call.op
    if not real(call):
        return None
    extents = zip(call.inputs[0].shape[2:], call.outputs[0].shape[2:], strict=True)
    return _plan(call, *(_sparse(op.weights(call.params, old, new)) for old, new in extents))


def backward(call: KernelCall) -> object:
    """Its gradient: the matrices transposed."""
    op: Any = call.op
    if not real(call):
        return None
    extents = zip(call.outputs[0].shape[2:], call.inputs[0].shape[2:], strict=True)
    return _plan(call, *(_sparse(op.forward.weights(call.params, old, new).T) for old, new in extents))


def _joined(call: KernelCall) -> bool:
    p: Any = call.params
    return bool(p.sample_type == "nearest" and (p.num_args == 1 or p.multi_input_mode == "concat"))


def upsample(call: KernelCall) -> object:
    """Pixels repeated; several inputs side by side along the channels."""
    if not _joined(call) or not plain(*call.inputs, *call.outputs):
        return None
    moves, begin = [], 0
    for i, spec in enumerate(call.inputs):
        n, c, h, w = spec.shape
        target = View.of(call.outputs[0].shape).part(1, begin, 1, c)
        height, width = (new // old for new, old in zip(target.shape[2:], (h, w), strict=True))
        blocks = target.split(2, height).split(4, width)
        moves.append(move(View.of((n, c, h, 1, w, 1)).broadcast(blocks.shape), blocks, input=i))
        begin += c
    return native.move_plan(tensors(call.inputs), tensors(call.outputs), moves)


def _blocks(extent: int, new: int) -> Mixing:
    """Sums of blocks of pixels."""
    return list(range(0, new + 1, new // extent)), list(range(new)), [1.0] * new


def backward_upsample(call: KernelCall) -> object:
    """Sums over repeated pixels, for a single input."""
    p: Any = call.params
    if p.sample_type == "bilinear" or p.num_args != 1 or not real(call):
        return None
    extents = zip(call.outputs[0].shape[2:], call.inputs[0].shape[2:], strict=True)
    return _plan(call, *(_blocks(old, new) for old, new in extents))
