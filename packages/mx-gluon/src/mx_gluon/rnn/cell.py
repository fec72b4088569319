# SPDX-License-Identifier: Apache-2.0
"""The base classes of recurrent cells: states, steps, unrolling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

from mx_core import dtypes
from mx_gluon.block import Block, HybridBlock
from mx_gluon.errors import RefusedError
from mx_gluon.nn import LeakyReLU
from mx_gluon.parameter import ParameterDict
from mx_gluon.rnn.sequences import arranged, batch_size, is_whole, last_valid, library, masked, steps
from mx_ndarray import NDArray, nd
from mx_symbol import sym

State = dict[str, Any]


class RecurrentCell(Block):
    """A step of a recurrent network: from an input and states to an output and the next states.

    Threads: one at a time; it counts steps.

    Parameters
    ----------
    prefix, params : as in `Block`
    """

    def __init__(self, prefix: str | None = None, params: ParameterDict | None = None) -> None:
        super().__init__(prefix=prefix, params=params)
        self._modified = False
        self.reset()

    def reset(self) -> None:
        """Begins anew: the next step is step 0."""
        self._init_counter = -1
        self._counter = -1
        for block in self._children.values():
            if isinstance(block, RecurrentCell):  # an activation may be a block, too
                block.reset()

    def state_info(self, batch_size: int = 0) -> list[State]:
        """Shape and layout of every state; a batch size of 0 is unknown."""
        raise NotImplementedError(f"{type(self).__name__} does not define state_info")

    def begin_state(
        self, batch_size: int = 0, func: Callable[..., Any] = nd.zeros, **kwargs: Any
    ) -> list[Any]:
        """States before the first step.

        Parameters
        ----------
        batch_size : int
        func : callable
            Makes one from `shape`, and for symbols from `name`: `nd.zeros`, `sym.Variable`, …
        **kwargs
            More arguments for it, such as `ctx`.

        Raises
        ------
        RefusedError  a modifier wraps the cell, and has the states
        """
        self._refuse_if_modified()
        states = []
        for info in self.state_info(batch_size):
            self._init_counter += 1
            states.append(made(func, f"{self._prefix}begin_state_{self._init_counter}", {**info, **kwargs}))
        return states

    def _refuse_if_modified(self) -> None:
        if self._modified:
            raise RefusedError(
                f"[{self.name}] begin_state: a modifier cell (e.g. ZoneoutCell) wraps this one: call the modifier's"
            )

    def _begin(self, states: Sequence[Any] | None, inputs: Any, layout: str) -> Sequence[Any]:
        """The states that are given, or zeros that fit the inputs, of the parameters' element type."""
        if states is not None:
            return states
        F = library(inputs)
        first = inputs if is_whole(inputs) else inputs[0]
        params = list(self.collect_params().values())
        kind = dtypes.name(dtypes.code(params[0].dtype, f"[{self.name}] dtype")) if params else "float32"
        more = {} if kind == "float32" else {"dtype": kind}
        with first.context if isinstance(first, NDArray) else nullcontext():
            return self.begin_state(func=F.zeros, batch_size=batch_size(inputs, layout), **more)

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: Sequence[Any] | None = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
        valid_length: Any = None,
    ) -> tuple[Any, list[Any]]:
        """Computes several steps.

        Parameters
        ----------
        length : int
            Number of steps.
        inputs : NDArray or Symbol, or list of them
            All steps in the layout, or (batch, features) of each.
        begin_state : list, optional
            Zeros by default.
        layout : str
            Order of axes of inputs and outputs that are one array, `NTC` or `TNC`.
        merge_outputs : bool, optional
            Whether the outputs are one array, or one per step; by default whichever is made.
        valid_length : NDArray or Symbol, optional
            (batch,) steps of each sequence. Outputs after them are zeros; the states are those at their end.

        Returns
        -------
        outputs : NDArray or Symbol, or list of them
        states : list

        Raises
        ------
        RefusedError  there are not as many steps as `length` says
        """
        self.reset()
        each = steps(length, inputs, layout)
        states = self._begin(begin_state, each, layout)
        outputs: Any = []
        seen = []
        for i in range(length):
            output, states = self(each[i], states)
            outputs.append(output)
            seen.append(states)
        if valid_length is not None:
            states = last_valid(seen, valid_length)
            outputs = masked(outputs, length, valid_length, layout, True)
        return arranged(length, outputs, layout, merge_outputs), list(states)

    def _get_activation(self, F: Any, inputs: Any, activation: Any, **kwargs: Any) -> Any:
        """A function by its name, a layer, or anything callable."""
        if activation in ("tanh", "relu", "sigmoid", "softsign"):
            return getattr(F, activation)(inputs, **kwargs)
        if isinstance(activation, str):
            return F.Activation(inputs, act_type=activation, **kwargs)
        if isinstance(activation, LeakyReLU):
            return F.LeakyReLU(inputs, act_type="leaky", slope=activation._alpha, **kwargs)
        return activation(inputs) if isinstance(activation, Block) else activation(inputs, **kwargs)

    def forward(self, inputs: Any, states: Any) -> Any:
        """One step.

        Parameters
        ----------
        inputs : NDArray or Symbol
            (batch, features).
        states : list
            Of the step before, or from `begin_state`.

        Returns
        -------
        output : NDArray or Symbol
        states : list
        """
        self._counter += 1
        return super().forward(inputs, states)


class HybridRecurrentCell(RecurrentCell, HybridBlock):
    """A recurrent cell that can be traced as a graph.

    Threads: one at a time; it counts steps.
    """

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """One step, from inputs and states."""
        raise NotImplementedError(f"{type(self).__name__} does not define hybrid_forward")


def made(func: Callable[..., Any], name: str, info: State) -> Any:
    """A state. Functions of arrays take no name and no layout."""
    if getattr(func, "__module__", "").startswith("mx_ndarray"):
        return func(**{key: value for key, value in info.items() if key != "__layout__"})
    if func is sym.zeros or func is sym.ones:
        info = {key: value for key, value in info.items() if key != "ctx"}
    return func(name=name, **info)
