# SPDX-License-Identifier: Apache-2.0
"""SequenceLast: the last step of each sequence."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mx_core.operator import Array, Arrays, ReferenceContext, ShapeOnly, Shapes
from mx_operators.sequence.base import SequenceOperator, SequenceParam, lengths_of


class SequenceLast(SequenceOperator[SequenceParam]):
    """Step sequence_length[n] − 1 of every sequence n: data (T, N, …) gives (N, …)."""

    name = "SequenceLast"
    linear = True

    def infer_shape(self, p: SequenceParam, s: Shapes) -> None:
        data, output = self.data_shape(p, s), s.get("output")
        if data is None:
            return
        if data[p.axis] == 0:
            raise s.error(f"data: the time axis {p.axis} of {data} is empty")
        s.assign("output", (data[1 - p.axis], *data[2:]))
        if output:
            head = (-1, output[0]) if p.axis == 0 else (output[0], -1)
            s.assign("data", (*head, *output[1:]))

    def last_steps(
        self, p: SequenceParam, shape: Sequence[int], lengths: Array | None, op: str
    ) -> tuple[Array, Array]:
        """Indices of axes 0 and 1 that select the last step of every sequence."""
        extent, batch = shape[p.axis], np.arange(shape[1 - p.axis])
        last = np.full(batch.shape, extent - 1) if lengths is None else lengths_of(lengths, extent, op, 1) - 1
        return (last, batch) if p.axis == 0 else (batch, last)

    def reference(self, p: SequenceParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        lengths = inputs[1] if p.use_sequence_length else None
        return (inputs[0][self.last_steps(p, inputs[0].shape, lengths, self.name)],)

    def backward(
        self, p: SequenceParam, out_grad: Array, data: ShapeOnly, sequence_length: Array | None = None
    ) -> Array:
        """Zero but at the last steps."""
        grad = np.zeros(data.shape, out_grad.dtype)
        grad[self.last_steps(p, data.shape, sequence_length, self.backward_name)] = out_grad
        return grad
