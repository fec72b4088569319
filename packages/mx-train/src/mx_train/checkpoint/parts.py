# SPDX-License-Identifier: Apache-2.0
"""What a checkpoint has of a network and its optimizer: a Module, or a block of Gluon with its Trainer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from mx_core import drafts
from mx_core.context import Context
from mx_core.errors import ArgumentError, FileFormatError, MXNetError
from mx_core.files import atomic_write, read_bytes
from mx_ndarray import NDArray
from mx_train.optimizer import Optimizer, Updater

#: name -> the arrays of all contexts
Arrays = dict[str, list[NDArray]]


class Parts(Protocol):
    """A network and its optimizer."""

    def contexts(self) -> list[Context]:
        """Where they are."""

    def arrays(self) -> Arrays:
        """Parameters and auxiliary states, and gradients that are being summed up."""

    def give(self, arrays: Mapping[str, list[NDArray]]) -> None:
        """Takes the values of other arrays."""

    def states(self, near: Path) -> bytes:
        """The optimizer's states; a folder for a file of them is made next to `near`."""

    def give_states(self, states: bytes, near: Path) -> None:
        """Takes states of the optimizer, which the file `near` has."""

    @property
    def optimizer(self) -> Optimizer | None:
        """The optimizer."""

    @property
    def loss_scale(self) -> Any:
        """What scales the loss of a training in float16; None without."""


def parts_of(network: Any, trainer: Any) -> Parts:
    """The parts of a Module, or of a block with its Trainer.

    Raises
    ------
    ArgumentError  they are something else
    """
    if trainer is None and hasattr(network, "init_optimizer"):
        if hasattr(network, "_exec_group"):
            return _Module(network)
        if hasattr(network, "switch_bucket"):
            return _BucketingModule(network)
    if hasattr(network, "collect_params") and hasattr(trainer, "save_states"):
        return _Block(network, trainer)
    raise ArgumentError(
        f"[checkpoint.Training] expected a Module, or a block and its Trainer, got {network!r:.80} and {trainer!r:.80}"
    )


def _read_back(save: Any, near: Path) -> bytes:
    with drafts.folder_for(near) as folder:
        save(str(folder / "states"))
        return bytes(read_bytes(folder / "states"))


def _written(load: Any, states: bytes, near: Path) -> None:
    with drafts.folder_for(near) as folder:
        with atomic_write(folder / "states") as file:
            file.write(states)
        try:
            load(str(folder / "states"))
        except (ArgumentError, FileFormatError) as error:
            kind = ArgumentError if isinstance(error, ArgumentError) else FileFormatError
            raise kind(str(error).replace(str(folder / "states"), str(near))) from error


def _check(given: Mapping[str, list[NDArray]], own: Mapping[str, Any]) -> None:
    for name, arrays in given.items():
        if name.startswith("gradient:"):
            continue
        if name not in own:
            raise ArgumentError(
                f"[checkpoint.Training] the checkpoint has {name!r}, which this network has not"
            )
        if len(arrays) != len(own[name]):
            raise ArgumentError(
                f"[checkpoint.Training] {name!r}: the checkpoint has it of {len(arrays)} contexts, expected "
                f"{len(own[name])}"
            )
    if missing := [name for name in own if name not in given]:
        raise ArgumentError(f"[checkpoint.Training] the checkpoint has no {', '.join(missing)}")


def _check_like(name: str, saved: NDArray, shape: Any, dtype: Any) -> None:
    """Shapes may have unknown lengths, which are 0 or below, or be unknown; a type may be None."""
    known = not shape or (
        len(shape) == saved.ndim and all(a <= 0 or a == b for a, b in zip(shape, saved.shape, strict=True))
    )
    kind = None if dtype is None else np.dtype(dtype)
    if not known or kind not in (None, np.dtype(saved.dtype)):
        expected = ", ".join([*([f"shape {shape}"] if shape else []), *([f"type {kind}"] if kind else [])])
        raise ArgumentError(
            f"[checkpoint.Training] {name}: expected {expected}; the checkpoint has shape {saved.shape}, type "
            f"{np.dtype(saved.dtype)}"
        )


def check_states(optimizer: Optimizer | str | None, states: bytes) -> None:
    """Refuses states that are known to be of another optimizer. What a store writes in a form of its own passes."""
    kind = Optimizer.opt_registry.get(optimizer) if isinstance(optimizer, str) else type(optimizer)
    if states and isinstance(kind, type) and issubclass(kind, Optimizer):
        with suppress(FileFormatError):
            Updater(kind.__new__(kind)).check_states(states)


