# SPDX-License-Identifier: Apache-2.0
"""SequenceReverse: each sequence back to front, its padding left where it is."""

from __future__ import annotations

import numpy as np

from mx_core.operator import Arrays, GradientBuilder, Gradients, ReferenceContext, opt
from mx_operators.sequence.base import SequenceOperator, SequenceParam, lengths_of


class SequenceReverseParam(SequenceParam):
    """Whether lengths are given; the time axis comes first."""

    axis: int = opt(0, "the time axis, 0", lower=0, upper=0)


class SequenceReverse(SequenceOperator[SequenceReverseParam]):
    """Step t of sequence n is step sequence_length[n] − 1 − t, or step t after its end."""

    name = "SequenceReverse"

    def gradient(self, p: SequenceReverseParam, g: GradientBuilder) -> Gradients:
        return {"data": g.op(self.name, (g.out_grad(), *g.inputs[1:]), params=p)[0]}

    def reference(self, p: SequenceReverseParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        """Fancy indexing by mirrored steps."""
        data = inputs[0]
        if not p.use_sequence_length:
            return (data[::-1].copy(),)
        step = np.arange(data.shape[0])[:, None]
        length = lengths_of(inputs[1], data.shape[0], self.name)
        source = np.where(step < length, length - 1 - step, step)
        return (data[source, np.arange(data.shape[1])],)
