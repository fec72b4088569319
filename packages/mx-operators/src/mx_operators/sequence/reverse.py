# SPDX-License-Identifier: Apache-2.0
"""SequenceReverse: each sequence back to front, its padding left where it is."""

from __future__ import annotations

from collections.abc import Sequence as Items
from typing import Any

import numpy as np

from mx_core.operator import OperatorProperty, opt, param
from mx_core.operator.property import ReferenceContext
from mx_operators.sequence.base import Sequence, lengths_of


@param
class SequenceReverseParam:
    """Whether lengths are given; the time axis comes first."""

    use_sequence_length: bool = opt(False, "read the lengths; otherwise every sequence is full")
    axis: int = opt(0, "the time axis, 0", lower=0, upper=0)


class SequenceReverse(Sequence):
    """Step t of sequence n is step sequence_length[n] − 1 − t, or step t behind its end."""

    name = "SequenceReverse"
    Param = SequenceReverseParam

    def gradient(self, p: Any, g: Any) -> Any:
        """Reversed once more."""
        lengths = [g.input(1)] if p.use_sequence_length else []
        grads = g.op("SequenceReverse", [g.out_grad(), *lengths], params=p)
        return [grads[0], *(None for _ in lengths)]

    def reference(self, p: Any, inputs: Items[Any], ctx: ReferenceContext) -> Items[Any]:
        """Fancy indexing by mirrored steps."""
        data = inputs[0]
        if not p.use_sequence_length:
            return (data[::-1].copy(),)
        step = np.arange(data.shape[0])[:, None]
        length = lengths_of(inputs[1], data.shape[0], self.name)
        source = np.where(step < length, length - 1 - step, step)
        return (data[source, np.arange(data.shape[1])],)


OPERATORS: tuple[type[OperatorProperty], ...] = (SequenceReverse,)
