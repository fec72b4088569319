# SPDX-License-Identifier: Apache-2.0
"""SequenceMask: a constant after the end of each sequence."""

from __future__ import annotations

import numpy as np

from mx_core.operator import Arrays, GradientBuilder, Gradients, ReferenceContext, opt
from mx_operators.sequence.base import SequenceOperator, SequenceParam, lengths_of


class SequenceMaskParam(SequenceParam, leading=True):
    """Whether lengths are given, the constant, and the time axis."""

    use_sequence_length: bool = opt(False, "read the lengths; otherwise every sequence is full")
    value: float = opt(0.0, "written after the end of a sequence", runtime=True)


class SequenceMask(SequenceOperator[SequenceMaskParam]):
    """data, with `value` at the steps t ≥ sequence_length[n]; a copy without lengths.

    A length may be greater than the number of steps: nothing is masked then.
    """

    name = "SequenceMask"
    inplace_pairs = ((0, 0),)

    def gradient(self, p: SequenceMaskParam, g: GradientBuilder) -> Gradients:
        """out_grad, zero where the constant was written."""
        if not p.use_sequence_length:
            return {"data": g.out_grad()}
        masked = g.op(
            self.name, (g.out_grad(), g.input("sequence_length")), use_sequence_length=True, axis=p.axis
        )
        return {"data": masked[0]}

    def reference(self, p: SequenceMaskParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
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
