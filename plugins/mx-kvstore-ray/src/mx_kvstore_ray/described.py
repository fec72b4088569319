# SPDX-License-Identifier: Apache-2.0
"""Optimizers as names and numbers: how a worker tells the servers which one to run, and how these keep it in files.

No code travels.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mx_core import plugins
from mx_core.errors import ArgumentError
from mx_train import lr_scheduler
from mx_train.optimizer import Optimizer, create

#: attributes that stay with the worker: parameters and graphs, whose rates are put into `lr_mult` and `wd_mult`
_LEFT = {"param_dict", "sym_info"}
_SCHEDULE = "lr_scheduler"
#: what a script may change between two pushes
_RATES = ("lr", "wd", "rescale_grad")


def describe(optimizer: Any) -> dict[str, Any]:
    """An optimizer as JSON values.

    Raises
    ------
    ArgumentError  it is no optimizer that servers can make: its class has no name, or it holds something else than
                   numbers and texts
    """
    name = type(optimizer).__name__.lower()
    known = {each.lower() for each in plugins.registry("optimizers").names()}
    if not isinstance(optimizer, Optimizer) or name not in known:
        raise ArgumentError(
            "[KVStore.set_optimizer] expected an optimizer with a name that servers know, got "
            f"{type(optimizer).__name__}; register its class by the hook mx_register_optimizers of a plug-in"
        )
    found = {key: value for key, value in optimizer.__getstate__().items() if key not in _LEFT}
    for kind in ("lr_mult", "wd_mult"):
        factors = {index: getattr(param, kind, 1.0) for index, param in optimizer.param_dict.items()}
        found[kind] = {**{index: each for index, each in factors.items() if each != 1.0}, **found[kind]}
    schedule = found.pop(_SCHEDULE, None)
    told = {"name": name, "attributes": _encoded(name, found)}
    if schedule is not None:
        called = type(schedule).__name__
        if getattr(lr_scheduler, called, None) is not type(schedule):
            raise ArgumentError(
                f"[KVStore.set_optimizer] lr_scheduler: servers know those of mx.lr_scheduler, got {called}"
            )
        told[_SCHEDULE] = {"name": called, "attributes": _encoded(called, vars(schedule))}
    return told


def made(told: Mapping[str, Any]) -> Optimizer:
    """The optimizer that `describe` told of.

    Raises
    ------
    ArgumentError  this process knows no such optimizer, or its attributes are others
    """
    optimizer: Optimizer = create(told["name"])
    for key, value in told["attributes"].items():
        if key not in vars(optimizer):
            raise ArgumentError(f"[KVStore server] optimizer {told['name']!r} has no attribute {key!r}")
        setattr(optimizer, key, _decoded(value))
    schedule = told.get(_SCHEDULE)
    if schedule is not None:
        kind = getattr(lr_scheduler, schedule["name"], None)
        if not isinstance(kind, type) or not issubclass(kind, lr_scheduler.LRScheduler):
            raise ArgumentError(f"[KVStore server] unknown lr_scheduler {schedule['name']!r}")
        optimizer.lr_scheduler = kind.__new__(kind)
        vars(optimizer.lr_scheduler).update(
            {key: _decoded(value) for key, value in schedule["attributes"].items()}
        )
    return optimizer


def rates(optimizer: Any) -> dict[str, Any]:
    """What may change of an optimizer from push to push, and is the same for all keys."""
    names = [name for name in _RATES if hasattr(optimizer, name)]
    if getattr(optimizer, _SCHEDULE, None) is not None:
        names = [name for name in names if name != "lr"]  # the schedule's
    return {name: _value(name, getattr(optimizer, name)) for name in names}


def set_rates(optimizer: Any, told: Mapping[str, Any]) -> None:
    """Takes what `rates` told."""
    for name, rate in told.items():
        if name in _RATES and getattr(optimizer, name, rate) != rate:
            setattr(optimizer, name, rate)


def _encoded(name: str, attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _value(f"{name}.{key}", value) for key, value in attributes.items()}


def _value(what: str, value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value.item() if isinstance(value, np.generic) else value
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return value.item()
    if isinstance(value, Mapping):
        return {"pairs": [[_value(what, key), _value(what, each)] for key, each in value.items()]}
    if isinstance(value, (list, tuple)):
        return {"list": [_value(what, each) for each in value], "tuple": isinstance(value, tuple)}
    raise ArgumentError(
        f"[KVStore.set_optimizer] {what}: servers get numbers and texts, got {type(value).__name__}"
    )


def _decoded(value: Any) -> Any:
    if isinstance(value, dict) and "pairs" in value:
        return {_decoded(key): _decoded(each) for key, each in value["pairs"]}
    if isinstance(value, dict):
        found = [_decoded(each) for each in value["list"]]
        return tuple(found) if value["tuple"] else found
    return value
