# SPDX-License-Identifier: Apache-2.0
"""Shared code of operators on padded sequences: a time axis, a batch axis, lengths."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from mx_core.errors import IndexOutOfBoundsError
from mx_core.operator import Array, Operator, Params, Shapes, opt


class SequenceParam(Params):
    """Whether lengths are given, and the time axis."""

    use_sequence_length: bool = opt(False, "read the lengths; otherwise every sequence is full")
    axis: int = opt(0, "the time axis, 0 or 1; the other one is the batch", lower=0, upper=1)


P = TypeVar("P", bound=SequenceParam)


class SequenceOperator(Operator[P]):
    """Shared declaration of data (T, N, …), or (N, T, …) with axis 1, and lengths (N,)."""

    arguments = ("data", "sequence_length")
    without_gradient = ("sequence_length",)
    free_types = {"sequence_length": "data"}

    def inputs(self, p: P) -> tuple[str, ...]:
        return self.arguments if p.use_sequence_length else self.arguments[:-1]

    def data_shape(self, p: P, s: Shapes) -> tuple[int, ...] | None:
        """The shape of data, checked; lengths follow from it."""
        data = s.get("data")
        if data is None:
            return None
        if len(data) < 2:
            raise s.error(f"data: expected at least 2 dimensions, got {data}")
        if p.use_sequence_length:
            s.assign("sequence_length", (data[1 - p.axis],))
        return data

    def infer_shape(self, p: P, s: Shapes) -> None:
        s.unify(["data", "output"])
        self.data_shape(p, s)


def lengths_of(lengths: Array, extent: int, op: str, lowest: int = 0) -> Array:
    """Lengths as integers between `lowest` and the extent of the time axis.

    Raises
    ------
    IndexOutOfBoundsError  a length lies outside, or is not a number
    """
    values = np.asarray(lengths, np.float64)
    wrong = ~((values >= lowest) & (values <= extent))
    if wrong.any():
        raise IndexOutOfBoundsError(
            f"[{op}] sequence_length: expected {lowest} to {extent}, got {values[wrong][0]:g}"
        )
    return values.astype(np.int64)
