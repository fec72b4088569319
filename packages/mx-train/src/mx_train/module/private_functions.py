# SPDX-License-Identifier: Apache-2.0
"""Functions that programs with modules of their own import from MXNet's files, under their private names there."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mx_core.errors import ArgumentError
from mx_io.io import DataDesc
from mx_kvstore import KVStoreBase
from mx_ndarray import NDArray
from mx_symbol.symbol import Symbol
from mx_train.arguments import Callbacks, Shapes
from mx_train.module.optimization import runs_in, store_for

#: endings of names of parameters
_PARAMETERS = ("_weight", "_bias", "_gamma", "_beta")

# ---- of mx.model ----


def _create_kvstore(
    kvstore: str | KVStoreBase | None, num_device: int, arg_params: Mapping[str, NDArray]
) -> tuple[KVStoreBase | None, bool]:
    """A store, and whether it is to run the optimizer; None for a local one with one device."""
    store = store_for(kvstore, num_device)
    sizes = (int(np.prod(value.shape)) for value in arg_params.values())
    return store, store is not None and runs_in(store, sizes)


def _initialize_kvstore(
    kvstore: KVStoreBase,
    param_arrays: Sequence[Sequence[NDArray]],
    arg_params: Mapping[str, NDArray],
    param_names: Sequence[str],
    update_on_kvstore: bool,
) -> None:
    """Gives a store the parameters, and those of the store to all devices if it runs the optimizer."""
    for name, arrays in zip(param_names, param_arrays, strict=True):
        if update_on_kvstore:
            kvstore.broadcast(name, arg_params[name], out=list(arrays))
        else:
            kvstore.init(name, arg_params[name])


def _update_params_on_kvstore(
    param_arrays: Sequence[Sequence[NDArray]],
    grad_arrays: Sequence[Sequence[NDArray | None]],
    kvstore: KVStoreBase,
    param_names: Sequence[str],
) -> None:
    """Gives gradients to a store that runs the optimizer, and takes the new values; asynchronous."""
    for index, (weights, grads) in enumerate(zip(param_arrays, grad_arrays, strict=True)):
        if grads[0] is not None:
            kvstore.pushpull(param_names[index], list(grads), out=list(weights), priority=-index)


def _update_params(
    param_arrays: Sequence[Sequence[NDArray]],
    grad_arrays: Sequence[Sequence[NDArray | None]],
    updater: Any,
    num_device: int,
    kvstore: KVStoreBase | None = None,
    param_names: Sequence[str] | None = None,
) -> None:
    """Sums gradients in a store, if there is one, and runs an updater for each device; asynchronous.

    The updater gets `number * num_device + device` as the index of a parameter.
    """
    work: list[list[tuple[int, NDArray, NDArray]]] = [[] for _ in range(num_device)]
    for index, (weights, grads) in enumerate(zip(param_arrays, grad_arrays, strict=True)):
        given = [grad for grad in grads if grad is not None]
        if not given:
            continue
        if kvstore is not None:
            kvstore.sum(index if param_names is None else param_names[index], given, priority=-index)
        for device, (weight, grad) in enumerate(zip(weights, given, strict=True)):
            work[device].append((index * num_device + device, grad, weight))
    for each in work:
        if each:
            indices, found, values = zip(*each, strict=True)
            updater(list(indices), list(found), list(values))


def _multiple_callbacks(callbacks: Callbacks, *args: Any, **kwargs: Any) -> None:
    """Calls one callback, those of a list, or none."""
    for each in _as_list(callbacks):
        each(*args, **kwargs)


# ---- of mx.module.base_module ----


def _as_list(obj: Any) -> list[Any]:
    """One thing or a list of things as a list; None as an empty one."""
    if obj is None:
        return []
    return list(obj) if isinstance(obj, (list, tuple)) else [obj]


def _told(message: str, throw: bool) -> None:
    if throw:
        raise ArgumentError(message)
    warnings.warn(message, stacklevel=3)


def _check_input_names(symbol: Symbol, names: Sequence[str], typename: str, throw: bool) -> None:
    """Says of names that are no arguments of a symbol, by an ArgumentError or a warning, what arguments there are."""
    arguments = symbol.list_arguments()
    likely = [each for each in arguments if not each.endswith(_PARAMETERS)]
    for name in names:
        if name not in arguments:
            _told(
                f"[Module] {typename}_names: {name!r} is no argument; inputs may be {', '.join(likely)}",
                throw,
            )


def _check_names_match(data_names: Sequence[str], data_shapes: Shapes, name: str, throw: bool) -> None:
    """Says of shapes with other names than those that are expected, by an ArgumentError or a warning."""
    found = [each[0] for each in data_shapes]
    if sorted(data_names) != sorted(found):
        _told(f"[Module] {name}_shapes: expected {', '.join(data_names)}, got {', '.join(found)}", throw)


def _parse_data_desc(
    data_names: Sequence[str], label_names: Sequence[str], data_shapes: Shapes, label_shapes: Shapes | None
) -> tuple[list[DataDesc], list[DataDesc] | None]:
    """Shapes of data and labels as DataDesc; names of data must be those given, and of others there is a warning."""
    data = [each if isinstance(each, DataDesc) else DataDesc(*each) for each in data_shapes]
    _check_names_match(data_names, data, "data", True)
    if label_shapes is None:
        _check_names_match(label_names, [], "label", False)
        return data, None
    labels = [each if isinstance(each, DataDesc) else DataDesc(*each) for each in label_shapes]
    _check_names_match(label_names, labels, "label", False)
    return data, labels
