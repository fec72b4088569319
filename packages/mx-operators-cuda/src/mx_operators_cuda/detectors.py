# SPDX-License-Identifier: Apache-2.0
"""The single-shot detector on a GPU, anchors, targets and detections, and pairs of rows and columns, best first."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod, sqrt
from typing import TYPE_CHECKING, Any

from mx_core import dtypes
from mx_core.expression import compute_dtype
from mx_core.kernels import TensorSpec
from mx_operators_cuda import folds, written
from mx_operators_cuda.codegen import names
from mx_operators_cuda.launch import Kind, Launch, make_plan
from mx_operators_cuda.sort import Keys, order

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall

_INT32 = dtypes.code("int32")
#: threads that work on one image
_BLOCK = 256
_MOST = 1 << 31


def _alike(specs: Sequence[TensorSpec]) -> bool:
    return folds.floating(specs) and len({s.dtype for s in specs}) == 1


def _plan(call: KernelCall, steps: list[Launch], scratch: Sequence[int] = ()) -> Any:
    return make_plan(call.op.name, call.context, call.inputs, call.outputs, steps, scratch=scratch)


def _numbers(values: Sequence[int]) -> list[written.Argument]:
    return [written.number(n) for n in values]


def _doubles(values: Sequence[float]) -> list[written.Argument]:
    return [written.double(x) for x in values]


def _scratch(kind: str, number: int) -> written.Argument:
    return written.Argument("{0}", ((f"{kind}*", (Kind.SCRATCH, number)),))


def priors(call: KernelCall) -> Any:
    """The extents of data -> anchors, a launch for each kind of them."""
    p: Any = call.params
    output = call.outputs[0]
    if not folds.floating((output,)):
        return None
    height, width = call.inputs[0].shape[2:]
    kinds = [(size, p.ratios[0]) for size in p.sizes] + [(p.sizes[0], ratio) for ratio in p.ratios[1:]]
    step_y, step_x = (s if s > 0 else 1 / max(n, 1) for s, n in zip(p.steps, (height, width), strict=True))
    steps = []
    for k, (size, ratio) in enumerate(kinds if height * width else ()):
        half = (size * height / max(width, 1) * sqrt(ratio) / 2, size / sqrt(ratio) / 2)
        arguments = [
            written.write((Kind.OUTPUT, 0), output.dtype), *_numbers((height, width, len(kinds), k)),
            *_doubles((*half, step_x, step_y, p.offsets[1], p.offsets[0])), written.number(int(p.clip)),
        ]  # fmt: skip
        stored = [names.STORAGE[output.dtype]]
        steps.append(written.launch(call.op.name, "detectors::anchors", stored, arguments, height * width))
    return _plan(call, steps)


def targets(call: KernelCall) -> Any:
    """anchor, label, cls_pred -> loc_target, loc_mask, cls_target."""
    p: Any = call.params
    anchor, label, predicted = call.inputs
    (batch, objects, width), anchors, classes = label.shape, anchor.shape[1], predicted.shape[1]
    mines = p.negative_mining_ratio > 0
    if not _alike((*call.inputs, *call.outputs)) or (mines and classes == 0):
        return None
    n, code, name = batch * anchors, anchor.dtype, call.op.name
    if n >= _MOST or objects >= _MOST:
        return None
    if n == 0:
        return _plan(call, [])
    wide = compute_dtype((code,))
    value, types = names.COMPUTE[wide], [written.value_type(code), names.STORAGE[code]]
    images = written.struct("detectors::Images", _numbers((batch, anchors, objects, width, classes)))
    inputs = [written.read((Kind.INPUT, i), code) for i in range(3)]
    matched, mined = _scratch("mx::int32", 0), _scratch("mx::int32", 4)
    item, most = dtypes.itemsize(wide), max(batch * objects, 1)
    scratch = [4 * n, item * n if mines else item, item * most, 4 * most, 4 * batch]
    arguments = [
        *inputs, matched, _scratch(value, 1), _scratch(value, 2), _scratch("mx::int32", 3), mined,
        *_doubles((p.overlap_threshold, p.negative_mining_ratio, p.negative_mining_thresh)), images,
    ]  # fmt: skip
    steps = [
        written.launch(
            name, "detectors::match", types, arguments, batch * _BLOCK, block=_BLOCK, barriers=True
        )
    ]
    if mines:
        found = order(name, Keys(batch, anchors, 1), (Kind.SCRATCH, 1), wide, scratch=5)
        first = [written.read(found.place, _INT32), mined, matched, images]
        steps += [*found.steps, written.launch(name, "detectors::mine", [], first, n)]
        scratch += found.scratch
    arguments = [
        *inputs[:2], matched, *(written.write((Kind.OUTPUT, o), code) for o in range(3)),
        *_doubles((p.ignore_label, *p.variances)), images,
    ]  # fmt: skip
    steps.append(written.launch(name, "detectors::targets", types, arguments, n))
    return _plan(call, steps, scratch)


def detections(call: KernelCall) -> Any:
    """cls_prob, loc_pred, anchor -> rows (class, probability, box)."""
    p: Any = call.params
    batch, classes, anchors = call.inputs[0].shape
    n, code, name = batch * anchors, call.inputs[0].dtype, call.op.name
    if not _alike((*call.inputs, *call.outputs)) or n >= _MOST:
        return None
    if n == 0:
        return _plan(call, [])
    wide = compute_dtype((code,))
    value, types, item = (
        names.COMPUTE[wide],
        [written.value_type(code), names.STORAGE[code]],
        dtypes.itemsize(wide),
    )
    suppresses = 0 < p.nms_threshold <= 1
    ends = suppresses and 0 < p.nms_topk < anchors  # some rows do not compete
    numbers = (batch, classes, anchors, p.clip, p.force_suppress, p.nms_topk, suppresses)
    about = written.struct("detectors::Detections", _numbers([int(x) for x in numbers]))
    (rows, keys, keeps), alive = (_scratch(value, i) for i in range(3)), _scratch("mx::int32", 3)
    scratch = [6 * item * n, item * n, item * n, 4 * n]
    by_score, by_anchor = (Kind.SCRATCH, 1), (Kind.SCRATCH, 2)
    first = order(
        name, Keys(batch, anchors, 1, suppresses), by_score if suppresses else by_anchor, wide, len(scratch)
    )
    scratch += first.scratch
    sorted_ = others = written.read(first.place, _INT32)
    arguments = [
        *(written.read((Kind.INPUT, i), code) for i in range(3)), rows, keys, keeps,
        *_doubles((p.threshold, *p.variances)), about,
    ]  # fmt: skip
    steps = [written.launch(name, "detectors::decode", types, arguments, n), *first.steps]
    if ends:
        second = order(name, Keys(batch, anchors, 1), by_anchor, wide, scratch=len(scratch))
        scratch += second.scratch
        steps += second.steps
        others = written.read(second.place, _INT32)
    if suppresses:
        arguments = [rows, keys, sorted_, alive, written.double(p.nms_threshold), about]
        steps.append(
            written.launch(
                name, "detectors::suppress", types[:1], arguments, batch * _BLOCK, block=_BLOCK, barriers=True
            )
        )
    arguments = [rows, keeps, sorted_, alive, others, written.write((Kind.OUTPUT, 0), code), about]
    steps.append(written.launch(name, "detectors::detections", types, arguments, n))
    return _plan(call, steps, scratch)


def pairs(call: KernelCall) -> Any:
    """scores -> the column of each row, the row of each column."""
    p: Any = call.params
    data = call.inputs[0]
    batch, (rows, columns) = prod(data.shape[:-2]), data.shape[-2:]
    n, code, name = batch * rows * columns, data.dtype, call.op.name
    if not _alike((data, *call.outputs)) or max(rows, columns, rows * columns) >= _MOST:
        return None
    wide = compute_dtype((code,))
    value, types = names.COMPUTE[wide], [written.value_type(code), names.STORAGE[code]]
    scratch = [max(dtypes.itemsize(wide) * n, 1), max(4 * batch * rows, 1), max(4 * batch * columns, 1)]
    keys, by_row, by_column = _scratch(value, 0), _scratch("mx::int32", 1), _scratch("mx::int32", 2)
    steps, sorted_ = list[Launch](), written.absent(_INT32)
    if n:
        found = order(
            name, Keys(batch, rows * columns, 1, not p.is_ascend), (Kind.SCRATCH, 0), wide, scratch=3
        )
        arguments = [
            written.read((Kind.INPUT, 0), code),
            keys,
            written.double(p.threshold),
            *_numbers((int(p.is_ascend), n)),
        ]
        steps = [written.launch(name, "detectors::good", types, arguments, n), *found.steps]
        sorted_, scratch = written.read(found.place, _INT32), [*scratch, *found.scratch]
    most = min(rows, columns, p.topk + 1) if p.topk > 0 else min(rows, columns)
    arguments = [keys, sorted_, by_row, by_column, *_numbers((most, batch, rows, columns))]
    if batch * (rows + columns):
        steps.append(
            written.launch(
                name, "detectors::pair", types[:1], arguments, batch * _BLOCK, block=_BLOCK, barriers=True
            )
        )
    for o, (matches, size) in enumerate(((by_row, batch * rows), (by_column, batch * columns))):
        arguments = [matches, written.write((Kind.OUTPUT, o), code), written.number(size)]
        if size:
            steps.append(written.launch(name, "detectors::numbers", types, arguments, size))
    return _plan(call, steps, scratch)