class _Module:
    """A Module. Threads: one at a time."""

    def __init__(self, module: Any) -> None:
        self._network = module
        self._given = False

    @property
    def _module(self) -> Any:
        return self._network

    @property
    def optimizer(self) -> Optimizer | None:
        found: Optimizer | None = self._module._optimizer
        return found

    @property
    def loss_scale(self) -> Any:
        return None

    def contexts(self) -> list[Context]:
        return list(self._module._context)

    def _groups(self) -> Iterator[tuple[str, str, list[str]]]:
        yield "", "arg_dict", self._module._param_names
        yield "", "aux_dict", self._module._aux_names
        summed = [name for name, request in self._module._reqs.items() if request == "add"]
        yield "gradient:", "grad_dict", summed

    def arrays(self) -> Arrays:
        if not self._module.params_initialized:
            raise MXNetError("[checkpoint.Training] call the module's bind and init_params first")
        group = self._module._exec_group
        return {
            prefix + name: arrays
            for prefix, which, names in self._groups()
            for name, arrays in zip(names, group.arrays(names, which), strict=True)
        }

    def give(self, arrays: Mapping[str, list[NDArray]]) -> None:
        module = self._module
        if self._given:
            return
        if module.optimizer_initialized and module._updater is None:
            raise MXNetError(
                "[checkpoint.Training] the KVStore has parameters already: call restore() between init_params and "
                "init_optimizer, or give fit the data of watch()"
            )
        own = self.arrays()
        _check(arrays, {name: each for name, each in own.items() if not name.startswith("gradient:")})
        pairs = [
            (name, value, target)
            for name, saved in arrays.items()
            for value, target in zip(saved, own.get(name, ()), strict=False)
        ]
        for name, value, target in pairs:
            _check_like(name, value, target.shape, target.dtype)
        for _, value, target in pairs:
            value.copyto(target)
        module._stale = True
        self._given = True

    def states(self, near: Path) -> bytes:
        return _read_back(self._module.save_optimizer_states, near)

    def give_states(self, states: bytes, near: Path) -> None:
        if not self._module.optimizer_initialized:
            raise MXNetError("[checkpoint.Training] call the module's init_optimizer first")
        _written(self._module.load_optimizer_states, states, near)


class _BucketingModule(_Module):
    """A BucketingModule: the module of the default bucket, with whose arrays the others compute."""

    @property
    def _module(self) -> Any:
        found = self._network._buckets.get(self._network._default_bucket_key)
        if found is None:
            raise MXNetError("[checkpoint.Training] call the module's bind and init_params first")
        return found


class _Block:
    """A block of Gluon and its Trainer. Threads: one at a time."""

    def __init__(self, block: Any, trainer: Any) -> None:
        self._block, self._trainer = block, trainer

    @property
    def optimizer(self) -> Optimizer | None:
        found: Optimizer = self._trainer.optimizer
        return found

    @property
    def loss_scale(self) -> Any:
        return getattr(self._trainer, "_amp_loss_scaler", None)

    def contexts(self) -> list[Context]:
        return [ctx for parameter in self._block.collect_params().values() for ctx in parameter.list_ctx()]

    def _parameters(self) -> dict[str, Any]:
        """Parameters by place and name: names may differ from one process to the next."""
        return {f"{i}": each for i, each in enumerate(self._block.collect_params().values())}

    def arrays(self) -> Arrays:
        found: Arrays = {}
        for place, parameter in self._parameters().items():
            found[place] = parameter.list_data()
            if parameter.grad_req == "add":
                found[f"gradient:{place}"] = parameter.list_grad()
        return found

    def give(self, arrays: Mapping[str, list[NDArray]]) -> None:
        own = self._parameters()
        _check(arrays, {place: parameter.list_ctx() for place, parameter in own.items()})
        for place, parameter in own.items():
            for saved in (*arrays[place], *arrays.get(f"gradient:{place}", ())):
                _check_like(parameter.name, saved, parameter.shape, parameter.dtype)
        for place, parameter in own.items():
            parameter.set_data(arrays[place][0])
            if parameter._deferred_init is not None:
                parameter._finish_deferred_init()

    def states(self, near: Path) -> bytes:
        # Asking a Trainer for states before its first step would give its store the parameters earlier.
        return _read_back(self._trainer.save_states, near) if self._trainer._kv_initialized else b""

    def give_states(self, states: bytes, near: Path) -> None:
        if states:
            _written(self._trainer.load_states, states, near)

    def give_each(self, arrays: Mapping[str, list[NDArray]]) -> None:
        """The values of each context, which the Trainer's store has made equal."""
        for place, parameter in self._parameters().items():
            for value, target in zip(arrays[place], parameter.list_data(), strict=True):
                value.copyto(target)
            if parameter.grad_req == "add":
                for value, target in zip(
                    arrays.get(f"gradient:{place}", ()), parameter.list_grad(), strict=False
                ):
                    value.copyto(target)
