# SPDX-License-Identifier: Apache-2.0
"""SequenceLast: the last step of each sequence."""

from __future__ import annotations

from collections.abc import Sequence as Items
from typing import Any

import numpy as np

from mx_core.operator import OperatorProperty
from mx_core.operator.property import ReferenceContext
from mx_operators.sequence.base import Sequence, lengths_of


def last_steps(p: Any, shape: Items[int], lengths: Items[Any], op: str) -> tuple[Any, Any]:
    """Indices of axes 0 and 1 that select the last step of every sequence."""
    extent, batch = shape[p.axis], np.arange(shape[1 - p.axis])
    last = np.full(batch.shape, extent - 1)
    if p.use_sequence_length:
        last = lengths_of(lengths[0], extent, op, 1) - 1
    return (last, batch) if p.axis == 0 else (batch, last)


def _checked(p: Any, s: Any, data: tuple[int, ...] | None) -> tuple[int, ...] | None:
    if data is not None and data[p.axis] == 0:
        raise s.error(f"data: the time axis {p.axis} of {data} is empty")
    return data


class SequenceLast(Sequence):
    """Step sequence_length[n] − 1 of every sequence n: data (T, N, …) gives (N, …)."""

    name = "SequenceLast"

    def infer_shape(self, p: Any, s: Any) -> None:
        """Without the time axis."""
        data, output = _checked(p, s, self.data_shape(p, s)), s.get("output")
        if data is not None:
            s.assign("output", (data[1 - p.axis], *data[2:]))
        if data is not None and output:
            head = (-1, output[0]) if p.axis == 0 else (output[0], -1)
            s.assign("data", (*head, *output[1:]))

    def gradient(self, p: Any, g: Any) -> Any:
        """Written to the last steps; only the shape of data is needed."""
        lengths = [g.input(1)] if p.use_sequence_length else []
        grads = g.op("_backward_SequenceLast", [g.out_grad(), g.input(0), *lengths], params=p)
        return [grads[0], *([None] if p.use_sequence_length else [])]

    def companions(self) -> tuple[OperatorProperty, ...]:
        """Its backward operator."""
        return (BackwardSequenceLast(),)

    def reference(self, p: Any, inputs: Items[Any], ctx: ReferenceContext) -> Items[Any]:
        """Fancy indexing."""
        return (inputs[0][last_steps(p, inputs[0].shape, inputs[1:], self.name)],)


class BackwardSequenceLast(Sequence):
    """Gradient of SequenceLast with respect to data: zero but at the last steps."""

    name = "_backward_SequenceLast"
    arguments = ("out_grad", "data", "sequence_length")
    results = ("data_grad",)
    shape_only_inputs = frozenset((1,))

    def infer_shape(self, p: Any, s: Any) -> None:
        """As data."""
        s.unify(["data", "data_grad"])
        data = _checked(p, s, self.data_shape(p, s))
        if data is not None:
            s.assign("out_grad", (data[1 - p.axis], *data[2:]))

    def infer_type(self, p: Any, t: Any) -> None:
        """As out_grad; lengths of any type."""
        t.unify(["out_grad", "data", "data_grad"])
        if p.use_sequence_length and t.get("sequence_length") is None:
            t.assign("sequence_length", "float32")

    def gradient(self, p: Any, g: Any) -> Any:
        """SequenceLast again."""
        lengths = [g.input(2)] if p.use_sequence_length else []
        taken = g.op("SequenceLast", [g.out_grad(), *lengths], params=p)[0]
        return [taken, None, *(None for _ in lengths)]

    def reference(self, p: Any, inputs: Items[Any], ctx: ReferenceContext) -> Items[Any]:
        """An assignment."""
        grad = np.zeros(inputs[1].shape, inputs[0].dtype)
        grad[last_steps(p, grad.shape, inputs[2:], self.name)] = inputs[0]
        return (grad,)


OPERATORS: tuple[type[OperatorProperty], ...] = (SequenceLast,)
