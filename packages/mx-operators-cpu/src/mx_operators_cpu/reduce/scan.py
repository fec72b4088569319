# SPDX-License-Identifier: Apache-2.0
"""Running sums, counts, moments, windows as columns."""

from __future__ import annotations

from functools import cache
from itertools import product
from math import prod
from typing import Any

from mx_core import dtypes
from mx_core import expression as X
from mx_core.errors import NoKernelError
from mx_core.expression import Expression
from mx_core.kernels import KernelCall
from mx_operators_cpu.composite import Composite, same, traced
from mx_operators_cpu.indexing.view import View, move
from mx_operators_cpu.library import native
from mx_operators_cpu.reduce.axes import kept_shape, reduced_axes
from mx_operators_cpu.signature import accumulator, floating, plain, real, tensors

# ---- running sums ----


def _scan(call: KernelCall, shape: tuple[int, ...], reverse: bool) -> object:
    p: Any = call.params
    if not plain(*call.inputs, *call.outputs):
        return None
    axis = 0 if p.axis is None else p.axis % len(shape)
    whole = p.axis is None
    outer, extent, inner = prod(shape[:axis]), shape[axis] if shape else 1, prod(shape[axis + 1 :])
    if whole:
        outer, extent, inner = 1, prod(shape), 1
    try:
        return native.scan_plan(
            tensors(call.inputs), tensors(call.outputs), outer=outer, extent=extent, inner=inner,
            reverse=reverse,
        )  # fmt: skip
    except NoKernelError:
        return None


def cumsum(call: KernelCall) -> object:
    """From the beginning."""
    return _scan(call, call.inputs[0].shape, reverse=False)


def backward_cumsum(call: KernelCall) -> object:
    """From the end."""
    return _scan(call, call.outputs[0].shape, reverse=True)


# ---- counts ----

#: equal intervals beyond this are the reference's
_MOST_BINS = 1 << 20
_EXACT = frozenset(dtypes.code(n) for n in (
    "float16", "bfloat16", "float32", "float64", "int32", "int16", "int8", "uint8", "uint16", "uint32"))  # fmt: skip


def histogram(call: KernelCall) -> object:
    """Values counted in float64, which holds them exactly."""
    p: Any = call.params
    if not plain(*call.inputs, *call.outputs) or call.inputs[0].dtype not in _EXACT:
        return None
    edges: list[float] = []
    if p.bin_cnt is not None:
        if p.bin_cnt > _MOST_BINS:
            return None
        low, high = p.range
        step = (high - low) / p.bin_cnt
        if not (0 < step < float("inf")):
            return None
        edges = [i * step + low for i in range(p.bin_cnt)] + [high]
    return native.histogram_plan(tensors(call.inputs), tensors(call.outputs), edges)


# ---- moments ----


def _squared_distance(x: Any, mean: Any) -> Any:
    return X.square(x - mean)


def moments(call: KernelCall) -> object:
    """Means, then mean squares around them."""
    if not real(call):
        return None
    shape, kind = call.inputs[0].shape, accumulator(call.inputs[0].dtype)
    axes, kept = reduced_axes(call.params, len(shape)), kept_shape(call.params, call.inputs[0].shape)
    reduced = [axis in axes for axis in range(len(shape))]
    some = prod(shape[axis] for axis in axes) > 0
    made = Composite(call)
    mean, squares, variance = (
        made.temporary(kept, kind),
        made.temporary(shape, kind),
        made.temporary(kept, kind),
    )
    made.reduce(0, mean, "sum", shape, reduced, mean=some)
    made.evaluate(traced(_squared_distance, 2), [0, mean], [squares])
    made.reduce(squares, variance, "sum", shape, reduced, mean=some)
    for i, found in enumerate((mean, variance)):
        view = call.outputs[i].shape
        made.evaluate(traced(same, 1), [found], [made.output(i)], shapes=[view])
    return made.plan()


@cache
def _moment_slope(count: int) -> Expression:
    def slope(g_mean: Any, g_var: Any, x: Any, mean: Any) -> Any:
        return (g_mean + 2.0 * (x - mean) * g_var) / float(count)

    return X.trace(slope, 4)


def backward_moments(call: KernelCall) -> object:
    """Spread over the reduced axes."""
    if not floating(call):
        return None
    shape = call.inputs[2].shape
    kept = kept_shape(call.params, shape)
    count = max(prod(shape[axis] for axis in reduced_axes(call.params, len(shape))), 1)
    made = Composite(call)
    made.evaluate(_moment_slope(count), range(4), [made.output(0)], shapes=[kept, kept, shape, kept])
    return made.plan()


# ---- windows as columns ----

#: elements of a window that are copied one by one
_MOST_TAPS = 1024

Window = tuple[int, int, int, int, int]


def _windows(p: Any, spatial: tuple[int, ...]) -> list[Window]:
    """Per axis image, kernel, stride, dilate, pad."""
    rank = len(p.kernel)
    each = (p.stride or (1,) * rank, p.dilate or (1,) * rank, p.pad or (0,) * rank)
    return list(zip(spatial, p.kernel, *each, strict=True))


def _count(window: Window) -> int:
    image, kernel, stride, dilate, pad = window
    return (image + 2 * pad - dilate * (kernel - 1) - 1) // stride + 1


def _reach(window: Window, tap: int) -> tuple[int, int, int]:
    """The first window whose element `tap` is in the image, how many there are, where the first one has it."""
    image, _, stride, dilate, pad = window
    shift = tap * dilate - pad
    first = max(-(shift // stride), 0) if shift < 0 else 0
    last = min((image - 1 - shift) // stride, _count(window) - 1)
    return first, max(last - first + 1, 0), shift + first * stride


def im2col(call: KernelCall) -> object:
    """Every element of the window is a strided view of the image."""
    p: Any = call.params
    shape = call.inputs[0].shape
    if not plain(*call.inputs, *call.outputs) or prod(p.kernel) > _MOST_TAPS:
        return None
    windows = _windows(p, shape[2:])
    counts = [_count(window) for window in windows]
    image = View.of(shape)
    columns = View.of((*shape[:2], prod(p.kernel), *counts))
    moves = []
    for tap, place in enumerate(product(*map(range, p.kernel))):
        source, target = image, columns.part(2, tap, 1, 1).without(2)
        for axis, (window, index) in enumerate(zip(windows, place, strict=True)):
            first, count, start = _reach(window, index)
            source = source.part(2 + axis, start if count else 0, window[2], count)
            target = target.part(2 + axis, first if count else 0, 1, count)
        moves.append(move(source, target))
    fill_values = ((0, 0.0, None),) if any(p.pad or ()) else ()
    return native.move_plan(tensors(call.inputs), tensors(call.outputs), moves, fill_values)


def col2im(call: KernelCall) -> object:
    """Windows added up."""
    if not real(call):
        return None
    windows = _windows(call.params, call.outputs[0].shape[2:])
    return native.columns_to_image_plan(tensors(call.inputs), tensors(call.outputs), windows)
