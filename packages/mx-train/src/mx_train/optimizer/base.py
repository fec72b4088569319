# SPDX-License-Identifier: Apache-2.0
"""Optimizer: the base class, per-parameter rates, and the updater a KVStore calls."""

from __future__ import annotations

import logging
import numbers
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from mx_core import Context
from mx_core.errors import ArgumentError, FileFormatError
from mx_ndarray import NDArray, nd
from mx_symbol.symbol import Symbol
from mx_train.lr_scheduler import LRScheduler
from mx_train.optimizer.arguments import unknown_arguments
from mx_train.optimizer.counting import counted_if_done
from mx_train.optimizer.fitting import check_form, check_names, names_of, names_of_dumped, same_form
from mx_train.optimizer.states import Settings, dump_states, read_states
from mx_train.optimizer.table import WithStates
from mx_train.registry import Named

if TYPE_CHECKING:
    from mx_train.optimizer.held import HeldNumbers

#: None, an NDArray, or a tuple of them; each optimizer knows which
State = Any
#: what a parameter is called in an optimizer: its place among the parameters, or its name
Index = int | str
#: types in which a small step is lost when it is added to a weight
_SHORT_TYPES = ("float16", "bfloat16")
#: the numbers of updates by index, among the states in a file
_COUNTS = "__update_counts__"
#: what else an optimizer remembers by index, among the states in a file: by the attribute's name
_MEMORY = "__remembered__"
#: the names of the optimizer's classes, among the states in a file
_CLASSES = "__optimizer__"


