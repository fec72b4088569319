# SPDX-License-Identifier: Apache-2.0
"""The base class of recurrent cells: parameters, states, unrolling."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mx_core.errors import ArgumentError, MXNetError
from mx_ndarray import NDArray, nd
from mx_symbol import sym
from mx_symbol.symbol import Symbol, Variable
from mx_train.rnn.sequence import Steps, arranged, one_per_step

Weights = Mapping[str, NDArray]


class RNNParams:
    """The variables of cells that share weights, by name.

    Threads: one at a time.

    Parameters
    ----------
    prefix : str
        What their names begin with.
    """

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self._params: dict[str, Symbol] = {}

    def get(self, name: str, **kwargs: Any) -> Symbol:
        """The variable of this name; made with the arguments of `sym.Variable` when it is first asked for."""
        full = self._prefix + name
        if full not in self._params:
            self._params[full] = Variable(full, **kwargs)
        return self._params[full]


class BaseRNNCell:
    """A step of a recurrent network, applied to symbols.

    Threads: one at a time.

    Parameters
    ----------
    prefix : str
        What the names of parameters and outputs begin with.
    params : RNNParams, optional
        Parameters shared with other cells; by default its own.
    """

    def __init__(self, prefix: str = "", params: RNNParams | None = None) -> None:
        self._own_params = params is None
        self._prefix = prefix
        self._params = RNNParams(prefix) if params is None else params
        self._modified = False
        self._cells: list[BaseRNNCell] = []
        self.reset()

    def reset(self) -> None:
        """Begins anew: the next step is step 0."""
        self._init_counter = -1
        self._counter = -1
        for cell in self._cells:
            cell.reset()

    def __call__(self, inputs: Symbol, states: Sequence[Symbol]) -> tuple[Symbol, list[Symbol]]:
        """One step.

        Parameters
        ----------
        inputs : Symbol
            (batch, features).
        states : sequence of Symbol
            From `begin_state` or the step before.

        Returns
        -------
        output : Symbol
        states : list of Symbol
        """
        raise NotImplementedError

    @property
    def params(self) -> RNNParams:
        """The parameters; other cells may share them."""
        self._own_params = False
        return self._params

    @property
    def state_info(self) -> list[dict[str, Any]]:
        """Shape and layout of every state; 0 is the batch size."""
        raise NotImplementedError

    @property
    def state_shape(self) -> list[tuple[int, ...]]:
        """Shapes of the states."""
        return [info["shape"] for info in self.state_info]

    @property
    def _gate_names(self) -> tuple[str, ...]:
        """What distinguishes the parts of a weight, in order."""
        return ()

    def begin_state(self, func: Callable[..., Symbol] = sym.zeros, **kwargs: Any) -> list[Any]:
        """Symbols for the states before the first step.

        Parameters
        ----------
        func : callable
            Makes one from `name`, `shape` and attributes: `sym.zeros`, `sym.Variable`, …
        **kwargs
            More arguments for it.
        """
        self._refuse_if_modified()
        states = []
        for info in self.state_info:
            self._init_counter += 1
            states.append(func(name=f"{self._prefix}begin_state_{self._init_counter}", **{**kwargs, **info}))
        return states

    def _refuse_if_modified(self) -> None:
        if self._modified:
            raise MXNetError("[begin_state] a modifier wraps this cell: call begin_state of the modifier")

    def unpack_weights(self, args: Weights) -> dict[str, NDArray]:
        """The arguments with a weight and a bias per gate instead of stacked ones."""
        found = dict(args)
        gates = self._gate_names
        for group in ("i2h", "h2h") if gates else ():
            for kind in ("weight", "bias"):
                stacked = found.pop(f"{self._prefix}{group}_{kind}")
                rows = stacked.shape[0] // len(gates)
                for i, gate in enumerate(gates):
                    part = stacked[i * rows : (i + 1) * rows].copy()
                    found[f"{self._prefix}{group}{gate}_{kind}"] = part
        return found

    def pack_weights(self, args: Weights) -> dict[str, NDArray]:
        """The arguments with stacked weights again; see `unpack_weights`."""
        found = dict(args)
        gates = self._gate_names
        for group in ("i2h", "h2h") if gates else ():
            for kind in ("weight", "bias"):
                parts = [found.pop(f"{self._prefix}{group}{gate}_{kind}") for gate in gates]
                found[f"{self._prefix}{group}_{kind}"] = nd.concat(*parts, dim=0)
        return found

    def unroll(
        self,
        length: int,
        inputs: Steps,
        begin_state: Sequence[Any] | None = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
    ) -> tuple[Any, list[Any]]:
        """Applies the cell to the steps of a sequence.

        Parameters
        ----------
        length : int
            Number of steps.
        inputs : Symbol or sequence of Symbol
            (batch, time, features) as `layout` says, or (batch, features) for each step.
        begin_state : sequence of Symbol, optional
            By default what `begin_state()` gives.
        merge_outputs : bool, optional
            One symbol of all outputs, or a list with one per step; by default what is cheaper.

        Returns
        -------
        outputs : Symbol or list of Symbol
        states : list of Symbol
            After the last step.
        """
        self.reset()
        states = list(self.begin_state() if begin_state is None else begin_state)
        return self._unrolled(length, inputs, states, layout, merge_outputs)

    def _unrolled(
        self, length: int, inputs: Steps, states: list[Any], layout: str, merge: bool | None
    ) -> tuple[Any, list[Any]]:
        outputs = []
        for step in one_per_step(length, inputs, layout):
            output, states = self(step, states)
            outputs.append(output)
        return arranged(length, outputs, layout, merge), states

    def _activated(self, values: Symbol, activation: Any, **kwargs: Any) -> Symbol:
        """An activation by name, or a function of a symbol."""
        if isinstance(activation, str):
            result: Symbol = sym.Activation(values, act_type=activation, **kwargs)
        else:
            result = activation(values, **kwargs)
        return result


def take_own_params(cells: Sequence[BaseRNNCell], params: RNNParams, shared: bool) -> None:
    """Lets cells use shared parameters, and adds their own to them.

    Raises
    ------
    ArgumentError  the parameters are shared, and a cell has got other ones
    """
    for cell in cells:
        if shared:
            if not cell._own_params:
                raise ArgumentError("[rnn] params: given to both a cell and the cell that contains it")
            cell.params._params.update(params._params)
        params._params.update(cell.params._params)
