# SPDX-License-Identifier: Apache-2.0
"""Dropout with one mask for all steps, LSTM with a projection, and unrolling by a loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mx_core.errors import ArgumentError
from mx_gluon.contrib.rnn.gates import GatedCell
from mx_gluon.errors import RefusedError
from mx_gluon.parameter import ParameterDict
from mx_gluon.rnn import BidirectionalCell, HybridSequentialRNNCell, ModifierCell
from mx_gluon.rnn.cell import State
from mx_gluon.rnn.sequences import arranged, library, masked, time_axis, whole
from mx_ndarray import nd
from mx_symbol import sym
from mx_symbol.symbol import Symbol


class VariationalDropoutCell(ModifierCell):
    """Dropout of inputs, states and outputs in training, with masks that stay until `reset`.

    Source: Gal and Ghahramani, A Theoretically Grounded Application of Dropout in Recurrent Neural Networks, 2016.

    Threads: one at a time; it counts steps.

    Parameters
    ----------
    base_cell : RecurrentCell
    drop_inputs, drop_states, drop_outputs : float
        Shares of elements that are dropped, of the states those of the first one.

    Raises
    ------
    RefusedError  states are to be dropped of a cell that reads in both directions
    """

    def __init__(
        self,
        base_cell: Any,
        drop_inputs: float = 0.0,
        drop_states: float = 0.0,
        drop_outputs: float = 0.0,
    ) -> None:
        if drop_states and _reads_backwards(base_cell):
            raise RefusedError(
                f"[VariationalDropoutCell] drop_states: {base_cell.name} reads in both directions and makes no steps: "
                "put the modifier around the cells within"
            )
        super().__init__(base_cell)
        self.drop_inputs = drop_inputs
        self.drop_states = drop_states
        self.drop_outputs = drop_outputs

    def _alias(self) -> str:
        return "vardrop"

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p_out = {self.drop_outputs}, p_state = {self.drop_states})"

    def reset(self) -> None:
        """Begins anew, with other masks."""
        super().reset()
        self.drop_inputs_mask: Any = None
        self.drop_states_mask: Any = None
        self.drop_outputs_mask: Any = None

    def _dropped(self, F: Any, name: str, data: Any) -> Any:
        """With the mask of `drop_inputs`, `drop_states` or `drop_outputs`, which is drawn when it is first needed."""
        share = getattr(self, name)
        if not share:
            return data
        mask = getattr(self, f"{name}_mask")
        if mask is None or isinstance(mask, Symbol) != (F is sym):  # of a graph that was made in between
            mask = F.Dropout(F.ones_like(data), p=share)
            setattr(self, f"{name}_mask", mask)
        return data * mask

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """One step."""
        states = list(args[0])
        if self.drop_states:
            states[0] = self._dropped(F, "drop_states", states[0])
        output, after = self.base_cell(self._dropped(F, "drop_inputs", x), states)
        return self._dropped(F, "drop_outputs", output), after

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: Sequence[Any] | None = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
        valid_length: Any = None,
    ) -> tuple[Any, list[Any]]:
        """As of `RecurrentCell`; without dropout of states all steps at once."""
        if self.drop_states:
            return super().unroll(length, inputs, begin_state, layout, merge_outputs, valid_length)
        self.reset()
        inputs = whole(arranged(length, inputs, layout, None), layout)
        F, axis = library(inputs), time_axis(layout)
        states = self._begin(begin_state, inputs, layout)
        if self.drop_inputs:
            inputs = F.Dropout(inputs, p=self.drop_inputs, axes=(axis,))
        outputs, after = self.base_cell.unroll(length, inputs, states, layout, True, valid_length)
        if self.drop_outputs:
            outputs = F.Dropout(outputs, p=self.drop_outputs, axes=(axis,))
        merge = merge_outputs is None or merge_outputs
        outputs = arranged(length, outputs, layout, merge)
        if valid_length is not None:
            outputs = masked(outputs, length, valid_length, layout, merge)
        return outputs, list(after)


def _reads_backwards(cell: Any) -> bool:
    """Whether a cell, or one in a stack of cells, reads in both directions."""
    if isinstance(cell, HybridSequentialRNNCell):
        return any(_reads_backwards(cell[i]) for i in range(len(cell)))
    return isinstance(cell, BidirectionalCell)


class LSTMPCell(GatedCell):
    """Long short-term memory whose output is projected.

    Source: Sak, Senior and Beaufays, Long Short-Term Memory Based Recurrent Neural Network Architectures, 2014.

    Threads: one at a time; it counts steps.

    Parameters
    ----------
    hidden_size : int
        Units of the memory.
    projection_size : int
        Features of the output, which is the first state.
    i2h_weight_initializer, h2h_weight_initializer, h2r_weight_initializer : str or Initializer
        Of the weights of input and state, and of the projection.
    i2h_bias_initializer, h2h_bias_initializer : str or Initializer
    input_size : int
        Features of the input; 0 to find out.
    prefix, params : as in `Block`
    """

    def __init__(
        self,
        hidden_size: int,
        projection_size: int,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        h2r_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        input_size: int = 0,
        prefix: str | None = None,
        params: ParameterDict | None = None,
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        self._hidden_size = hidden_size
        self._input_size = input_size
        self._projection_size = projection_size
        rows = 4 * hidden_size
        self.i2h_weight = self._parameter("i2h_weight", (rows, input_size), i2h_weight_initializer)
        self.h2h_weight = self._parameter("h2h_weight", (rows, projection_size), h2h_weight_initializer)
        self.h2r_weight = self._parameter(
            "h2r_weight", (projection_size, hidden_size), h2r_weight_initializer
        )
        self.i2h_bias = self._parameter("i2h_bias", (rows,), i2h_bias_initializer)
        self.h2h_bias = self._parameter("h2h_bias", (rows,), h2h_bias_initializer)

    def state_info(self, batch_size: int = 0) -> list[State]:
        """Shape and layout of output and memory; a batch size of 0 is unknown."""
        sizes = (self._projection_size, self._hidden_size)
        return [{"shape": (batch_size, size), "__layout__": "NC"} for size in sizes]

    def _alias(self) -> str:
        return "lstmp"

    def __repr__(self) -> str:
        rows, columns = self.i2h_weight.shape or (4 * self._hidden_size, 0)
        return f"{type(self).__name__}({columns or None} -> {rows} -> {self._projection_size})"

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """One step."""
        ((shown, memory),), t = args, f"t{self._counter}_"
        i2h, h2h = (
            F.FullyConnected(
                data=data,
                weight=kwargs[f"{name}_weight"],
                bias=kwargs[f"{name}_bias"],
                num_hidden=4 * self._hidden_size,
                name=t + name,
            )
            for name, data in (("i2h", x), ("h2h", shown))
        )
        gate, memory = self._remembered(F, t, i2h + h2h, memory)
        hidden = F.elemwise_mul(gate, F.Activation(memory, act_type="tanh"), name=t + "hidden")
        shown = F.FullyConnected(
            data=hidden, weight=kwargs["h2r_weight"], num_hidden=self._projection_size, no_bias=True, name=t + "out"
        )  # fmt: skip
        return shown, [shown, memory]


def dynamic_unroll(
    cell: Any,
    inputs: Any,
    begin_state: Any,
    drop_inputs: float = 0,
    drop_outputs: float = 0,
    layout: str = "TNC",
    valid_length: Any = None,
) -> tuple[Any, Any]:
    """Computes the steps of a sequence by `nd.contrib.foreach`, without knowing their number before.

    Parameters
    ----------
    cell : RecurrentCell
    inputs : NDArray
        All steps in the layout.
    begin_state : list of NDArray
        States before the first step.
    drop_inputs, drop_outputs : float
        Shares of features that are dropped in training, the same at all steps.
    layout : str
        `TNC` or `NTC`.
    valid_length : NDArray, optional
        (batch,) steps of each sequence. Outputs after them are zeros; the states are those at their end.

    Returns
    -------
    outputs : NDArray
        In the layout.
    states : list

    Raises
    ------
    ArgumentError  inputs are symbols: graphs have no loops here
    """
    if isinstance(inputs, Symbol):
        raise ArgumentError(
            "[dynamic_unroll] inputs: expected an NDArray, got a symbol: graphs have no loops here; cell.unroll makes "
            "a graph of a given number of steps"
        )
    axis = time_axis(layout)
    data = nd.swapaxes(inputs, dim1=0, dim2=axis) if axis else inputs
    if drop_inputs:
        data = nd.Dropout(data, p=drop_inputs, axes=(0,))
    states = list(begin_state) if isinstance(begin_state, (list, tuple)) else [begin_state]
    if valid_length is not None:
        states.append(nd.zeros((1,), ctx=inputs.context, dtype=valid_length.dtype))

    def step(one: Any, before: list[Any]) -> tuple[Any, list[Any]]:
        if valid_length is None:
            output, after = cell(one, before)
            return output, list(after)
        output, after = cell(one, before[:-1])
        goes_on = nd.broadcast_greater(valid_length, before[-1])
        kept = [nd.where(goes_on, new, old) for new, old in zip(after, before[:-1], strict=True)]
        return output, [*kept, before[-1] + 1]

    outputs, states = nd.contrib.foreach(step, data, states)
    if drop_outputs:
        outputs = nd.Dropout(outputs, p=drop_outputs, axes=(0,))
    if axis:
        outputs = nd.swapaxes(outputs, dim1=0, dim2=axis)
    if valid_length is None:
        return outputs, states
    return masked(outputs, len(data), valid_length, layout, True), states[:-1]
