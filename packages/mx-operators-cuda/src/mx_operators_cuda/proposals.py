# SPDX-License-Identifier: Apache-2.0
"""Region proposals on a GPU: the anchors that offsets move to where an object may be."""

from __future__ import annotations

from math import floor, sqrt
from typing import TYPE_CHECKING, Any

from mx_core import dtypes
from mx_core.expression import compute_dtype
from mx_operators_cuda import folds, written
from mx_operators_cuda.codegen import names
from mx_operators_cuda.launch import Kind, make_plan
from mx_operators_cuda.sort import Keys, order

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall

_INT32 = dtypes.code("int32")
#: threads that work on one image
_BLOCK = 256


def _scratch(kind: str, number: int) -> written.Argument:
    return written.Argument("{0}", ((f"{kind}*", (Kind.SCRATCH, number)),))


def _anchors(p: Any) -> list[tuple[float, ...]]:
    """Of position (0, 0): corners in whole pixels, both included."""
    side, made = p.feature_stride, []
    for ratio in p.ratios:
        width = floor(sqrt(floor(side * side / ratio)) + 0.5)
        height = floor(width * ratio + 0.5)
        for scale in p.scales:
            half, middle = ((width * scale - 1) / 2, (height * scale - 1) / 2), (side - 1) / 2
            made.append((*(middle - h for h in half), *(middle + h for h in half)))
    return made


def propose(call: KernelCall) -> Any:
    """cls_prob, bbox_pred, im_info -> rows (image, box), scores; a launch for each anchor."""
    p: Any = call.params
    specs = (*call.inputs, *call.outputs)
    images, channels, height, width = call.inputs[0].shape
    each, most, code, name = (
        channels // 2 * height * width,
        p.rpn_post_nms_top_n,
        call.inputs[0].dtype,
        call.op.name,
    )
    if (
        not folds.floating(specs)
        or len({s.dtype for s in specs}) > 1
        or max(images * each, images * most) >= 1 << 31
    ):
        return None
    if images == 0:
        return make_plan(name, call.context, call.inputs, call.outputs, [])
    wide = compute_dtype((code,))
    value, types = names.COMPUTE[wide], [written.value_type(code), names.STORAGE[code]]
    numbers = (images, channels // 2, height, width, p.feature_stride, int(p.iou_loss))
    maps = written.struct("proposals::Maps", [written.number(n) for n in numbers])
    boxes, scores = _scratch("double", 0), _scratch(value, 1)
    steps = []
    for i, anchor in enumerate(_anchors(p)):
        arguments = [
            *(written.read((Kind.INPUT, k), code) for k in range(3)), boxes, scores, written.number(i),
            *(written.double(x) for x in (*anchor, p.rpn_min_size)), maps,
        ]  # fmt: skip
        steps.append(written.launch(name, "proposals::place", types, arguments, images * height * width))
    found = order(name, Keys(images, each, 1, descending=True), (Kind.SCRATCH, 1), wide, scratch=5)
    gone, kept, count = (_scratch("mx::int32", i) for i in (2, 3, 4))
    considered = min(each, p.rpn_pre_nms_top_n) if p.rpn_pre_nms_top_n > 0 else each
    keeping = [
        boxes, written.read(found.place, _INT32), gone, kept, count, written.double(p.threshold),
        written.number(considered), written.number(most), maps,
    ]  # fmt: skip
    rows = [
        boxes, scores, kept, count, *(written.write((Kind.OUTPUT, o), code) for o in (0, 1)), written.number(most),
        maps,
    ]  # fmt: skip
    steps += [
        *found.steps,
        written.launch(name, "proposals::keep", [], keeping, images * _BLOCK, block=_BLOCK, barriers=True),
        written.launch(name, "proposals::rows", types, rows, images * most),
    ]
    all_, item = images * each, dtypes.itemsize(wide)
    scratch = [32 * all_, item * all_, 4 * all_, 4 * images * most, 4 * images, *found.scratch]
    return make_plan(name, call.context, call.inputs, call.outputs, steps, scratch=scratch)
