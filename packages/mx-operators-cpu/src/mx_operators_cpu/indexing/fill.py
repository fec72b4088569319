# SPDX-License-Identifier: Apache-2.0
"""Arrays made from nothing, and diagonals."""

from __future__ import annotations

from math import prod
from typing import Any

from mx_core.kernels import KernelCall
from mx_operators_cpu.composite import Composite
from mx_operators_cpu.indexing.view import View, move
from mx_operators_cpu.library import native
from mx_operators_cpu.signature import plain, tensors


def arange(call: KernelCall) -> object:
    """start, start + step, …"""
    p: Any = call.params
    start = 0.0 if p.stop is None and not p.infer_range else p.start
    return native.progression_plan(call.outputs, start=start, step=p.step, repeat=p.repeat)


def linspace(call: KernelCall) -> object:
    """Evenly spaced numbers."""
    p: Any = call.params
    if not plain(*call.outputs):
        return None
    stop = p.start if p.stop is None else p.stop
    gaps = p.num - 1 if p.endpoint else p.num
    step = (stop - p.start) / gaps if gaps > 0 else 0.0
    last = stop if p.endpoint and p.num > 1 else None
    return native.progression_plan(tensors(call.outputs), start=p.start, step=step, last=last)


def _diagonal(shape: tuple[int, ...], k: int, axes: tuple[int, int] = (0, 1)) -> View:
    """The k-th diagonal of two axes as the last axis."""
    whole = View.of(shape)
    first, second = (axis % len(shape) for axis in axes)
    count = max(min(shape[first] + min(k, 0), shape[second] - max(k, 0)), 0)
    rest = [axis for axis in range(len(shape)) if axis not in (first, second)]
    start = max(-k, 0) * whole.strides[first] + max(k, 0) * whole.strides[second] if count else 0
    return View(
        (*(shape[axis] for axis in rest), count),
        (*(whole.strides[axis] for axis in rest), whole.strides[first] + whole.strides[second]),
        start,
    )


def eye(call: KernelCall) -> object:
    """Ones on a diagonal."""
    p: Any = call.params
    output = call.outputs[0]
    if not plain(output):
        return None
    made = Composite(call)
    one = made.temporary((1,), output.dtype)
    made.run(native.move_plan([], [((1,), output.dtype)], [], [(0, 1.0, None)]), [], [one])
    target = _diagonal(output.shape, p.k)
    ones = move(View((1,), (0,)).broadcast(target.shape), target)
    plan = native.move_plan([((1,), output.dtype)], tensors([output]), [ones], [(0, 0.0, None)])
    made.run(plan, [one], [made.output(0)])
    return made.plan()


def _onto_diagonal(call: KernelCall, source: View, target: View) -> object:
    return native.move_plan(
        tensors(call.inputs), tensors(call.outputs), [move(source, target)], [(0, 0.0, None)]
    )


def diag(call: KernelCall) -> object:
    """A diagonal, or a matrix with it."""
    p: Any = call.params
    data, output = call.inputs[0], call.outputs[0]
    if not plain(data, output):
        return None
    if len(data.shape) == 1:
        return _onto_diagonal(call, View.of(data.shape), _diagonal(output.shape, p.k))
    source = _diagonal(data.shape, p.k, (p.axis1, p.axis2))
    return _onto_diagonal(call, source, View.of(output.shape))


def backward_diag(call: KernelCall) -> object:
    """The gradient on the diagonal, or its diagonal."""
    p: Any = call.params
    head, output = call.inputs[0], call.outputs[0]
    if not plain(*call.inputs, output):
        return None
    if len(output.shape) == 1:
        return _onto_diagonal(call, _diagonal(head.shape, p.k), View.of(output.shape))
    target = _diagonal(output.shape, p.k, (p.axis1, p.axis2))
    return _onto_diagonal(call, View.of(head.shape), target)


def crop(call: KernelCall) -> object:
    """A rectangle of every image."""
    return _crop(call, call.inputs[0].shape, call.outputs[0].shape, backward=False)


def backward_crop(call: KernelCall) -> object:
    """The rectangle in zeros."""
    return _crop(call, call.outputs[0].shape, call.inputs[0].shape, backward=True)


def _crop(call: KernelCall, outer: tuple[int, ...], inner: tuple[int, ...], backward: bool) -> object:
    p: Any = call.params
    if not plain(*call.inputs, *call.outputs):
        return None
    begins = p.offset
    if p.center_crop:
        begins = [(old - new) // 2 for old, new in zip(outer[2:], inner[2:], strict=True)]
    part = View.of(outer)
    for axis, begin in enumerate(begins, 2):
        part = part.part(axis, begin, 1, inner[axis])
    whole = View.of(inner)
    source, target = (whole, part) if backward else (part, whole)
    background = [(0, 0.0, None)] if prod(outer) != prod(inner) else []
    return native.move_plan(
        tensors(call.inputs), tensors(call.outputs), [move(source, target)], background if backward else []
    )
