# SPDX-License-Identifier: Apache-2.0
"""Cells: the plain one, LSTM and GRU."""

from __future__ import annotations

from typing import Any, ClassVar

from mx_gluon.parameter import Parameter, ParameterDict
from mx_gluon.rnn.cell import HybridRecurrentCell, State


class _GatedCell(HybridRecurrentCell):
    """Two matrix products, of the input and of the first state, with a part for each gate."""

    _gates: ClassVar[int]
    _states: ClassVar[int] = 1

    def __init__(
        self,
        hidden_size: int,
        i2h_weight_initializer: Any,
        h2h_weight_initializer: Any,
        i2h_bias_initializer: Any,
        h2h_bias_initializer: Any,
        input_size: int,
        prefix: str | None,
        params: ParameterDict | None,
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        self._hidden_size = hidden_size
        self._input_size = input_size
        rows = self._gates * hidden_size
        self.i2h_weight = self._parameter("i2h_weight", (rows, input_size), i2h_weight_initializer)
        self.h2h_weight = self._parameter("h2h_weight", (rows, hidden_size), h2h_weight_initializer)
        self.i2h_bias = self._parameter("i2h_bias", (rows,), i2h_bias_initializer)
        self.h2h_bias = self._parameter("h2h_bias", (rows,), h2h_bias_initializer)

    def _parameter(self, name: str, shape: tuple[int, ...], init: Any) -> Parameter:
        return self.params.get(name, shape=shape, init=init, allow_deferred_init=True)

    def state_info(self, batch_size: int = 0) -> list[State]:
        """Shape and layout of every state; a batch size of 0 is unknown."""
        return [{"shape": (batch_size, self._hidden_size), "__layout__": "NC"} for _ in range(self._states)]

    def _products(self, F: Any, t: str, inputs: Any, state: Any, weights: dict[str, Any]) -> tuple[Any, Any]:
        """Of input and state with their weights, (batch, gates · hidden_size)."""
        size = self._gates * self._hidden_size
        return (
            F.FullyConnected(
                data=inputs, weight=weights["i2h_weight"], bias=weights["i2h_bias"], num_hidden=size, name=t + "i2h"
            ),
            F.FullyConnected(
                data=state, weight=weights["h2h_weight"], bias=weights["h2h_bias"], num_hidden=size, name=t + "h2h"
            ),
        )  # fmt: skip

    def _shown(self) -> str:
        rows, columns = self.i2h_weight.shape or (None, None)
        return f"{columns or None} -> {rows}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._shown()})"


class RNNCell(_GatedCell):
    """The plain cell: the activation of the sum of two products.

    Source: Elman, Finding Structure in Time, Cognitive Science 14, 1990.

    Threads: one at a time; it counts steps.

    Parameters
    ----------
    hidden_size : int
        Units.
    activation : str or Block
    i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer : str or Initializer
        Of the weights of input and state, and of their biases.
    input_size : int
        Features of the input; 0 to find out.
    prefix, params : as in `Block`
    """

    _gates = 1

    def __init__(
        self,
        hidden_size: int,
        activation: Any = "tanh",
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        input_size: int = 0,
        prefix: str | None = None,
        params: ParameterDict | None = None,
    ) -> None:
        super().__init__(
            hidden_size, i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer,
            input_size, prefix, params,
        )  # fmt: skip
        self._activation = activation

    def _alias(self) -> str:
        return "rnn"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._shown()}, {self._activation})"

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """One step."""
        (states,), t = args, f"t{self._counter}_"
        i2h, h2h = self._products(F, t, x, states[0], kwargs)
        total = F.elemwise_add(i2h, h2h, name=t + "plus0")
        output = self._get_activation(F, total, self._activation, name=t + "out")
        return output, [output]