class Optimizer:
    """Decides how a gradient changes a weight.

    Threads: one at a time.

    Parameters
    ----------
    rescale_grad : float
        Factor of every gradient, usually 1 / batch size.
    param_idx2name : mapping of int to str
        Names of the parameters, for rates by name.
    wd : float
        Weight decay.
    clip_gradient : float, optional
        Limit of the scaled gradient's elements.
    learning_rate : float, optional
        0.01, or the scheduler's own.
    lr_scheduler : LRScheduler, optional
    sym : Symbol, optional
        Its attributes `__lr_mult__` and `__wd_mult__` are used.
    begin_num_update : int
        Updates made before.
    multi_precision : bool
        Keep a float32 copy of every weight that is float16 or bfloat16, and update that.
    param_dict : mapping, optional
        Parameters (of Gluon) that carry `lr_mult` and `wd_mult`.
    """

    opt_registry: ClassVar[Named[Optimizer]] = Named("optimizers", "optimizer")
    #: whether the float32 copy of a weight comes after the state, as MXNet has it in files
    _copy_is_last: ClassVar[bool] = False
    #: attributes that are dicts by index and belong to the states, with the type of their values
    _remembered: ClassVar[Mapping[str, type]] = MappingProxyType({})
    #: whether weights may have NumPy's semantics; MXNet's Gluon sets it
    allow_np_array: bool = False
    #: what MXNet has as `aggregate_num` unless told otherwise
    _usual_aggregate_num: ClassVar[int] = 0
    #: whether numbers of an update are made of rates, decays and settings alone, and of the count of updates by
    #: `_rate_factor` alone; said of the class itself, not of those that extend it
    _numbers_by_rate: ClassVar[bool] = False
    #: who counts updates that are not yet in the table of counts
    _counted_ahead: HeldNumbers | None = None
    #: ends of the names of parameters that decay
    _decaying: ClassVar[tuple[str, ...]] = ("_weight", "_gamma")

    def __init__(
        self,
        rescale_grad: float = 1.0,
        param_idx2name: Mapping[Index, str] | None = None,
        wd: float = 0.0,
        clip_gradient: float | None = None,
        learning_rate: float | None = None,
        lr_scheduler: LRScheduler | None = None,
        sym: Symbol | None = None,
        begin_num_update: int = 0,
        multi_precision: bool = False,
        param_dict: Mapping[Index, Any] | None = None,
        aggregate_num: int | None = None,
        use_fused_step: bool | None = None,
        **kwargs: Any,
    ) -> None:
        if kwargs:
            raise ArgumentError(f"[{type(self).__name__}] {unknown_arguments(type(self), sorted(kwargs))}")
        for name, value in (
            ("rescale_grad", rescale_grad), ("wd", wd), ("clip_gradient", clip_gradient),
            ("learning_rate", learning_rate),
        ):  # fmt: skip
            self._expect_number(name, value)
        self.rescale_grad = rescale_grad
        self.lr_scheduler = lr_scheduler
        if lr_scheduler is not None and learning_rate is not None:
            self._tell_of_rate(learning_rate, lr_scheduler)
            lr_scheduler.base_lr = learning_rate
        self.lr = 0.01 if learning_rate is None else learning_rate
        self.wd = wd
        self.clip_gradient = clip_gradient
        self.multi_precision = multi_precision
        self._aggregate_num = aggregate_num
        self.begin_num_update = begin_num_update
        self.num_update = begin_num_update
        self._index_update_count = {}
        self.idx2name: dict[Index, str] = dict(param_idx2name or {})
        self.param_dict = param_dict or {}
        self.sym_info = (sym.attr_dict(), sym.list_arguments()) if sym is not None else ()
        self.lr_mult: dict[Index, float] = {}
        self.wd_mult: dict[Index, float] = {}
        self.set_lr_mult({})
        self.set_wd_mult({})

    @property
    def aggregate_num(self) -> int:
        """How many weights MXNet updates at once, 0 for each alone. Here all that fit are updated at once."""
        return self._usual_aggregate_num if self._aggregate_num is None else self._aggregate_num

    @aggregate_num.setter
    def aggregate_num(self, number: int) -> None:
        self._aggregate_num = number

    @staticmethod
    def register(optimizer: type[Optimizer]) -> type[Optimizer]:
        """Makes a class known by its name; a decorator."""
        return Optimizer.opt_registry.register(optimizer)

    @staticmethod
    def create_optimizer(name: str | Optimizer, **kwargs: Any) -> Optimizer:
        """An optimizer by name."""
        return Optimizer.opt_registry.create(name, **kwargs)

    # ---- what subclasses define ----

    def create_state(self, index: Index, weight: NDArray) -> State:
        """The state that is kept between updates of one parameter, or None."""
        return None

    def update(self, index: Index, weight: NDArray, grad: NDArray, state: State) -> None:
        """Changes `weight` (and `state`) in place; asynchronous."""
        raise NotImplementedError

    def create_state_multi_precision(self, index: Index, weight: NDArray) -> State:
        """As create_state; with multi_precision also a float32 copy of a float16 or bfloat16 weight."""
        if self._keeps_copy(weight):
            copy = weight.astype(np.float32)
            state = self.create_state(index, copy)
            return (state, copy) if self._copy_is_last else (copy, state)
        return self.create_state(index, weight)

    def update_multi_precision(self, index: Index, weight: NDArray, grad: NDArray, state: State) -> None:
        """As update, on the float32 copy where there is one."""
        if self._keeps_copy(weight):
            inner, copy = state if self._copy_is_last else reversed(state)
            self.update(index, copy, grad.astype(np.float32), inner)
            weight[:] = copy.astype(weight.dtype)
        else:
            self.update(index, weight, grad, state)

    def update_together(
        self,
        indices: Sequence[Index],
        weights: Sequence[NDArray],
        grads: Sequence[NDArray],
        states: Sequence[State],
    ) -> None:
        """As update_multi_precision, of many weights; SGD and Adam start one operator for those of float32."""
        for each in zip(indices, weights, grads, states, strict=True):
            self.update_multi_precision(*each)

    def _expect_number(self, name: str, value: object) -> None:
        if value is not None and not isinstance(value, (numbers.Number, np.generic, NDArray)):
            raise ArgumentError(f"[{type(self).__name__}] {name}: expected a number, got {value!r}")

    def _tell_of_rate(self, rate: float, schedule: LRScheduler) -> None:
        """Warns that the optimizer's rate replaces another one of the schedule; MXNet prints it."""
        replaced, first = getattr(schedule, "base_lr", rate), getattr(schedule, "base_lr_orig", None)
        if replaced != rate:
            logging.warning(
                "[%s] learning_rate %s replaces base_lr %s of the %s%s",
                type(self).__name__, rate, replaced, type(schedule).__name__,
                "" if first is None else f", whose rates are computed from {first} all the same",
            )  # fmt: skip

    def _kept(self, state: State) -> State:
        """A state that `create_state` made; else an error that says so."""
        if state is None:
            raise ArgumentError(
                f"[{type(self).__name__}] state: expected what create_state returns, got None"
            )
        return state

    def _keeps_copy(self, weight: NDArray) -> bool:
        return self.multi_precision and np.dtype(weight.dtype).name in _SHORT_TYPES

    def _take_dumped(self, values: Mapping[Any, Any], indices: Iterable[Index]) -> None:
        """What a dumped optimizer of MXNet remembers of the steps of parameters, beside their number."""

    def make_updater(self) -> Updater:
        """The updater a KVStore calls."""
        return Updater(self)

    # ---- rates ----

    @property
    def learning_rate(self) -> float:
        """The present learning rate."""
        return self.lr_scheduler(self.num_update) if self.lr_scheduler is not None else self.lr

    def set_learning_rate(self, lr: float) -> None:
        """Sets the learning rate; not possible with a scheduler."""
        if self.lr_scheduler is not None:
            raise UserWarning("LRScheduler of the optimizer has already been defined.")
        self.lr = lr

    def set_lr_mult(self, args_lr_mult: Mapping[Index, float]) -> None:
        """Factors of the rate by parameter name or index, above the symbol's own."""
        self.lr_mult = self._symbol_mult("__lr_mult__") | dict(args_lr_mult)

    def set_wd_mult(self, args_wd_mult: Mapping[Index, float]) -> None:
        """Factors of the decay; 0 for names that do not end in _weight or _gamma, in LARS in _weight."""
        self.wd_mult = {n: 0.0 for n in self.idx2name.values() if not n.endswith(self._decaying)}
        self.wd_mult |= self._symbol_mult("__wd_mult__") | dict(args_wd_mult)

    def _symbol_mult(self, key: str) -> dict[Index, float]:
        if not self.sym_info:
            return {}
        attributes, arguments = self.sym_info
        return {n: float(attributes[n][key]) for n in arguments if key in attributes.get(n, {})}

    @property
    def _index_update_count(self) -> dict[Index, int]:
        """How often each weight was updated."""
        self._settle_counts()
        counts: dict[Index, int] = vars(self)["_index_update_count"]
        return counts

    @_index_update_count.setter
    def _index_update_count(self, counts: dict[Index, int]) -> None:
        self._settle_counts()
        vars(self)["_index_update_count"] = counts

    def _settle_counts(self) -> None:
        ahead: HeldNumbers | None = vars(self).pop("_counted_ahead", None)
        if ahead is not None:
            ahead.settle()

    def __getstate__(self) -> dict[str, Any]:
        self._settle_counts()
        return dict(vars(self))

    def _rate_factor(self, count: int) -> float:
        """Of the rates of all weights, at update `count` of each."""
        return 1.0

    def _update_count(self, index: Index | Sequence[Index]) -> None:
        counts, most = self._index_update_count, self.num_update
        for i in index if isinstance(index, (list, tuple)) else (index,):
            counts[i] = count = counts.get(i, self.begin_num_update) + 1
            if count > most:
                most = count
        self.num_update = most

    def _mult(self, index: Index, table: Mapping[Index, float], attribute: str) -> float:
        if index in self.param_dict:
            return float(getattr(self.param_dict[index], attribute))
        if index in table:
            return table[index]
        return table.get(self.idx2name.get(index, index), 1.0)

    def _mults(self, indices: Sequence[Index], table: Mapping[Index, float], attribute: str) -> list[float]:
        known = self.param_dict
        return [
            float(getattr(known[i], attribute)) if i in known else self._mult(i, table, attribute)
            for i in indices
        ]

    def _get_lr(self, index: Index) -> float:
        return self.learning_rate * self._mult(index, self.lr_mult, "lr_mult")

    def _get_wd(self, index: Index) -> float:
        return self.wd * self._mult(index, self.wd_mult, "wd_mult")

    def _get_lrs(self, indices: Sequence[Index]) -> list[float]:
        return [self._get_lr(index) for index in indices]

    def _get_wds(self, indices: Sequence[Index]) -> list[float]:
        return [self._get_wd(index) for index in indices]

    def _common(self, index: Index) -> dict[str, float]:
        """Counts the update; rate, decay, scale and limit for an update operator."""
        self._update_count(index)
        made = {"lr": self._get_lr(index), "wd": self._get_wd(index), "rescale_grad": self.rescale_grad}
        if self.clip_gradient:  # as in MXNet, 0 is no limit where one operator does the update
            made["clip_gradient"] = self.clip_gradient
        return made

    def _scaled(self, grad: NDArray, common: Mapping[str, float], zero_limits: bool = True) -> NDArray:
        """The gradient, scaled and limited; a limit of 0 or less is none for some optimizers of MXNet."""
        g: NDArray = grad * common["rescale_grad"]
        if self.clip_gradient is None or (self.clip_gradient <= 0 and not zero_limits):
            return g
        limited: NDArray = nd.clip(g, -self.clip_gradient, self.clip_gradient)
        return limited

    def _decayed(
        self, grad: NDArray, weight: NDArray, common: Mapping[str, float], decay_first: bool = True
    ) -> NDArray:
        """The gradient, scaled, with the decay, and limited; the limit is for both if `decay_first`."""
        if not decay_first:
            return self._scaled(grad, common) + common["wd"] * weight
        g: NDArray = grad * common["rescale_grad"] + common["wd"] * weight
        return g if self.clip_gradient is None else nd.clip(g, -self.clip_gradient, self.clip_gradient)


