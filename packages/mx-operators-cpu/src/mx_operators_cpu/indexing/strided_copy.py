# SPDX-License-Identifier: Apache-2.0
"""Elements moved, none computed: axes permuted, parts taken, arrays joined and repeated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mx_core.kernels import KernelCall
from mx_operators_cpu.indexing.view import Move, View, move
from mx_operators_cpu.library import native
from mx_operators_cpu.reduce.axes import kept_shape
from mx_operators_cpu.signature import plain, tensors


def _plan(call: KernelCall, moves: Sequence[Move], fill_values: Sequence[Any] = (), scalars: int = 0) -> Any:
    if not plain(*call.inputs, *call.outputs):
        return None
    inputs, outputs = tensors(call.inputs), tensors(call.outputs)
    for each in moves:
        if inputs[each[0]][1] != outputs[each[1]][1]:
            return None
    return native.move_plan(inputs, outputs, moves, fill_values, scalars)


def _source(call: KernelCall, i: int = 0) -> View:
    return View.of(call.inputs[i].shape)


def _target(call: KernelCall, i: int = 0) -> View:
    return View.of(call.outputs[i].shape)


# ---- the same elements ----


def copy(call: KernelCall) -> object:
    """Reshapes: the elements in their order."""
    flat = View.of(_flat(call))
    return _plan(call, [move(flat, flat)])


def _flat(call: KernelCall) -> tuple[int]:
    n = 1
    for size in call.outputs[0].shape:
        n *= size
    return (n,)


def transpose(call: KernelCall) -> object:
    """Axes permuted."""
    p: Any = call.params
    order = p.axes or tuple(range(len(call.inputs[0].shape)))[::-1]
    return native.permute_plan(call.inputs, call.outputs, order=order)


def swap_axes(call: KernelCall) -> object:
    """Two axes exchanged."""
    p: Any = call.params
    order = list(range(len(call.inputs[0].shape)))
    order[p.dim1], order[p.dim2] = order[p.dim2], order[p.dim1]
    return native.permute_plan(call.inputs, call.outputs, order=order)


def reverse(call: KernelCall) -> object:
    """Axes walked backwards; one that is named twice is not."""
    p: Any = call.params
    view = _source(call)
    for axis in (axis % len(view.shape) for axis in p.axis):
        view = view.part(axis, view.shape[axis] - 1, -1, view.shape[axis])
    return _plan(call, [move(view, _target(call))])


def depth_to_space(call: KernelCall) -> object:
    """Channels laid out as blocks."""
    p: Any = call.params
    (n, c, h, w), b = call.inputs[0].shape, p.block_size
    source = View.of((n, b, b, c // (b * b), h, w)).permute((0, 3, 4, 1, 5, 2))
    return _plan(call, [move(source, View.of(source.shape))])


def space_to_depth(call: KernelCall) -> object:
    """Blocks laid out as channels."""
    p: Any = call.params
    (n, c, h, w), b = call.inputs[0].shape, p.block_size
    source = View.of((n, c, h // b, b, w // b, b)).permute((0, 3, 5, 1, 2, 4))
    return _plan(call, [move(source, View.of(source.shape))])


# ---- repeated elements ----


def broadcast(call: KernelCall) -> object:
    """Axes of extent 1 repeated."""
    return native.broadcast_plan(call.inputs, call.outputs, shape=call.inputs[0].shape)


def backward_sum(call: KernelCall) -> object:
    """The gradient repeated over the reduced axes."""
    kept = kept_shape(call.params, call.outputs[0].shape)
    return native.broadcast_plan(call.inputs, call.outputs, shape=kept)


def repeat(call: KernelCall) -> object:
    """Every element, or slice along an axis, several times."""
    p: Any = call.params
    shape = _flat_input(call) if p.axis is None else call.inputs[0].shape
    axis = 0 if p.axis is None else p.axis % len(shape)
    head, tail = shape[: axis + 1], shape[axis + 1 :]
    target = View.of((*head, p.repeats, *tail))
    return _plan(call, [move(View.of((*head, 1, *tail)).broadcast(target.shape), target)])


def _flat_input(call: KernelCall) -> tuple[int, ...]:
    n = 1
    for size in call.inputs[0].shape:
        n *= size
    return (n,)


def tile_shapes(shape: tuple[int, ...], reps: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(repetitions, extents) of each axis, missing ones filled with 1."""
    rank = max(len(shape), len(reps))
    return (1,) * (rank - len(reps)) + tuple(reps), (1,) * (rank - len(shape)) + shape


