# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers: whole sequences by one operator."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from mx_core.errors import ShapeError
from mx_gluon.block import HybridBlock
from mx_gluon.errors import RefusedError
from mx_gluon.parameter import Parameter
from mx_gluon.rnn.basic import GRUCell, LSTMCell, RNNCell
from mx_gluon.rnn.bidirectional import BidirectionalCell
from mx_gluon.rnn.cell import State, made
from mx_gluon.rnn.chains import HybridSequentialRNNCell
from mx_gluon.rnn.modifiers import DropoutCell
from mx_ndarray import NDArray, nd
from mx_symbol import sym
from mx_symbol.symbol import Symbol

_NAME = re.compile(r"(?P<way>[lr])(?P<layer>\d+)_(?P<rest>\w+)")


class _RNNLayer(HybridBlock):
    """Layers of cells, in one direction or two, with the parameters of each by name."""

    _gates: ClassVar[int]
    _states: ClassVar[int] = 1
    _mode: str

    def __init__(
        self,
        hidden_size: int,
        num_layers: int,
        layout: str,
        dropout: float,
        bidirectional: bool,
        input_size: int,
        initializers: dict[str, Any],
        dtype: Any,
        projection_size: int | None = None,
        clip: tuple[float | None, float | None, bool] = (None, None, False),
        use_sequence_length: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if layout not in ("TNC", "NTC"):
            raise RefusedError(f"[{self.name}] Invalid layout {layout}; must be one of ['TNC' or 'NTC']")
        self._hidden_size, self._num_layers, self._input_size = hidden_size, num_layers, input_size
        self._projection_size = projection_size or None
        self._layout, self._dropout, self._dtype = layout, dropout, dtype
        self._ways = "lr" if bidirectional else "l"
        self._initializers = initializers
        self._clip_min, self._clip_max, self._clip_nan = clip
        self._use_sequence_length = use_sequence_length
        self.skip_states = False
        #: by whether states are left out, the graph for such calls while the other one is in use
        self._resting: dict[bool, tuple[Any, ...]] = {}
        for way, layer, name, shape in self._shapes():
            init = initializers[f"{name}_initializer"]
            full = f"{way}{layer}_{name}"
            parameter = self.params.get(full, shape=shape, init=init, allow_deferred_init=True, dtype=dtype)
            setattr(self, full, parameter)

    def _shapes(self) -> Iterator[tuple[str, int, str, tuple[int, ...]]]:
        """Direction, layer, name and shape of each parameter."""
        rows, shown = self._gates * self._hidden_size, self._projection_size or self._hidden_size
        for layer in range(self._num_layers):
            columns = self._input_size if layer == 0 else shown * len(self._ways)
            for way in self._ways:
                yield way, layer, "i2h_weight", (rows, columns)
                yield way, layer, "h2h_weight", (rows, shown)
                yield way, layer, "i2h_bias", (rows,)
                yield way, layer, "h2h_bias", (rows,)
                if self._projection_size:
                    yield way, layer, "h2r_weight", (self._projection_size, self._hidden_size)

    def __repr__(self) -> str:
        columns = self._first.shape[1] if self._first.shape else 0
        parts = [f"{columns or None} -> {self._hidden_size}", self._layout]
        if self._num_layers != 1:
            parts.append(f"num_layers={self._num_layers}")
        if self._dropout != 0:
            parts.append(f"dropout={self._dropout}")
        if self._ways == "lr":
            parts.append("bidirectional")
        return f"{type(self).__name__}({', '.join(parts)})"

    @property
    def _first(self) -> Parameter:
        found: Parameter = self._reg_params["l0_i2h_weight"]
        return found

    def _collect_params_with_prefix(self, prefix: str = "") -> dict[str, Parameter]:
        """Names as if the layer were cells, which MXNet's files have."""
        lead = f"{prefix}." if prefix else ""
        found = {}
        for name, parameter in self._reg_params.items():
            matched = _NAME.fullmatch(name)
            assert matched is not None
            cell = f"{matched['way']}_cell." if self._ways == "lr" else ""
            found[f"{lead}_unfused.{matched['layer']}.{cell}{matched['rest']}"] = parameter
        return found

    def cast(self, dtype: Any) -> None:
        """Changes the element type of parameters, and of the states that it makes."""
        super().cast(dtype)
        self._dtype = dtype

    # ---- states ----

    def state_info(self, batch_size: int = 0) -> list[State]:
        """Shape, layout and type of every state; a batch size of 0 is unknown."""
        sizes = (self._projection_size or self._hidden_size, self._hidden_size)
        return [
            {
                "shape": (self._num_layers * len(self._ways), batch_size, size),
                "__layout__": "LNC",
                "dtype": self._dtype,
            }
            for size in sizes[: self._states]
        ]

    def begin_state(
        self, batch_size: int = 0, func: Callable[..., Any] = nd.zeros, **kwargs: Any
    ) -> list[Any]:
        """States before the first step.

        Parameters
        ----------
        batch_size : int
        func : callable
            Makes one from `shape`, and for symbols from `name`.
        **kwargs
            More arguments for it, such as `ctx`.
        """
        infos = self.state_info(batch_size)
        return [made(func, f"{self.prefix}h0_{i}", {**info, **kwargs}) for i, info in enumerate(infos)]

    # ---- calls ----

    def __call__(  # type: ignore[override]
        self, inputs: Any, states: Any = None, sequence_length: Any = None, **kwargs: Any
    ) -> Any:
        """Computes sequences.

        Parameters
        ----------
        inputs : NDArray or Symbol
            In the layout: (steps, batch, features), or batch first.
        states : list, optional
            (layers · directions, batch, units) each; zeros by default.
        sequence_length : NDArray or Symbol, optional
            (batch,) steps of each sequence, with `use_sequence_length`.

        Returns
        -------
        output : in the layout
        states : list
            If `states` were given.

        Raises
        ------
        ShapeError  a state does not fit
        """
        begun = states
        self._leave_out_states(begun is None)
        if begun is None:
            if isinstance(inputs, NDArray):
                batch = inputs.shape[self._layout.find("N")]
                begun = self.begin_state(batch, ctx=inputs.context, dtype=inputs.dtype)
            else:
                begun = self.begin_state(0, func=sym.zeros)
        if isinstance(begun, (NDArray, Symbol)):
            begun = [begun]
        more = (sequence_length,) if self._use_sequence_length else ()
        return super().__call__(inputs, list(begun), *more, **kwargs)

    def _leave_out_states(self, skip: bool) -> None:
        """Takes the graph that has the states among its outputs, or the one that has not."""
        if skip == self.skip_states:
            return
        self._resting[self.skip_states] = (
            self._cached_graph,
            self._cached_op,
            self._in_format,
            self._out_format,
        )
        nothing: tuple[Any, ...] = ((), None, 0, 0)
        self._cached_graph, self._cached_op, self._in_format, self._out_format = self._resting.pop(
            skip, nothing
        )
        self.skip_states = skip

    def _clear_cached_op(self) -> None:
        super()._clear_cached_op()
        self._resting = {}

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """The operator, with all parameters in one array."""
        states, *lengths = args
        if F is nd:
            self._check(x, states)
        if self._layout == "NTC":
            x = F.swapaxes(x, dim1=0, dim2=1)
        named = dict(zip(("state", "state_cell"), states, strict=False))
        if lengths:
            named["sequence_length"] = lengths[0]
        out = F.RNN(
            x, self._joined(F, kwargs), **named, use_sequence_length=self._use_sequence_length,
            state_size=self._hidden_size, projection_size=self._projection_size, num_layers=self._num_layers,
            bidirectional=self._ways == "lr", p=self._dropout, state_outputs=True, mode=self._mode,
            lstm_state_clip_min=self._clip_min, lstm_state_clip_max=self._clip_max, lstm_state_clip_nan=self._clip_nan,
        )  # fmt: skip
        output = F.swapaxes(out[0], dim1=0, dim2=1) if self._layout == "NTC" else out[0]
        return output if self.skip_states else (output, [out[i + 1] for i in range(self._states)])

    def _joined(self, F: Any, parameters: dict[str, Any]) -> Any:
        """All weights, then all biases, in the order of the operator."""
        names = [f"{way}{layer}_{name}" for way, layer, name, _ in self._shapes()]
        ordered = [name for end in ("weight", "bias") for name in names if name.endswith(end)]
        flat = [F.reshape(parameters[name], shape=(-1,)) for name in ordered]
        return F._internal._rnn_param_concat(*flat, dim=0)

    def _check(self, x: Any, states: list[Any]) -> None:
        expected = self.state_info(x.shape[self._layout.find("N")])
        if len(states) != len(expected):
            raise ShapeError(f"[{self.name}] states: expected {len(expected)}, got {len(states)}")
        for state, info in zip(states, expected, strict=True):
            if state.shape != info["shape"]:
                raise ShapeError(
                    f"[{self.name}] Invalid recurrent state shape. Expecting {info['shape']}, got {state.shape}."
                )

    # ---- as cells ----

    def _cell(self, **kwargs: Any) -> Any:
        """A cell that computes a step of one layer."""
        raise NotImplementedError

    def _unfuse(self) -> HybridSequentialRNNCell:
        """The same as cells, which share the parameters."""
        if self._projection_size or self._clip_min or self._clip_max:
            raise RefusedError(
                f"[{self.name}] _unfuse does not support projection layer and state clipping yet!"
            )
        stack = HybridSequentialRNNCell(prefix=self.prefix, params=self.params)
        given = {name: value for name, value in self._initializers.items() if not name.startswith("h2r")}
        columns = self._input_size
        with stack.name_scope():
            for layer in range(self._num_layers):
                cells = [
                    self._cell(prefix=f"{way}{layer}_", input_size=columns, **given) for way in self._ways
                ]
                stack.add(cells[0] if len(cells) == 1 else BidirectionalCell(*cells))
                if self._dropout > 0 and layer != self._num_layers - 1:
                    stack.add(DropoutCell(self._dropout))
                columns = self._hidden_size * len(self._ways)
        return stack


def _initializers(i2h_weight: Any, h2h_weight: Any, i2h_bias: Any, h2h_bias: Any) -> dict[str, Any]:
    return {
        "i2h_weight_initializer": i2h_weight,
        "h2h_weight_initializer": h2h_weight,
        "i2h_bias_initializer": i2h_bias,
        "h2h_bias_initializer": h2h_bias,
    }


class RNN(_RNNLayer):
    """Layers of plain cells.

    Threads: as `HybridBlock`, if all calls give states or none does.

    Parameters
    ----------
    hidden_size : int
        Units of each layer and direction.
    num_layers : int
    activation : str
        `relu` or `tanh`.
    layout : str
        Axes of input and output, `TNC` or `NTC`.
    dropout : float
        Rate between layers.
    bidirectional : bool
        Read from the end, too.
    i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer : str or Initializer
        Of the weights of input and state, and of their biases.
    input_size : int
        Features of the input; 0 to find out.
    dtype : str
        Element type of parameters.
    **kwargs
        prefix, params : as in `Block`
    """

    _gates = 1

    def __init__(
        self,
        hidden_size: int,
        num_layers: int = 1,
        activation: str = "relu",
        layout: str = "TNC",
        dropout: float = 0,
        bidirectional: bool = False,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        input_size: int = 0,
        dtype: Any = "float32",
        **kwargs: Any,
    ) -> None:
        if activation not in ("relu", "tanh"):
            raise RefusedError(f"[RNN] activation: expected relu or tanh, got {activation!r}")
        self._activation = activation
        initializers = _initializers(
            i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer
        )
        super().__init__(
            hidden_size, num_layers, layout, dropout, bidirectional, input_size, initializers, dtype, **kwargs
        )
        self._mode = f"rnn_{activation}"

    def _cell(self, **kwargs: Any) -> RNNCell:
        return RNNCell(self._hidden_size, activation=self._activation, **kwargs)


class LSTM(_RNNLayer):
    """Layers of long short-term memories, as of `LSTMCell`.

    Threads: as `HybridBlock`, if all calls give states or none does.

    Parameters
    ----------
    hidden_size, num_layers, layout, dropout, bidirectional, input_size : as of `RNN`
    i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer : as of `RNN`
    projection_size : int, optional
        Units that outputs are projected to. Source: Sak, Senior and Beaufays, Long Short-Term Memory Based Recurrent
        Neural Network Architectures, 2014.
    h2r_weight_initializer : str or Initializer
        Of the projection.
    state_clip_min, state_clip_max : float, optional
        Limits of the memory.
    state_clip_nan : bool
        Limit NaN, too.
    dtype : as of `RNN`
    **kwargs
        prefix, params : as in `Block`; use_sequence_length : whether sequences end at lengths of their own
    """

    _gates, _states = 4, 2

    def __init__(
        self,
        hidden_size: int,
        num_layers: int = 1,
        layout: str = "TNC",
        dropout: float = 0,
        bidirectional: bool = False,
        input_size: int = 0,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        projection_size: int | None = None,
        h2r_weight_initializer: Any = None,
        state_clip_min: float | None = None,
        state_clip_max: float | None = None,
        state_clip_nan: bool = False,
        dtype: Any = "float32",
        **kwargs: Any,
    ) -> None:
        initializers = _initializers(
            i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer
        )
        super().__init__(
            hidden_size, num_layers, layout, dropout, bidirectional, input_size,
            {**initializers, "h2r_weight_initializer": h2r_weight_initializer}, dtype, projection_size,
            (state_clip_min, state_clip_max, state_clip_nan), **kwargs,
        )  # fmt: skip
        self._mode = "lstm"

    def _cell(self, **kwargs: Any) -> LSTMCell:
        return LSTMCell(self._hidden_size, **kwargs)


class GRU(_RNNLayer):
    """Layers of gated recurrent units, as of `GRUCell`.

    Threads: as `HybridBlock`, if all calls give states or none does.

    Parameters
    ----------
    hidden_size, num_layers, layout, dropout, bidirectional, input_size, dtype : as of `RNN`
    i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer : as of `RNN`
    **kwargs
        prefix, params : as in `Block`; use_sequence_length : whether sequences end at lengths of their own
    """

    _gates = 3

    def __init__(
        self,
        hidden_size: int,
        num_layers: int = 1,
        layout: str = "TNC",
        dropout: float = 0,
        bidirectional: bool = False,
        input_size: int = 0,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        dtype: Any = "float32",
        **kwargs: Any,
    ) -> None:
        initializers = _initializers(
            i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer
        )
        super().__init__(
            hidden_size, num_layers, layout, dropout, bidirectional, input_size, initializers, dtype, **kwargs
        )
        self._mode = "gru"

    def _cell(self, **kwargs: Any) -> GRUCell:
        return GRUCell(self._hidden_size, **kwargs)
