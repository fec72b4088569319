# SPDX-License-Identifier: Apache-2.0
"""Images with channels last: to tensors, normalised, cut, mirrored, resized."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import floor, pi, prod, sin
from typing import Any

from mx_core import dtypes
from mx_core.errors import NoKernelError
from mx_core.kernels import KernelCall
from mx_operators_cpu.indexing.view import View, move
from mx_operators_cpu.library import native
from mx_operators_cpu.signature import floating, plain, tensors

_BYTE = dtypes.code("uint8")
#: per row of a mixing matrix the places it reads, and their weights
Taps = list[list[tuple[int, float]]]


def to_tensor(call: KernelCall) -> object:
    """Channels in front, 0 to 1."""
    if not plain(*call.inputs, *call.outputs):
        return None
    return native.to_tensor_plan(tensors(call.inputs), tensors(call.outputs))


def _per_channel(values: Sequence[float], count: int) -> list[float]:
    return list(values[:count]) if len(values) >= count else [values[0]] * count


def normalize(call: KernelCall) -> object:
    """Per channel."""
    p: Any = call.params
    if not floating(call):
        return None
    count = call.inputs[0].shape[-3]
    mean, deviation = _per_channel(p.mean, count), _per_channel(p.std, count)
    return native.normalize_plan(tensors(call.inputs), tensors(call.outputs), mean, deviation)


def backward_normalize(call: KernelCall) -> object:
    """The gradient over the deviation."""
    p: Any = call.params
    if not floating(call):
        return None
    count = call.inputs[0].shape[-3]
    deviation = _per_channel(p.std, count)
    return native.normalize_plan(tensors(call.inputs), tensors(call.outputs), [0.0] * count, deviation)


# ---- cut and mirrored ----


def _part(p: Any, shape: Sequence[int]) -> View:
    view, rank = View.of(shape), len(shape)
    return view.part(rank - 3, p.y, 1, p.height).part(rank - 2, p.x, 1, p.width)


def crop(call: KernelCall) -> object:
    """A part."""
    if not plain(*call.inputs, *call.outputs):
        return None
    moves = [move(_part(call.params, call.inputs[0].shape), View.of(call.outputs[0].shape))]
    return native.move_plan(tensors(call.inputs), tensors(call.outputs), moves)


def backward_crop(call: KernelCall) -> object:
    """Zero around the part."""
    head, grad = call.inputs[0], call.outputs[0]
    if not plain(*call.inputs, grad) or head.dtype != grad.dtype:
        return None
    moves = [move(View.of(head.shape), _part(call.params, grad.shape))]
    return native.move_plan(tensors(call.inputs), tensors(call.outputs), moves, ((0, 0.0, None),))


def flip(call: KernelCall) -> object:
    """One axis walked backwards; at random in half the cases."""
    op: Any = call.op
    shape = call.inputs[0].shape
    if not plain(*call.inputs, *call.outputs):
        return None
    return native.flip_plan(
        tensors(call.inputs), tensors(call.outputs), extent=shape[op.axis], inner=prod(shape[op.axis + 1 :]),
        random=op.is_random,
    )  # fmt: skip


# ---- resized: what every row (or column) of the result is a mixture of ----


def _neighbour(i: int, new: int, old: int) -> tuple[int, float]:
    """The element before a position, −1 before the first one, and how far it is after it."""
    position = (i + 0.5) * (old / new) - 0.5
    return floor(position), position - floor(position)


def _covered(i: int, new: int, old: int) -> tuple[int, float]:
    """The element that a new one begins in, and the share of the new one after that element."""
    low = floor(i * (old / new))
    share = (i + 1) - (low + 1) * (new / old)
    return low, 0.0 if share <= 0 else share - floor(share)


def _linear(share: float) -> list[float]:
    return [1 - share, share]


def _cubic(x: float) -> list[float]:
    a = -0.75
    first = ((a * (x + 1) - 5 * a) * (x + 1) + 8 * a) * (x + 1) - 4 * a
    second = ((a + 2) * x - (a + 3)) * x * x + 1
    third = ((a + 2) * (1 - x) - (a + 3)) * (1 - x) * (1 - x) + 1
    return [first, second, third, 1 - first - second - third]


def _sinc(x: float) -> float:
    return 1.0 if x == 0 else sin(pi * x) / (pi * x)


def _lanczos(share: float) -> list[float]:
    found = [_sinc(k - share) * _sinc((k - share) / 4) for k in range(-3, 5)]
    return [w / sum(found) for w in found]


def _nearest(new: int, old: int) -> Taps:
    return [[(min(int(i * (old / new)), old - 1), 1.0)] for i in range(new)]


def _area(new: int, old: int) -> Taps:
    taps: Taps = []
    for i in range(new):
        low, high = i * (old / new), (i + 1) * (old / new)
        reach = range(floor(low), min(floor(high) + 1, old))
        cover = [(e, max(min(high, e + 1) - max(low, e), 0.0)) for e in reach]
        total = sum(w for _, w in cover)
        taps.append([(e, w / total) for e, w in cover if w])
    return taps


Find = Callable[[int, int, int], tuple[int, float]]
Weigh = Callable[[float], list[float]]


def _interpolated(new: int, old: int, find: Find, weigh: Weigh, first: int) -> Taps:
    """Neighbours from the found element + `first` on; beyond the border its element stands in."""
    taps: Taps = []
    for i in range(new):
        low, share = find(i, new, old)
        taps.append([(min(max(low + first + k, 0), old - 1), w) for k, w in enumerate(weigh(share))])
    return taps


def _merged(taps: Taps) -> Taps:
    """Every place once."""
    made: Taps = []
    for row in taps:
        sums: dict[int, float] = {}
        for place, weight in row:
            sums[place] = sums.get(place, 0.0) + weight
        made.append(sorted(sums.items()))
    return made


def _mixing(taps: Taps) -> tuple[list[int], list[int], list[float]]:
    begins = [0]
    for row in taps:
        begins.append(begins[-1] + len(row))
    return begins, [place for row in taps for place, _ in row], [w for row in taps for _, w in row]


#: interpolation code -> how neighbours are found and weighed, and the first of them
_METHODS: dict[int, tuple[Find, Weigh, int]] = {
    1: (_neighbour, _linear, 0), 2: (_neighbour, _cubic, -1), 4: (_neighbour, _lanczos, -3),
}  # fmt: skip


def resize(call: KernelCall) -> object:
    """Rows and columns mixed; 8-bit images in integers."""
    p: Any = call.params
    old, new = call.inputs[0].shape[-3:-1], call.outputs[0].shape[-3:-1]
    if not plain(*call.inputs, *call.outputs) or 0 in new:
        return None
    smaller = new[0] <= old[0] and new[1] <= old[1]
    by_area = p.interp == 3 and smaller
    rounding = "none"
    if p.interp == 0 or by_area:
        make = _nearest if p.interp == 0 else _area
        rows, columns = (make(n, m) for n, m in zip(new, old, strict=True))
    else:
        method = (_covered, _linear, 0) if p.interp == 3 else _METHODS[p.interp]
        rows, columns = (_interpolated(n, m, *method) for n, m in zip(new, old, strict=True))
        paired = p.interp in (1, 3)
        if call.inputs[0].dtype == _BYTE:
            rounding = "paired" if paired else "fixed"
        columns = _merged(columns)
        rows = rows if rounding == "paired" else _merged(rows)
    try:
        return native.image_resize_plan(
            tensors(call.inputs), tensors(call.outputs), rows=_mixing(rows), columns=_mixing(columns),
            rounding=rounding,
        )  # fmt: skip
    except NoKernelError:
        return None
