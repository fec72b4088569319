# SPDX-License-Identifier: Apache-2.0
"""Strided views of tensors, to say what a copy copies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

#: input, output, sizes, strides from and to, offsets from and to: what the native plan takes
Move: TypeAlias = tuple[int, int, tuple[int, ...], tuple[int, ...], tuple[int, ...], int, int]


class View(NamedTuple):
    """Where the elements of an array are: sizes and strides per axis, offset (all in elements)."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    @staticmethod
    def of(shape: Sequence[int]) -> View:
        """A whole row-major tensor."""
        strides, below = [], 1
        for size in reversed(shape):
            strides.append(below)
            below *= size
        return View(tuple(shape), tuple(strides[::-1]))

    def permute(self, order: Sequence[int]) -> View:
        """Axes in another order."""
        shape, strides, offset = self
        return View(tuple([shape[a] for a in order]), tuple([strides[a] for a in order]), offset)

    def part(self, axis: int, start: int, step: int, count: int) -> View:
        """`count` elements of an axis, from `start` on, `step` apart."""
        shape, strides = list(self.shape), list(self.strides)
        offset = self.offset + (start * strides[axis] if count else 0)
        shape[axis] = count
        if count > 1:  # else the step may be wider than any address
            strides[axis] *= step
        return View(tuple(shape), tuple(strides), offset)

    def split(self, axis: int, inner: int) -> View:
        """An axis as two, the second one with `inner` elements."""
        shape, strides = list(self.shape), list(self.strides)
        shape[axis : axis + 1] = [shape[axis] // inner, inner]
        strides[axis : axis + 1] = [strides[axis] * inner, strides[axis]]
        return View(tuple(shape), tuple(strides), self.offset)

    def cut(self, cuts: Sequence[slice]) -> View:
        """A slice per leading axis."""
        shape, strides, offset = list(self.shape), list(self.strides), self.offset
        for axis, cut in enumerate(cuts):
            picked = range(*cut.indices(shape[axis]))
            shape[axis] = count = len(picked)
            if count:
                offset += picked.start * strides[axis]
            if count > 1:  # else the step may be wider than any address
                strides[axis] *= picked.step
        return View(tuple(shape), tuple(strides), offset)

    def broadcast(self, shape: Sequence[int]) -> View:
        """Axes of extent 1 repeated, axes added in front."""
        lead = len(shape) - len(self.shape)
        strides = [0] * lead
        for have, stride, wanted in zip(self.shape, self.strides, shape[lead:], strict=True):
            strides.append(stride if have == wanted else 0)
        return View(tuple(shape), tuple(strides), self.offset)

    def without(self, axis: int) -> View:
        """An axis of extent 1 left out."""
        axis %= len(self.shape)
        shape = self.shape[:axis] + self.shape[axis + 1 :]
        return View(shape, self.strides[:axis] + self.strides[axis + 1 :], self.offset)


def move(source: View, target: View, input: int = 0, output: int = 0) -> Move:
    """A copy between two views of one shape."""
    if source.shape != target.shape:
        raise ValueError(f"[move] views differ: {source.shape} and {target.shape}")
    return (
        input, output, target.shape, source.strides, target.strides, source.offset, target.offset,
    )  # fmt: skip
