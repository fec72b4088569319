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

ZERO = ((0, 0.0, None),)


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
    rank = len(call.inputs[0].shape)
    axes = p.axes or range(rank - 1, -1, -1)
    return _plan(call, [move(_source(call).permute([axis % rank for axis in axes]), _target(call))])


def swap_axes(call: KernelCall) -> object:
    """Two axes exchanged."""
    p: Any = call.params
    order = list(range(len(call.inputs[0].shape)))
    order[p.dim1], order[p.dim2] = order[p.dim2], order[p.dim1]
    return _plan(call, [move(_source(call).permute(order), _target(call))])


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
    return _plan(call, [move(_source(call).broadcast(call.outputs[0].shape), _target(call))])


def backward_sum(call: KernelCall) -> object:
    """The gradient repeated over the reduced axes."""
    kept = View.of(kept_shape(call.params, call.outputs[0].shape))
    return _plan(call, [move(kept.broadcast(call.outputs[0].shape), _target(call))])


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


def _slices(p: Any) -> list[slice]:
    steps = p.step or (None,) * len(p.begin)
    return list(map(slice, p.begin, p.end, steps))


def _axis_slices(p: Any, rank: int) -> list[slice]:
    cuts = [slice(None)] * rank
    cuts[p.axis] = slice(p.begin, p.end)
    return cuts


def slice_(call: KernelCall) -> object:
    """A part of every axis."""
    return _plan(call, [move(_source(call).cut(_slices(call.params)), _target(call))])


def backward_slice(call: KernelCall) -> object:
    """The gradient where data was cut, zeros elsewhere."""
    part = _target(call).cut(_slices(call.params))
    return _plan(call, [move(_source(call), part)], ZERO)


def slice_axis(call: KernelCall) -> object:
    """A part of one axis."""
    view = _source(call)
    return _plan(call, [move(view.cut(_axis_slices(call.params, len(view.shape))), _target(call))])


def backward_slice_axis(call: KernelCall) -> object:
    """The gradient where data was cut, zeros elsewhere."""
    view = _target(call)
    part = view.cut(_axis_slices(call.params, len(view.shape)))
    return _plan(call, [move(_source(call), part)], ZERO)


def slice_like(call: KernelCall) -> object:
    """The leading part."""
    cuts = [slice(size) for size in call.outputs[0].shape]
    return _plan(call, [move(_source(call).cut(cuts), _target(call))])


def backward_slice_like(call: KernelCall) -> object:
    """The gradient with zeros after it."""
    cuts = [slice(size) for size in call.inputs[0].shape]
    return _plan(call, [move(_source(call), _target(call).cut(cuts))], ZERO)


def slice_assign(call: KernelCall) -> object:
    """The first input with the second written into a part of it."""
    whole = _target(call)
    part = whole.cut(_slices(call.params))
    return _plan(call, [move(whole, whole), move(_source(call, 1), part, input=1)])


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
    cuts = [slice(a, a + e) for a, e in zip(p.pad_width[::2], call.outputs[0].shape, strict=True)]
    return _plan(call, [move(_source(call).cut(cuts), _target(call))])


# ---- joining and splitting ----


def _pieces(whole: View, axis: int, extents: Sequence[int]) -> list[View]:
    pieces, start = [], 0
    for extent in extents:
        pieces.append(whole.part(axis, start, 1, extent))
        start += extent
    return pieces


def concat(call: KernelCall) -> object:
    """Arrays put together along an axis."""
    p: Any = call.params
    axis = p.dim % len(call.outputs[0].shape)
    pieces = _pieces(_target(call), axis, [spec.shape[axis] for spec in call.inputs])
    return _plan(call, [move(_source(call, i), piece, input=i) for i, piece in enumerate(pieces)])


def backward_concat(call: KernelCall) -> object:
    """The gradient cut into pieces."""
    p: Any = call.params
    axis = p.dim % len(call.inputs[0].shape)
    pieces = _pieces(_source(call), axis, [spec.shape[axis] for spec in call.outputs])
    return _plan(call, [move(piece, _target(call, o), output=o) for o, piece in enumerate(pieces)])


def stack(call: KernelCall) -> object:
    """Arrays put together along a new axis."""
    p: Any = call.params
    axis = p.axis % len(call.outputs[0].shape)
    pieces = _pieces(_target(call), axis, [1] * len(call.inputs))
    return _plan(call, [move(_source(call, i), v.without(axis), input=i) for i, v in enumerate(pieces)])


def split(call: KernelCall) -> object:
    """An array cut into pieces along an axis."""
    p: Any = call.params
    shape = call.inputs[0].shape
    axis = p.axis % len(shape)
    n = len(call.outputs)
    indices = getattr(p, "indices", ()) if not getattr(p, "sections", 0) else ()
    if indices:
        bounds = [min(max(i + shape[axis] if i < 0 else i, 0), shape[axis]) for i in indices]
        ends = [*bounds[1:], shape[axis]]
    else:
        size, longer = divmod(shape[axis], n)
        *bounds, _ = starts = [i * size + min(i, longer) for i in range(n + 1)]
        ends = starts[1:]
    moves, source = [], View.of(shape)
    for o, (first, last) in enumerate(zip(bounds, ends, strict=True)):
        piece = source.part(axis, first, 1, max(last - first, 0))
        piece = piece.without(axis) if p.squeeze_axis else piece
        moves.append(move(piece, _target(call, o), output=o))
    return _plan(call, moves)


# ---- constants ----


def _constant(number: float) -> Callable[[KernelCall], Any]:
    def make(call: KernelCall) -> object:
        return _plan(call, [], [(0, number, None)])

    return make


zeros, ones = _constant(0.0), _constant(1.0)


def full(call: KernelCall) -> object:
    """One run-time number everywhere."""
    return _plan(call, [], [(0, 0.0, 0)], 1)