class LSTMCell(_GatedCell):
    """Long short-term memory. Rows of the weights: input gate, forget gate, candidate, output gate.

    Source: Hochreiter and Schmidhuber, Long Short-Term Memory, Neural Computation 9, 1997; Gers, Schmidhuber and
    Cummins, Learning to Forget, 2000.

    Threads: one at a time; it counts steps.

    Parameters
    ----------
    hidden_size : int
        Units.
    i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer : str or Initializer
        Of the weights of input and state, and of their biases.
    input_size : int
        Features of the input; 0 to find out.
    prefix, params : as in `Block`
    activation, recurrent_activation : str or Block
        Of the candidate and the memory, and of the gates.
    """

    _gates, _states = 4, 2

    def __init__(
        self,
        hidden_size: int,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        input_size: int = 0,
        prefix: str | None = None,
        params: ParameterDict | None = None,
        activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid",
    ) -> None:
        super().__init__(
            hidden_size, i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer,
            input_size, prefix, params,
        )  # fmt: skip
        self._activation = activation
        self._recurrent_activation = recurrent_activation

    def _alias(self) -> str:
        return "lstm"

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """One step."""
        ((hidden, memory),), t = args, f"t{self._counter}_"
        i2h, h2h = self._products(F, t, x, hidden, kwargs)
        gates = F.SliceChannel(F.elemwise_add(i2h, h2h, name=t + "plus0"), num_outputs=4, name=t + "slice")
        kinds = (
            self._recurrent_activation,
            self._recurrent_activation,
            self._activation,
            self._recurrent_activation,
        )
        taken, kept, candidate, shown = (
            self._get_activation(F, gates[i], kind, name=t + name)
            for i, (kind, name) in enumerate(zip(kinds, "ifco", strict=True))
        )
        memory = F.elemwise_add(
            F.elemwise_mul(kept, memory, name=t + "mul0"),
            F.elemwise_mul(taken, candidate, name=t + "mul1"),
            name=t + "state",
        )
        active = (
            F.Activation(memory, act_type=self._activation, name=t + "activation0")
            if isinstance(self._activation, str)
            else self._get_activation(F, memory, self._activation)
        )
        hidden = F.elemwise_mul(shown, active, name=t + "out")
        return hidden, [hidden, memory]


class GRUCell(_GatedCell):
    """Gated recurrent unit; the reset gate acts after the product. Rows of the weights: reset, update, candidate.

    Source: Cho et al., Learning Phrase Representations using RNN Encoder-Decoder, EMNLP 2014, in the form of cuDNN.

    Threads: one at a time; it counts steps.

    Parameters
    ----------
    hidden_size : int
        Units.
    i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer : str or Initializer
        Of the weights of input and state, and of their biases.
    input_size : int
        Features of the input; 0 to find out.
    prefix, params : as in `Block`
    """

    _gates = 3

    def __init__(
        self,
        hidden_size: int,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        input_size: int = 0,
        prefix: str | None = None,
        params: ParameterDict | None = None,
    ) -> None:
        super().__init__(
            hidden_size, i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer,
            input_size, prefix, params,
        )  # fmt: skip

    def _alias(self) -> str:
        return "gru"

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """One step."""
        ((before, *_),), t = args, f"t{self._counter}_"
        products = self._products(F, t, x, before, kwargs)
        of_input, of_state = (
            list(F.SliceChannel(each, num_outputs=3, name=f"{t}{name}_slice"))
            for each, name in zip(products, ("i2h", "h2h"), strict=True)
        )
        reset, update = (
            F.Activation(
                F.elemwise_add(of_input[i], of_state[i], name=f"{t}plus{i}"),
                act_type="sigmoid",
                name=f"{t}{name}_act",
            )
            for i, name in enumerate("rz")
        )
        gated = F.elemwise_mul(reset, of_state[2], name=t + "mul0")
        candidate = F.Activation(
            F.elemwise_add(of_input[2], gated, name=t + "plus2"), act_type="tanh", name=t + "h_act"
        )
        rest = F.elemwise_sub(F.ones_like(update, name=t + "ones_like0"), update, name=t + "minus0")
        hidden = F.elemwise_add(
            F.elemwise_mul(rest, candidate, name=t + "mul1"),
            F.elemwise_mul(update, before, name=t + "mul20"),
            name=t + "out",
        )
        return hidden, [hidden]
