# SPDX-License-Identifier: Apache-2.0
"""Boxes on a GPU: overlap, offsets from anchors, non-maximum suppression.

No kernel can raise an error about a value it reads: matches are limited to the boxes that there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from mx_core import dtypes
from mx_core.expression import compute_dtype
from mx_core.kernels import TensorSpec
from mx_operators_cuda import elementwise, folds, written
from mx_operators_cuda.codegen import names
from mx_operators_cuda.launch import Kind, Launch, make_plan
from mx_operators_cuda.sort import Keys, order

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall

_INT32, _INT64 = dtypes.code("int32"), dtypes.code("int64")
_BLOCK = 256


def _alike(specs: Sequence[TensorSpec]) -> bool:
    return folds.floating(specs) and len({s.dtype for s in specs}) == 1


def _types(code: int) -> list[str]:
    return [written.value_type(code), names.STORAGE[code]]


def _plan(call: KernelCall, steps: list[Launch], scratch: Sequence[int] = (), n_scalars: int = 0) -> Any:
    return make_plan(
        call.op.name, call.context, call.inputs, call.outputs, steps, scratch=scratch, n_scalars=n_scalars
    )


def overlap(call: KernelCall) -> Any:
    """lhs, rhs -> intersection over union of each pair."""
    p: Any = call.params
    lhs, rhs = call.inputs
    if not _alike((*call.inputs, *call.outputs)):
        return None
    rows, columns, code = prod(lhs.shape[:-1]), prod(rhs.shape[:-1]), lhs.dtype
    arguments = [
        written.read((Kind.INPUT, 0), code), written.read((Kind.INPUT, 1), code),
        written.write((Kind.OUTPUT, 0), code), written.number(rows), written.number(columns),
        written.number(int(p.format == "center")),
    ]  # fmt: skip
    n = rows * columns
    steps = [written.launch(call.op.name, "boxes::overlaps", _types(code), arguments, n)] if n else []
    return _plan(call, steps)


def encode(call: KernelCall) -> Any:
    """samples, matches, anchors, refs, means, stds -> targets, mask."""
    if not _alike((*call.inputs, *call.outputs)):
        return None
    batch, n, _ = call.inputs[2].shape
    code, boxes = call.inputs[0].dtype, call.inputs[3].shape[1]
    arguments = [
        *(written.read((Kind.INPUT, i), code) for i in range(6)),
        *(written.write((Kind.OUTPUT, o), code) for o in (0, 1)),
        *(written.number(x) for x in (batch, n, boxes)),
    ]  # fmt: skip
    made = written.launch(call.op.name, "boxes::encode", _types(code), arguments, batch * n)
    return _plan(call, [made] if batch * n else [])


def decode(call: KernelCall) -> Any:
    """data, anchors -> boxes in corner form."""
    p: Any = call.params
    if not _alike((*call.inputs, *call.outputs)):
        return None
    batch, n, _ = call.inputs[0].shape
    code = call.inputs[0].dtype
    arguments = [
        written.read((Kind.INPUT, 0), code), written.read((Kind.INPUT, 1), code),
        written.write((Kind.OUTPUT, 0), code), *(written.scalar(i) for i in range(5)),
        *(written.number(x) for x in (int(p.format == "corner"), batch * n, n)),
    ]  # fmt: skip
    made = written.launch(call.op.name, "boxes::decode", _types(code), arguments, batch * n)
    return _plan(call, [made] if batch * n else [], n_scalars=5)


def suppress(call: KernelCall) -> Any:
    """data -> rows that survive, where they come from."""
    p: Any = call.params
    data = call.inputs[0]
    if not _alike((data, call.outputs[0])) or p.topk == 0 or any(s.layout for s in call.outputs):
        return None
    n, width = data.shape[-2:]
    batch, code, name = prod(data.shape[:-2]), data.dtype, call.op.name
    if batch * n * width == 0:
        return _plan(call, [])
    if n >= 1 << 31:
        return None
    wide = compute_dtype((code,))
    value, types = names.COMPUTE[wide], _types(code)
    compete = int(p.id_index < 0 or p.force_suppress)
    forms = (int(p.in_format == "center"), int(p.out_format == "center"))
    numbers = (
        batch, n, width, p.coord_start, p.score_index, p.id_index, p.background_id, compete, p.topk, *forms
    )  # fmt: skip
    rows = written.struct("boxes::Rows", [written.number(x) for x in numbers])
    x, keys = written.read((Kind.INPUT, 0), code), written.read((Kind.SCRATCH, 0), wide)
    found = order(name, Keys(batch, n, 1, descending=True), (Kind.SCRATCH, 0), wide, scratch=3)
    scored = [x, _scratch(f"{value}*", 0), written.double(p.valid_thresh), rows]
    competing = [
        x, keys, written.read(found.place, _INT32), _scratch("mx::int32*", 1), _scratch("mx::int32*", 2),
        written.double(p.overlap_thresh), rows,
    ]  # fmt: skip
    survived = [
        x, written.read((Kind.SCRATCH, 2), _INT32), written.write((Kind.OUTPUT, 0), code),
        written.write((Kind.OUTPUT, 1), _INT64), rows,
    ]  # fmt: skip
    steps = [
        written.launch(name, "boxes::scores", types, scored, batch * n),
        *found.steps,
        written.launch(
            name, "boxes::suppress", types, competing, batch * _BLOCK, block=_BLOCK, barriers=True
        ),
        written.launch(name, "boxes::survivors", types, survived, batch * n),
    ]
    each = batch * n
    return _plan(call, steps, [dtypes.itemsize(wide) * each, 4 * each, 4 * each, *found.scratch])


def _scratch(kind: str, number: int) -> written.Argument:
    return written.Argument("{0}", ((kind, (Kind.SCRATCH, number)),))


def backward_suppress(call: KernelCall) -> Any:
    """out_grad, source -> data_grad."""
    p: Any = call.params
    head, source = call.inputs[:2]
    if not _alike((head, call.outputs[0])) or source.layout or source.dtype != _INT64:
        return None
    if p.topk == 0:
        return elementwise.plan(call, elementwise.identity(), call.inputs[:1], call.outputs)
    n, width = head.shape[-2:]
    batch, code = prod(head.shape[:-2]), head.dtype
    arguments = [
        written.read((Kind.INPUT, 0), code), written.read((Kind.INPUT, 1), _INT64),
        written.write((Kind.OUTPUT, 0), code), *(written.number(x) for x in (batch, n, width)),
    ]  # fmt: skip
    threads = batch * n * width
    made = written.launch(call.op.name, "boxes::backward_survivors", _types(code), arguments, threads)
    return _plan(call, [made] if threads else [])
