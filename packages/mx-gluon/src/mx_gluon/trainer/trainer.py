# SPDX-License-Identifier: Apache-2.0
"""Trainer: sums gradients over contexts and workers, and steps an optimizer."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Callable, Container, Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Any, NoReturn

from mx_core import dtypes
from mx_core.context import Context, gpu
from mx_core.errors import ArgumentError, MXNetError
from mx_core.files import atomic_write, read_bytes
from mx_gluon.errors import RefusedError, StaleGradientError
from mx_gluon.parameter import Parameter, ParameterDict
from mx_gluon.parameter.collected import Collected, present
from mx_gluon.trainer.captured import HeldByTrainer
from mx_gluon.trainer.updates import Replicas, Work
from mx_kvstore import KVStoreBase
from mx_kvstore.factory import check
from mx_kvstore.updater import load_states
from mx_ndarray import NDArray
from mx_ndarray.captured import captured_step
from mx_ndarray.several import first_stale, make_stale
from mx_train import optimizer as opt
from mx_train.module.optimization import runs_in, store_for
from mx_train.optimizer import Optimizer, Updater
from mx_train.optimizer.held_step import overrides

#: what `step` calls
_STEPS = ("step", "_update", "_apply", "_allreduce_grads")


class Trainer:
    """Applies an optimizer to parameters, with the gradients of all contexts.

    Threads: one at a time.

    Parameters
    ----------
    params : ParameterDict, dict or sequence of Parameter
        Of a dictionary in the order of their names.
    optimizer : str or Optimizer
    optimizer_params : dict, optional
        Arguments of an optimizer given by name.
    kvstore : str, KVStoreBase or None
        What sums gradients. Local ones are not used with one context. None leaves each context alone.
    compression_params : dict, optional
        How a store over a network compresses gradients.
    update_on_kvstore : bool, optional
        Whether the store runs the optimizer; by default if it can and MXNET_UPDATE_ON_KVSTORE is not 0.

    Raises
    ------
    ArgumentError  `params` is something else, or empty; there is no such store
    RefusedError   contexts of parameters differ; `optimizer_params` for an optimizer that is there already

    Examples
    --------
    >>> trainer = Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    >>> with autograd.record():
    ...     loss = loss_function(net(x), y)
    >>> loss.backward()
    >>> trainer.step(batch_size=len(x))
    """

    #: what the step that runs updates; outside of steps None, which is everything
    _summed: Sequence[int] | None = None
    #: whether a step has said by what gradients are divided, which a distributed store is told once
    _divided = False
    #: states that were loaded before that, where the store keeps them
    _loaded: bytes | None = None

    def __init__(
        self,
        params: ParameterDict | Mapping[str, Parameter] | Sequence[Parameter],
        optimizer: str | Optimizer,
        optimizer_params: Mapping[str, Any] | None = None,
        kvstore: str | KVStoreBase | None = "device",
        compression_params: Mapping[str, Any] | None = None,
        update_on_kvstore: bool | None = None,
    ) -> None:
        if isinstance(params, (ParameterDict, Mapping)):
            params = [params[name] for name in sorted(params.keys())]
        if not isinstance(params, (list, tuple)):
            what = f"[Trainer] params: expected a list or dict of Parameters, got {params!r}"
            raise ArgumentError(
                what + ("; give its collect_params()" if hasattr(params, "collect_params") else "")
            )
        for param in params:
            if not isinstance(param, Parameter):
                raise ArgumentError(f"[Trainer] params: expected Parameters, got {param!r} among them")
            param._add_trainer(self)
        if not params:
            raise ArgumentError(
                "[Trainer] params: expected at least one Parameter, got none; collect_params() of a block has those of "
                "the blocks within, unlike `params`, if its pattern selects them"
            )
        self._params: list[Parameter] = list(params)
        first = {id(param): i for i, param in reversed(list(enumerate(params)))}
        #: places of parameters that were given before, which are updated once
        self._repeated = {i for i, param in enumerate(params) if first[id(param)] != i}
        self._contexts = self._check_contexts()
        self._places_known = True
        self._known: Collected[list[Work]] = Collected()
        self._optimizer = self._made_optimizer(optimizer, optimizer_params)
        self._replicas = Replicas(self._optimizer, len(self._contexts))
        self._scale = self._optimizer.rescale_grad
        check(kvstore)  # one with a name is made by the first step
        self._wanted_store = kvstore
        self._wanted_place = update_on_kvstore
        self._compression_params = compression_params
        self._reset_kvstore()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for param in self._params:
            param._add_trainer(self)

    def _check_contexts(self) -> list[Context]:
        contexts: list[Context] | None = None
        for param in self._params:
            own = param.list_ctx()
            if contexts is not None and contexts != own:
                raise RefusedError(
                    f"[Trainer] all parameters must be on the same contexts: {param.name} is on {own}, "
                    f"{self._params[0].name} on {contexts}"
                )
            contexts = own
        return contexts or []

    def _made_optimizer(self, given: str | Optimizer, arguments: Mapping[str, Any] | None) -> Optimizer:
        by_index: dict[int | str, Parameter] = dict(enumerate(self._params))
        if not isinstance(given, Optimizer):
            return opt.create(given, param_dict=by_index, **(arguments or {}))
        if arguments:
            raise RefusedError(
                f"[Trainer] optimizer_params: expected None for an {type(given).__name__} that is made already, got "
                f"{dict(arguments)}"
            )
        given.param_dict = by_index
        return given

    # ---- the store ----

    def _reset_kvstore(self) -> None:
        """Starts with a new store at the next step."""
        if getattr(self, "_kvstore", None) is not None and "dist" in self._kvstore.type:  # type: ignore[union-attr]
            raise MXNetError("[Trainer] the values in a distributed KVStore cannot be replaced")
        self._kv_initialized = False
        self._kvstore: KVStoreBase | None = None
        self._update_on_kvstore = False
        self._params_to_init = dict(enumerate(self._params))
        self._types: list[int] = []
        self._types_known = True

    def _values_changed(self, param: Parameter) -> None:
        """Tells the trainer that a program has set a parameter, which the store may hold."""
        if self._kv_initialized and self._update_on_kvstore:
            known = [each for i, each in enumerate(self._params) if i not in self._params_to_init]
            if any(each is param for each in known):
                self._reset_kvstore()

    def _ready(self) -> None:
        """Makes the store, and gives it parameters that have values by now."""
        if not self._places_known:
            self._follow()
        if not self._types_known:
            self._check_types()
        if not self._kv_initialized:
            self._init_kvstore()
        waiting = {}
        for key, param in self._params_to_init.items():
            if param._deferred_init is not None:
                waiting[key] = param
            elif self._kvstore is not None:
                arrays = param.list_data()
                self._kvstore.broadcast(key, arrays[0].copy(), out=arrays)
        self._params_to_init = waiting

    def _follow(self) -> None:
        """Takes the contexts that parameters were moved to; states go with them."""
        contexts = self._check_contexts()
        if contexts != self._contexts:
            states = self._replicas.states()
            self._replicas = Replicas(self._optimizer, len(contexts))
            self._replicas.set_states(states)
            self._contexts = contexts
            if self._kv_initialized and self._kvstore is None:  # the states are here, so updates stay here
                self._wanted_place = False
                self._reset_kvstore()
        self._places_known = True

    def _check_types(self) -> None:
        """Refuses parameters that were cast after the optimizer had made states of the former type."""
        for i, (param, before) in enumerate(zip(self._params, self._types, strict=False)):
            now = dtypes.code(param.dtype, f"[Trainer] {param.name}")
            if now != before and (self._update_on_kvstore or not self._replicas.forget(i)):
                raise RefusedError(
                    f"[Trainer] {param.name} was cast from {dtypes.name(before)} to {dtypes.name(now)} after the "
                    "optimizer had begun with it; make a new Trainer, whose states begin anew"
                )
        if self._kv_initialized:
            self._reset_kvstore()
        self._types_known = True

    def _init_kvstore(self) -> None:
        store = store_for(self._wanted_store, len(self._contexts))
        in_store = self._place(store) if store is not None else False
        if store is not None:
            if self._compression_params:
                store.set_gradient_compression(self._compression_params)
            if in_store:
                store.set_optimizer(self._optimizer)
        self._types = [dtypes.code(param.dtype, f"[Trainer] {param.name}") for param in self._params]
        self._kvstore, self._update_on_kvstore = store, in_store
        self._kv_initialized = True

    def _place(self, store: KVStoreBase) -> bool:
        """Whether the store runs the optimizer."""
        capable = store.is_capable(KVStoreBase.OPTIMIZER)
        asynchronous = "dist" in store.type and "async" in store.type
        wanted = self._wanted_place
        if wanted is False and asynchronous:
            raise ArgumentError(
                f"[Trainer] update_on_kvstore: a store of type {store.type!r} needs True, got False"
            )
        if wanted and not capable:
            raise ArgumentError(
                f"[Trainer] update_on_kvstore: {type(store).__name__} {store.type!r} runs no optimizers, got True"
            )
        if wanted is not None:
            return wanted
        return runs_in(store, (math.prod(param.shape or ()) for param in self._params))

    @property
    def _updaters(self) -> list[Updater]:
        return self._replicas.updaters

    # ---- rates ----

    @property
    def optimizer(self) -> Optimizer:
        """The optimizer."""
        return self._optimizer

    @property
    def learning_rate(self) -> float:
        """The present learning rate."""
        return self._optimizer.learning_rate

    def set_learning_rate(self, lr: float) -> None:
        """Sets the learning rate; not possible with a scheduler."""
        self._optimizer.set_learning_rate(lr)

    # ---- steps ----

    def step(self, batch_size: float, ignore_stale_grad: bool = False) -> None:
        """Sums gradients over contexts and workers, and updates the parameters; asynchronous.

        Parameters
        ----------
        batch_size : float
            By which gradients are divided: of all contexts of this worker together.
        ignore_stale_grad : bool
            Leave out parameters whose gradient no backward has written since the last step, instead of raising. Where
            contexts are summed, one without a gradient counts as 0 next to others that have one.

        Raises
        ------
        ArgumentError                `batch_size` is 0, nan or no number
        RefusedError                 parameters were moved to different contexts
        StaleGradientError           there are such parameters; nothing is updated
        DeferredInitializationError  a parameter has no values yet
        """
        self._rescale(batch_size)
        self._ready()
        work = self._work(ignore_stale_grad)
        self._summed = work[0][0] if work else ()
        try:
            self._allreduce_grads()
        finally:
            self._summed = None
        if type(self)._update is Trainer._update:
            self._apply(work)
        else:  # of a program's class
            self._update(ignore_stale_grad)

    def captured_step(
        self, forward: Callable[..., Any], batch_size: float, ctx: Context | None = None
    ) -> Callable[..., Any]:
        """A step of training that a GPU takes as a whole, as a CUDA graph, from its second call on.

        Parameters
        ----------
        forward : function
            Takes the arrays of a batch on the GPU and runs forward and backward; what it returns, the step returns. It
            runs in the first two calls only (three where the first batch tells the shapes of parameters), so it must do
            the same whatever the arrays hold.
        batch_size : float
            As for `step`.
        ctx : Context
            gpu(0) by default; the parameters must be on it alone.

        Returns
        -------
        callable
            Called with the arrays of a batch, on any device and always of the same shapes: `forward`, then
            `step(batch_size)`. Rates and schedules are followed. Where parameters get other arrays or requests, or
            states are replaced, the step is captured anew.

        Raises
        ------
        RefusedError  the parameters are elsewhere
        MXNetError    the device captures no steps, or is not there

        Examples
        --------
        >>> step = trainer.captured_step(forward, batch_size=32)
        >>> for x, label in batches:
        ...     loss = step(x, label)
        """
        context = gpu() if ctx is None else ctx
        if self._contexts != [context]:
            raise RefusedError(
                f"[Trainer] captured_step: expected parameters on {context}, got {self._contexts}"
            )
        held = HeldByTrainer(self, context, batch_size)
        return captured_step(
            forward, lambda: self.step(batch_size), weights=held.weights, held=held, ctx=context
        )

    def _steps_plainly(self) -> bool:
        """Whether steps are those of this class, without a store."""
        return self._kvstore is None and not overrides(self, Trainer, _STEPS)

    def allreduce_grads(self) -> None:
        """Sums gradients over contexts and workers, without an update: `update` does that; asynchronous.

        Raises
        ------
        RefusedError  the store runs the optimizer
        """
        self._ready()
        self._refuse_in_store("allreduce_grads")
        self._allreduce_grads()

    def update(self, batch_size: float, ignore_stale_grad: bool = False) -> None:
        """Updates parameters with the gradients as they are: `step` without the sum; asynchronous.

        Parameters
        ----------
        batch_size, ignore_stale_grad : as in `step`

        Raises
        ------
        RefusedError        the store runs the optimizer
        StaleGradientError  as in `step`
        """
        self._ready()
        self._refuse_in_store("update")
        self._rescale(batch_size)
        self._update(ignore_stale_grad)

    def _refuse_in_store(self, what: str) -> None:
        if self._update_on_kvstore:
            raise RefusedError(
                f"[Trainer] {what}: the store runs the optimizer; make the Trainer with update_on_kvstore=False"
            )

    def _rescale(self, batch_size: float) -> None:
        if not isinstance(batch_size, (int, float, Real)) or batch_size == 0 or math.isnan(batch_size):
            raise ArgumentError(f"[Trainer] batch_size: expected the number of examples, got {batch_size!r}")
        scale = self._scale / batch_size
        store = self._kvstore
        in_network = self._update_on_kvstore and store is not None and "dist" in store.type
        if in_network and self._optimizer.rescale_grad != scale:
            if self._divided:
                raise StaleGradientError(
                    f"[Trainer] batch_size: the distributed store divides gradients by "
                    f"{self._scale / self._optimizer.rescale_grad:g} since the first step, got {batch_size}"
                )
            self._optimizer.rescale_grad = scale
            self._tell_store()
        self._optimizer.rescale_grad = scale
        self._divided = True
        self._loaded = None

    def _tell_store(self) -> None:
        """Gives the optimizer to a store that has it already, as states were loaded or saved before the first step."""
        assert self._kvstore is not None
        self._kvstore.set_optimizer(self._optimizer)
        if self._loaded is None:
            return
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "states"
            path.write_bytes(self._loaded)
            self._kvstore.load_optimizer_states(str(path))

    def _learned(self) -> list[Work]:
        """For each context all parameters that have gradients, each once."""
        known = self._known.get(None)
        if known is not None:
            return known
        version = present()
        learned = [(i, param) for i, param in enumerate(self._params) if param.grad_req != "null"]
        arrays = [
            (i, param.list_data(), param.list_grad()) for i, param in learned if i not in self._repeated
        ]
        listed = []
        for place, _ in enumerate(self._contexts):
            each = [(i, grads[place], weights[place]) for i, weights, grads in arrays]
            listed.append(_columns(each))
        self._known.put(version, None, listed)
        return listed

    def _work(self, ignore_stale_grad: bool) -> list[Work]:
        """For each context what is to be updated."""
        learned = self._learned()
        stale = [first_stale(weights) for _, _, weights in learned]
        all_fresh = max(stale, default=-1) < 0
        if all_fresh and not self._repeated:
            return learned
        if not ignore_stale_grad:
            for place, (indices, _, weights) in zip(stale, learned, strict=True):
                if place >= 0:
                    told = "no backward has written it since the last step: the loss does not depend on the parameter"
                    self._raise_stale(indices[place], weights[place].context, told)
            for i in sorted(self._repeated):
                if self._params[i].grad_req != "null":
                    self._raise_stale(i, self._contexts[0], "the parameter was given to the Trainer twice")
        if all_fresh:
            return learned
        fresh = [[weight._fresh_grad for weight in weights] for _, _, weights in learned]
        if self._kvstore is not None:  # all copies get the sum
            fresh = [[any(flags) for flags in zip(*fresh, strict=True)]] * len(fresh)
        return [
            _columns([row for row, kept in zip(zip(*each, strict=True), flags, strict=True) if kept])
            for each, flags in zip(learned, fresh, strict=True)
        ]

    def _raise_stale(self, index: int, ctx: Context, told: str) -> NoReturn:
        raise StaleGradientError(
            f"[Trainer] gradient of {self._params[index].name} on {ctx}: {told}; ignore_stale_grad=True leaves such "
            "parameters out"
        )

    def _allreduce_grads(self) -> None:
        """Sums gradients. Classes of programs that sum in another way override it, so each step calls it."""
        if self._kvstore is None:
            return
        indices = self._given_to(self._kvstore)
        for i, param in enumerate(self._params):
            if param.grad_req == "null" or i not in indices or i in self._repeated:
                continue
            weights, grads = param.list_data(), param.list_grad()
            fresh = [weight._fresh_grad for weight in weights]
            if any(fresh):
                for grad in (grad for grad, is_fresh in zip(grads, fresh, strict=True) if not is_fresh):
                    grad[:] = 0  # left over from another step
            if self._update_on_kvstore:
                self._kvstore.pushpull(i, grads, out=weights, priority=-i)
            else:
                self._kvstore.sum(i, grads, priority=-i)

    def _given_to(self, store: KVStoreBase) -> Container[int]:
        """Parameters whose gradients a store gets: in a step those that it updates."""
        if self._summed is None or "dist" in store.type:  # other workers may wait for each of them
            return range(len(self._params))
        return set(self._summed)

    def _update(self, ignore_stale_grad: bool = False) -> None:
        """Programs call it after `_allreduce_grads`, by MXNet's name, and their classes override it."""
        self._apply(self._work(ignore_stale_grad))

    def _apply(self, work: list[Work]) -> None:
        for place, each in enumerate(work):
            if not self._update_on_kvstore:
                self._replicas.update(place, each)
            make_stale(each[2])

    # ---- files ----

    def save_states(self, fname: str | os.PathLike[str]) -> None:
        """Writes the optimizer's states, which MXNet reads, too; atomically. Blocks until they are computed.

        Raises
        ------
        RefusedError  the store has not got all parameters yet
        """
        self._ready()
        if not self._update_on_kvstore:
            with atomic_write(fname) as file:
                file.write(self._replicas.states())
            return
        if self._params_to_init:
            waiting = ", ".join(param.name for param in self._params_to_init.values())
            raise RefusedError(f"[Trainer] save_states: {waiting} have no values yet")
        assert self._kvstore is not None
        self._kvstore.save_optimizer_states(str(fname))

    def load_states(self, fname: str | os.PathLike[str]) -> None:
        """Takes states that `save_states` or MXNet wrote; the optimizer keeps its settings, such as its rate.

        Raises
        ------
        MissingFileError, FileFormatError, ArgumentError
            There is no such file, it is damaged, or its states are of another optimizer.
        """
        self._ready()
        if not self._update_on_kvstore:
            load_states(self._replicas.set_states, str(fname))
            return
        assert self._kvstore is not None
        self._kvstore.load_optimizer_states(str(fname))
        if not self._divided:
            self._loaded = bytes(read_bytes(fname))


def _columns(rows: list[tuple[int, NDArray, NDArray]]) -> Work:
    """Indices, gradients and weights."""
    return (
        tuple(i for i, _, _ in rows),
        tuple(grad for _, grad, _ in rows),
        tuple(weight for _, _, weight in rows),
    )