def tile(call: KernelCall) -> object:
    """The whole array several times."""
    p: Any = call.params
    reps, shape = tile_shapes(call.inputs[0].shape, p.reps)
    target = View.of([x for pair in zip(reps, shape, strict=True) for x in pair])
    source = View.of([x for size in shape for x in (1, size)])
    return _plan(call, [move(source.broadcast(target.shape), target)])


# ---- parts ----


def _cut(call: KernelCall, action: str) -> object:
    p: Any = call.params
    return native.cut_plan(call.inputs, call.outputs, action=action, begin=p.begin, end=p.end, step=p.step)


def _cut_axis(call: KernelCall, action: str, rank: int) -> object:
    p: Any = call.params
    before = (None,) * (p.axis % rank)
    begin, end = (*before, p.begin), (*before, p.end)
    return native.cut_plan(call.inputs, call.outputs, action=action, begin=begin, end=end)


def slice_(call: KernelCall) -> object:
    """A part of every axis."""
    return _cut(call, "take")


def backward_slice(call: KernelCall) -> object:
    """The gradient where data was cut, zeros elsewhere."""
    return _cut(call, "put")


def slice_axis(call: KernelCall) -> object:
    """A part of one axis."""
    return _cut_axis(call, "take", len(call.inputs[0].shape))


def backward_slice_axis(call: KernelCall) -> object:
    """The gradient where data was cut, zeros elsewhere."""
    return _cut_axis(call, "put", len(call.outputs[0].shape))


def slice_like(call: KernelCall) -> object:
    """The leading part."""
    end = call.outputs[0].shape
    return native.cut_plan(call.inputs, call.outputs, action="take", begin=(0,) * len(end), end=end)


def backward_slice_like(call: KernelCall) -> object:
    """The gradient with zeros after it."""
    end = call.inputs[0].shape
    return native.cut_plan(call.inputs, call.outputs, action="put", begin=(0,) * len(end), end=end)


def slice_assign(call: KernelCall) -> object:
    """The first input with the second written into a part of it."""
    return _cut(call, "assign")


def slice_assign_scalar(call: KernelCall) -> object:
    """The input with a number written into a part of it."""
    return _cut(call, "fill")


# ---- padding ----


def pad(call: KernelCall) -> object:
    """Values put around: a number, the edge, or a reflection."""
    p: Any = call.params
    inputs, outputs = tensors(call.inputs), tensors(call.outputs)
    if not plain(*call.inputs, *call.outputs) or inputs[0][1] != outputs[0][1]:
        return None
    return native.pad_plan(inputs, outputs, before=p.pad_width[::2], behind=p.pad_width[1::2], mode=p.mode)


def backward_pad(call: KernelCall) -> object:
    """The gradient without what was put around; other modes add up and are left to the reference."""
    p: Any = call.params
    if p.mode != "constant":
        return None
    begin = p.pad_width[::2]
    end = [first + extent for first, extent in zip(begin, call.outputs[0].shape, strict=True)]
    return native.cut_plan(call.inputs, call.outputs, action="take", begin=begin, end=end)


# ---- joining and splitting ----


def concat(call: KernelCall) -> object:
    """Arrays put together along an axis."""
    p: Any = call.params
    return native.join_plan(call.inputs, call.outputs, axis=p.dim)


def backward_concat(call: KernelCall) -> object:
    """The gradient cut into pieces."""
    p: Any = call.params
    return native.split_plan(call.inputs, call.outputs, axis=p.dim)


def stack(call: KernelCall) -> object:
    """Arrays put together along a new axis."""
    p: Any = call.params
    return native.join_plan(call.inputs, call.outputs, axis=p.axis, new_axis=True)


def split(call: KernelCall) -> object:
    """An array cut along an axis into pieces that lie one after the other."""
    p: Any = call.params
    return native.split_plan(call.inputs, call.outputs, axis=p.axis, without_axis=p.squeeze_axis)


# ---- constants ----


def _constant(number: float) -> Callable[[KernelCall], Any]:
    def make(call: KernelCall) -> object:
        return _plan(call, [], [(0, number, None)])

    return make


zeros, ones = _constant(0.0), _constant(1.0)


def full(call: KernelCall) -> object:
    """One run-time number everywhere."""
    return _plan(call, [], [(0, 0.0, 0)], 1)
