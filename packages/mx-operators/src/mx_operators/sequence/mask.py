# SPDX-License-Identifier: Apache-2.0
"""SequenceMask: a constant behind the end of each sequence."""

from __future__ import annotations

from collections.abc import Sequence as Items
from typing import Any

import numpy as np

from mx_core.operator import OperatorProperty, opt, param
from mx_core.operator.property import ReferenceContext
from mx_operators.sequence.base import Sequence, lengths_of


@param
class SequenceMaskParam:
    """Whether lengths are given, the constant, and the time axis."""

    use_sequence_length: bool = opt(False, "read the lengths; otherwise every sequence is full")
    value: float = opt(0.0, "written behind the end of a sequence", runtime=True)
    axis: int = opt(0, "the time axis, 0 or 1; the other one is the batch", lower=0, upper=1)


class SequenceMask(Sequence):
    """data, with `value` at the steps t ≥ sequence_length[n]; a copy without lengths.

    A length may be greater than the number of steps: nothing is masked then.
    """

    name = "SequenceMask"
    Param = SequenceMaskParam

    def gradient(self, p: Any, g: Any) -> Any:
        """out_grad, zero where the constant was written."""
        if not p.use_sequence_length:
            return (g.out_grad(),)
        attrs = {"use_sequence_length": True, "axis": p.axis}
        return (g.op("SequenceMask", (g.out_grad(), g.input(1)), **attrs)[0], None)

    def inplace(self, p: Any) -> tuple[tuple[int, int], ...]:
        """Element by element."""
        return ((0, 0),)

    def reference(self, p: Any, inputs: Items[Any], ctx: ReferenceContext) -> Items[Any]:
        """A comparison of steps with lengths."""
        data = inputs[0]
        if not p.use_sequence_length:
            return (data.copy(),)
        extent = data.shape[p.axis]
        lengths = np.minimum(np.asarray(inputs[1], np.float64), extent)
        inside = np.arange(extent)[:, None] < lengths_of(lengths, extent, self.name)
        inside = inside if p.axis == 0 else inside.T
        value = np.asarray(p.value).astype(data.dtype)
        return (np.where(inside.reshape(*inside.shape, *(1,) * (data.ndim - 2)), data, value),)


OPERATORS: tuple[type[OperatorProperty], ...] = (SequenceMask,)
