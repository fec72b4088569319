# SPDX-License-Identifier: Apache-2.0
"""_rnn_param_concat: weights and biases put together to RNN's parameter vector."""

from __future__ import annotations

from mx_core.operator import GradientBuilder, Gradients, Shapes
from mx_operators.array.join import Concat, ConcatParam


class RNNParamConcat(Concat):
    """Arrays put together along an axis; of one array the extent may follow from the result."""

    name = "_rnn_param_concat"
    aliases = ()

    def infer_shape(self, p: ConcatParam, s: Shapes) -> None:
        """Of arrays whose extents are unknown, which are weights of the first layer's directions, all are equal."""
        super().infer_shape(p, s)
        total = s.get("output")
        extents = {name: s.get(name) for name in self.inputs(p)}
        unknown = [name for name, extent in extents.items() if extent in (None, (-1,))]
        if total is None or total[0] < 0 or len(unknown) < 2:
            return
        rest = total[0] - sum(extent[0] for extent in extents.values() if extent and extent[0] >= 0)
        if rest >= 0 and rest % len(unknown) == 0:
            for name in unknown:
                s.assign(name, (rest // len(unknown),))

    def gradient(self, p: ConcatParam, g: GradientBuilder) -> Gradients:
        return g.op("_backward_Concat", (g.out_grad(), *g.inputs), params=p)

    def backward_operator(self) -> None:
        """None of its own."""
