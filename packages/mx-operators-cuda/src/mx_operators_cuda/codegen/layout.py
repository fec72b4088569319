# SPDX-License-Identifier: Apache-2.0
"""Layouts of the inputs of an elementwise kernel relative to its outputs.

Axes of the output that every input walks in the same manner are merged, so that most broadcasts
need one or two axes. Which input is broadcast along which axis is part of the kernel's source; the
sizes are arguments, so equal patterns share one compiled kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from mx_core.errors import ShapeError

#: below this many elements 32-bit indices are enough, the grid's stride included
_SMALL = 1 << 31


@dataclass(frozen=True)
class Layout:
    """The output's merged axes, and per input the stride along each.

    Parameters
    ----------
    sizes : tuple of int
        Elements per merged axis, outermost first; `()` for one element or none.
    strides : tuple of tuple of int
        Per input, elements from one index to the next along each axis; 0 where it is broadcast.
    elements : int
        Elements of the output.
    """

    sizes: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]
    elements: int

    @property
    def flat(self) -> bool:
        """True when every input is either read element by element or is one element."""
        return len(self.sizes) <= 1

    @property
    def wide(self) -> bool:
        """True when 32-bit indices are not enough."""
        return self.elements >= _SMALL

    def single(self, i: int) -> bool:
        """True when input `i` is the same element everywhere."""
        return not any(self.strides[i])

    def whole(self, i: int) -> bool:
        """True when input `i` has the output's shape."""
        return bool(self.sizes) and all(self.strides[i])


def layout_of(shape: Sequence[int], inputs: Sequence[Sequence[int]]) -> Layout:
    """The layout of contiguous inputs that broadcast to a contiguous output.

    Parameters
    ----------
    shape : sequence of int
        Shape of the output.
    inputs : sequence of shapes

    Raises
    ------
    ShapeError  an input does not broadcast to `shape`
    """
    elements = prod(shape)
    aligned = [_aligned(shape, given) for given in inputs]
    if elements <= 1:
        return Layout((), tuple(() for _ in inputs), elements)
    sizes: list[int] = []
    present: list[tuple[bool, ...]] = []
    for axis, size in enumerate(shape):
        if size == 1:
            continue
        here = tuple(given[axis] != 1 for given in aligned)
        if present and present[-1] == here:
            sizes[-1] *= size
        else:
            sizes.append(size)
            present.append(here)
    strides = tuple(_strides(sizes, [p[i] for p in present]) for i in range(len(inputs)))
    return Layout(tuple(sizes), strides, elements)


def _aligned(shape: Sequence[int], given: Sequence[int]) -> tuple[int, ...]:
    padded = (*(1,) * (len(shape) - len(given)), *given)
    if len(padded) != len(shape) or any(g not in (1, s) for g, s in zip(padded, shape, strict=True)):
        raise ShapeError(f"[elementwise] input: shape {tuple(given)} does not broadcast to {tuple(shape)}")
    return padded


def _strides(sizes: Sequence[int], present: Sequence[bool]) -> tuple[int, ...]:
    strides, step = [], 1
    for size, here in zip(reversed(sizes), reversed(present), strict=True):
        strides.append(step if here else 0)
        step *= size if here else 1
    return tuple(reversed(strides))
