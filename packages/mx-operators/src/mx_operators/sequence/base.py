# SPDX-License-Identifier: Apache-2.0
"""What operators on padded sequences share: a time axis, a batch axis, lengths."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from mx_core.errors import IndexOutOfBoundsError
from mx_core.operator import OperatorProperty, opt, param


@param
class SequenceParam:
    """Whether lengths are given, and the time axis."""

    use_sequence_length: bool = opt(False, "read the lengths; otherwise every sequence is full")
    axis: int = opt(0, "the time axis, 0 or 1; the other one is the batch", lower=0, upper=1)


class Sequence(OperatorProperty):
    """Shared declaration of data (T, N, …), or (N, T, …) with axis 1, and lengths (N,)."""

    Param: ClassVar[Any] = SequenceParam
    arguments: ClassVar[tuple[str, ...]] = ("data", "sequence_length")

    def inputs(self, p: Any) -> tuple[str, ...]:
        """sequence_length with use_sequence_length."""
        return self.arguments if p.use_sequence_length else self.arguments[:-1]

    def data_shape(self, p: Any, s: Any, name: str = "data") -> tuple[int, ...] | None:
        """The shape of data, checked; lengths follow from it."""
        data = s.get(name)
        if data is None:
            return None
        if len(data) < 2:
            raise s.error(f"{name}: expected at least 2 dimensions, got {data}")
        if p.use_sequence_length:
            s.assign("sequence_length", (data[1 - p.axis],))
        return tuple(data)

    def infer_shape(self, p: Any, s: Any) -> None:
        """As data."""
        s.unify(["data", "output"])
        self.data_shape(p, s)

    def infer_type(self, p: Any, t: Any) -> None:
        """As data; lengths of any type, that of data unless they have one."""
        t.unify([*self.inputs(p)[: 1 if p.use_sequence_length else None], *self.outputs(p)])
        if p.use_sequence_length and t.get("sequence_length") is None:
            t.assign("sequence_length", t.get("data"))


def lengths_of(lengths: Any, extent: int, op: str, lowest: int = 0) -> Any:
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
