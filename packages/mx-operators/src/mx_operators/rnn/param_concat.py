# SPDX-License-Identifier: Apache-2.0
"""_rnn_param_concat: weights and biases put together to RNN's parameter vector."""

from __future__ import annotations

from mx_core.operator import OperatorProperty
from mx_operators.array.join import Concat


class RNNParamConcat(Concat):
    """Arrays put together along an axis; of one array the extent may follow from the result."""

    name = "_rnn_param_concat"
    aliases = ()  # type: ignore[assignment]  # narrowed to one name in Concat

    def companions(self) -> tuple[OperatorProperty, ...]:
        """None: the gradient is that of Concat."""
        return ()


OPERATORS: tuple[type[OperatorProperty], ...] = (RNNParamConcat,)
