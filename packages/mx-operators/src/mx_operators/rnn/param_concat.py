# SPDX-License-Identifier: Apache-2.0
"""_rnn_param_concat: weights and biases put together to RNN's parameter vector."""

from __future__ import annotations

from mx_core.operator import GradientBuilder, Gradients
from mx_operators.array.join import Concat, ConcatParam


class RNNParamConcat(Concat):
    """Arrays put together along an axis; of one array the extent may follow from the result."""

    name = "_rnn_param_concat"
    aliases = ()

    def gradient(self, p: ConcatParam, g: GradientBuilder) -> Gradients:
        return g.op("_backward_Concat", (g.out_grad(), *g.inputs), params=p)

    def backward_operator(self) -> None:
        """None of its own."""
