# SPDX-License-Identifier: Apache-2.0
"""Rows chosen by a mask on a GPU.

How many there are, only a run knows: its stream is waited for, then the output gets its memory.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from mx_core.kernels import TensorSpec
from mx_operators_cuda import written
from mx_operators_cuda.codegen import names
from mx_operators_cuda.launch import Counted, Kind, Launch, make_plan

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall

#: rows that a block numbers, and its threads
_PIECE, _BLOCK = 4096, 256
#: scratch: how many rows are chosen before each piece, and in all; the place of each row
_COUNTS, _PLACES = (written.Argument("{0}", (("mx::int64*", (Kind.SCRATCH, i)),)) for i in (0, 1))


def _numbered(name: str, place: int, mask: TensorSpec) -> tuple[list[Launch], list[int]]:
    """The launches that find the places, and the bytes of scratch."""
    n, given = mask.shape[0], written.read((Kind.INPUT, place), mask.dtype)
    pieces, sizes = -(-n // _PIECE), [written.number(n), written.number(_PIECE)]

    def by_piece(function: str, arguments: list[written.Argument]) -> list[Launch]:
        made = written.launch(
            name, f"masks::{function}", [names.STORAGE[mask.dtype]], [given, *arguments, *sizes], pieces * _BLOCK,
            block=_BLOCK, barriers=True,
        )  # fmt: skip
        return [made] if n else []

    steps = [
        *by_piece("count", [_COUNTS]),
        written.launch(name, "masks::add_up", [], [_COUNTS, written.number(pieces)], 1),
        *by_piece("places", [_COUNTS, _PLACES]),
    ]
    return steps, [8 * (pieces + 1), max(8 * n, 8)]


def choose(call: KernelCall) -> Any:
    """data, index -> the rows where index is not zero."""
    data, mask = call.inputs
    if any(s.layout or s.dtype not in names.STORAGE for s in call.inputs):
        return None
    rows, width = data.shape[0], prod(data.shape[1:])
    steps, scratch = _numbered(call.op.name, 1, mask)
    counted = Counted(len(steps), 0, scratch[0] - 8, data.shape[1:])
    arguments = [
        written.read((Kind.INPUT, 0), data.dtype), _PLACES,
        written.Argument("{0}", ((f"{names.STORAGE[data.dtype]}*", (Kind.OUTPUT, 0)),)),
        written.number(rows), written.number(width),
    ]  # fmt: skip
    n = rows * width
    if n:
        steps.append(written.launch(call.op.name, "masks::gather", [names.STORAGE[data.dtype]], arguments, n))
    outputs = [TensorSpec((0,), data.dtype)]
    return make_plan(
        call.op.name, call.context, call.inputs, outputs, steps, scratch=scratch, counted=counted
    )


def backward_choose(call: KernelCall) -> Any:
    """out_grad, data, index -> the gradient where the rows came from, else zero."""
    head, mask, output = call.inputs[0], call.inputs[-1], call.outputs[0]
    specs = (head, mask, output)
    if any(s.layout or s.dtype not in names.STORAGE for s in specs) or head.dtype != output.dtype:
        return None
    steps, scratch = _numbered(call.op.name, len(call.inputs) - 1, mask)
    arguments = [
        written.read((Kind.INPUT, 0), head.dtype), _PLACES, written.write((Kind.OUTPUT, 0), output.dtype),
        *(written.number(x) for x in (output.shape[0], prod(output.shape[1:]), head.shape[0])),
    ]  # fmt: skip
    types, n = [written.value_type(head.dtype), names.STORAGE[head.dtype]], prod(output.shape)
    if n:
        steps.append(written.launch(call.op.name, "masks::scatter", types, arguments, n))
    return make_plan(
        call.op.name, call.context, call.inputs, call.outputs, steps if n else [], scratch=scratch
    )