register = Optimizer.register


def create(name: str | Optimizer, **kwargs: Any) -> Optimizer:
    """An optimizer by name (`sgd`, `adam`, …), with its arguments."""
    return Optimizer.create_optimizer(name, **kwargs)


class Updater(WithStates):
    """Applies an optimizer to weights by index and keeps their states; what a KVStore calls.

    Threads: one at a time.
    """

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = optimizer
        self.states = {}
        self.states_synced: dict[Index, bool] = {}
        #: whether somebody sets the optimizer's `rescale_grad` before each update
        self.rescaled = False

    def __call__(
        self,
        index: Index | Sequence[Index],
        grad: NDArray | Sequence[NDArray],
        weight: NDArray | Sequence[NDArray],
    ) -> None:
        """Updates `weight` in place, or all of a list; asynchronous. An update that raises does not count.

        Raises
        ------
        ArgumentError
            There are not as many indices, gradients and weights. The states were loaded, and that of `index` has other
            arrays or shapes than `create_state` gives.
        """
        if not isinstance(index, (list, tuple)):
            state = self._ready_state(index, weight)  # type: ignore[arg-type]
            with counted_if_done(self.optimizer, (index,)):  # type: ignore[arg-type]
                self.optimizer.update_multi_precision(index, weight, grad, state)  # type: ignore[arg-type]
            return
        if not len(index) == len(grad) == len(weight):
            raise ArgumentError(
                f"[Updater] expected as many gradients and weights as indices, got {len(index)}, {len(grad)} and "
                f"{len(weight)}"
            )
        states = [self._ready_state(*each) for each in zip(index, weight, strict=True)]
        if index:
            with counted_if_done(self.optimizer, index):
                self.optimizer.update_together(index, weight, grad, states)  # type: ignore[arg-type]

    def _ready_state(self, index: Index, weight: NDArray) -> State:
        """The state of a weight, made at its first update, or taken from those that were loaded."""
        if index not in self.states and not self._take_named(index):
            self.states[index] = self.optimizer.create_state_multi_precision(index, weight)
            self.states_synced[index] = True
        elif not self.states_synced.get(index, True):
            self._check_form(index, weight, self.states[index])
            self.states[index] = _to_context(self.states[index], weight.context)
            self.states_synced[index] = True
        return self.states[index]

    def _check_form(self, index: Index, weight: NDArray, state: State) -> None:
        """Refuses a loaded state that the optimizer would not have made for the weight."""
        expected = self.optimizer.create_state_multi_precision(index, weight)
        parameter = self.optimizer.param_dict.get(index)
        name = self.optimizer.idx2name.get(index, getattr(parameter, "name", index))
        check_form(state, expected, f"[{type(self.optimizer).__name__}] state of {name!r}")

    def _take_named(self, index: Index) -> bool:
        """The state under the parameter's other name: MXNet has names in files of trainings on several devices."""
        if isinstance(index, str):
            others = [i for i, name in self.optimizer.idx2name.items() if name == index and i in self.states]
        else:
            others = [name for name in (self.optimizer.idx2name.get(index),) if name in self.states]
        if not others:
            return False
        remembered = (getattr(self.optimizer, attribute) for attribute in self.optimizer._remembered)
        for table in (self.states, self.states_synced, self.optimizer._index_update_count, *remembered):
            if others[0] in table:
                table[index] = table.pop(others[0])
        return True

    def take_first_of_each(self, parameters: int) -> None:
        """Of loaded states that MXNet keeps for each of several devices, keeps those of the first.

        The number of devices follows from the largest key, which is `number of the parameter * devices + device`, if
        the states of each parameter have the same shapes. Otherwise nothing is changed.

        Parameters
        ----------
        parameters : int
            How many there are, or more.
        """
        keys = [key for key in self.states if isinstance(key, int)]
        devices = max(keys, default=0) // max(parameters, 1) + 1
        alike = (same_form(self.states.get(key - key % devices), self.states[key]) for key in keys)
        if devices == 1 or not all(alike):
            return
        for table in (self.states, self.states_synced):
            kept: dict[Any, Any] = {
                key // devices if isinstance(key, int) else key: value
                for key, value in table.items()
                if not isinstance(key, int) or key % devices == 0
            }
            table.clear()
            table.update(kept)

    def get_states(self, dump_optimizer: bool = False) -> bytes:
        """All states and update counts as bytes, in MXNet's form (a pickled dict of NDArrays), which MXNet 1.9.1 reads.

        MXNet passes the counts over: they stand under a key that no parameter has. So do the names of the optimizer's
        classes and what LARS and LBSGD remember of each parameter.

        Parameters
        ----------
        dump_optimizer : bool
            Add the optimizer's plain attributes, under the name of the nearest class of mx that it is or extends. Then
            only mx reads the bytes.

        Raises
        ------
        ArgumentError  a state is neither an NDArray, a number, text, None nor a container of these
        """
        states = dict(self.states)
        states[_CLASSES] = names_of(type(self.optimizer), Optimizer)
        states[_COUNTS] = dict(self.optimizer._index_update_count)
        if kept := self.optimizer._remembered:
            states[_MEMORY] = {name: dict(getattr(self.optimizer, name)) for name in kept}
        return dump_states(states, self.optimizer if dump_optimizer else None)

    def set_states(self, states: bytes | bytearray, weights: Mapping[Index, NDArray] | None = None) -> None:
        """Takes states that `get_states` (or MXNet) wrote, and the update counts where they are among them.

        A warning is logged if the dumped optimizer has other settings than the one used, which keeps its own.

        Only arrays, numbers, strings and containers are accepted: no code is executed.

        Parameters
        ----------
        states : bytes
        weights : mapping of index to NDArray, optional
            For which what their first updates would raise is raised before anything is taken.

        Raises
        ------
        ArgumentError
            They are of another optimizer: neither is its class the one used, nor does one extend the other. Classes
            outside of mx that have other names, but extend the same optimizer, share states with a warning, unless an
            optimizer is registered under the name in the file. Files without the name of a class, such as MXNet's, are
            compared with what `create_state` gives, at the first update of each parameter.
        FileFormatError
            The bytes are corrupt or hold anything else; the message has the byte at which the reader stopped.
        """
        loaded, remembered, counts, settings = self._read(states)
        for index, weight in (weights or {}).items():
            if index in loaded:
                self._check_form(index, weight, loaded[index])
        if settings is not None:
            self._tell_of(settings)
        if counts is not None:
            self._take_counts(counts)
        for name, values in remembered.items():
            setattr(self.optimizer, name, values)
        if settings is not None:
            self.optimizer._take_dumped(settings.values, loaded)
        self.states = loaded
        self.states_synced = dict.fromkeys(loaded, False)

    def check_states(self, states: bytes | bytearray) -> None:
        """Raises what `set_states` raises, and takes nothing."""
        self._read(states)

    def _read(
        self, states: bytes | bytearray
    ) -> tuple[dict[Index, State], dict[str, dict[Index, Any]], dict[Index, int] | None, Settings | None]:
        """States, what the optimizer remembered, counts of updates, and a dumped optimizer; all are checked."""
        loaded = read_states(states)
        settings = None
        if isinstance(loaded, tuple) and len(loaded) == 2 and isinstance(loaded[0], dict):
            loaded, settings = loaded
        if not isinstance(loaded, dict):
            raise FileFormatError(f"optimizer states: expected a dict, got {type(loaded).__name__}")
        settings = settings if isinstance(settings, Settings) else None
        self._check_class(loaded.pop(_CLASSES, None), settings)
        remembered = self._remembered(loaded.pop(_MEMORY, None))
        counts = _counts(loaded.pop(_COUNTS, None))
        if counts is None and settings is not None:
            counts = _counts(settings.values.get("_index_update_count"))
        return loaded, remembered, counts, settings

    def _check_class(self, names: object, settings: object) -> None:
        """Refuses the states of another optimizer, where they or what was dumped with them say whose they are."""
        if names is None and isinstance(settings, Settings):
            names = names_of_dumped(settings.kind, Optimizer)
        if names is not None:
            check_names(names, type(self.optimizer), Optimizer, Optimizer.opt_registry)

    def _tell_of(self, settings: Settings) -> None:
        """Warns if an optimizer that was saved with the states has other settings than the one used."""
        differences = settings.differences(self.optimizer)
        if self.rescaled:
            differences = [each for each in differences if not each.startswith("rescale_grad ")]
        if differences:
            logging.warning(
                "The optimizer saved with the states is not used, only its update counts: %s",
                "; ".join(differences),
            )

    def _take_counts(self, counts: dict[Index, int]) -> None:
        """The numbers of updates that were saved with the states."""
        self.optimizer._index_update_count = counts
        self.optimizer.num_update = max([self.optimizer.begin_num_update, *counts.values()])
        if isinstance(self.optimizer.lr_scheduler, LRScheduler):
            self.optimizer.lr_scheduler.rewind(self.optimizer.num_update)

    def _remembered(self, memory: object) -> dict[str, dict[Index, Any]]:
        """What the optimizer remembered of each parameter, by attribute, when the states were saved; or nothing."""
        saved = memory if isinstance(memory, dict) else {}
        found = {}
        for name, kind in self.optimizer._remembered.items():
            values = found[name] = saved.get(name, {})
            if not isinstance(values, dict) or not all(isinstance(value, kind) for value in values.values()):
                raise FileFormatError(
                    f"optimizer states: {name}: expected a dict of {kind.__name__}, got {values!r}"
                )
        return found


def _counts(saved: object) -> dict[Index, int] | None:
    """Numbers of updates by parameter, as they were saved; None where none were."""
    if saved is None:
        return None
    if not isinstance(saved, dict) or not all(type(n) is int and 0 <= n < 2**63 for n in saved.values()):
        raise FileFormatError(
            f"optimizer states: expected counts of updates by parameter, got {saved!r:.200}"
        )
    return dict(saved)


def _to_context(state: State, context: Context) -> State:
    if isinstance(state, NDArray):
        return state.as_in_context(context)
    if isinstance(state, (tuple, list)):
        return type(state)(_to_context(part, context) for part in state)
    return state


def get_updater(optimizer: Optimizer) -> Updater:
    """An Updater for an optimizer."""
    return Updater(optimizer)


def zeros_like(weight: NDArray) -> NDArray:
    """A state of zeros."""
    return nd.zeros(weight.shape, ctx=weight.context, dtype=weight.dtype)
