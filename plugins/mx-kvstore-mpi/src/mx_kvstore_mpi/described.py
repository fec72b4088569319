# SPDX-License-Identifier: Apache-2.0
"""Optimizers as names and numbers: how a worker tells the servers which one to run. No code travels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mx_core import plugins
from mx_core.errors import ArgumentError
from mx_train import lr_scheduler
from mx_train.optimizer import Optimizer, create

#: attributes that stay with the worker: parameters and graphs, whose rates are put into `lr_mult` and `wd_mult`
_LEFT = {"param_dict", "sym_info"}
_SCHEDULE = "lr_scheduler"


def describe(optimizer: Any) -> dict[str, Any]:
    """An optimizer as JSON values.

    Raises
    ------
    ArgumentError  it is no optimizer that servers can make: its class has no name, or it holds something else than
                   numbers and texts
    """
    name = type(optimizer).__name__.lower()
    if not isinstance(optimizer, Optimizer) or not _known(name):
        raise ArgumentError(
            "[KVStore.set_optimizer] expected an optimizer with a name that servers know, got "
            f"{type(optimizer).__name__}; register its class by the hook mx_register_optimizers of a plug-in, or start "
            "the job without servers"
        )
    found = {key: value for key, value in optimizer.__getstate__().items() if key not in _LEFT}
    for kind in ("lr_mult", "wd_mult"):
        rates = {index: getattr(param, kind, 1.0) for index, param in optimizer.param_dict.items()}
        found[kind] = {**{index: rate for index, rate in rates.items() if rate != 1.0}, **found[kind]}
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


def _known(name: str) -> bool:
    registry = plugins.registry("optimizers")
    return name in {each.lower() for each in registry.names()}


def _encoded(name: str, attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _value(f"{name}.{key}", value) for key, value in attributes.items()}


def _value(what: str, value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return value.item()
    if isinstance(value, Mapping):
        return {"pairs": [[_value(what, key), _value(what, each)] for key, each in value.items()]}
    if isinstance(value, (list, tuple)):
        return {"list": [_value(what, each) for each in value], "tuple": isinstance(value, tuple)}
    raise ArgumentError(
        f"[KVStore.set_optimizer] {what}: servers get numbers and texts, got {type(value).__name__}; start the job "
        "without servers"
    )


def _decoded(value: Any) -> Any:
    if isinstance(value, dict) and "pairs" in value:
        return {_decoded(key): _decoded(each) for key, each in value["pairs"]}
    if isinstance(value, dict):
        found = [_decoded(each) for each in value["list"]]
        return tuple(found) if value["tuple"] else found
    return value


def made(told: Mapping[str, Any]) -> Optimizer:
    """The optimizer that `describe` told of.

    Raises
    ------
    ArgumentError  this process knows no such optimizer, or its attributes are others
    """
    optimizer: Optimizer = create(told["name"])
    _set(optimizer, told)
    if told.get(_SCHEDULE) is not None:
        kind = getattr(lr_scheduler, told[_SCHEDULE]["name"], None)
        if not isinstance(kind, type) or not issubclass(kind, lr_scheduler.LRScheduler):
            raise ArgumentError(f"[KVStore server] unknown lr_scheduler {told[_SCHEDULE]['name']!r}")
        schedule = kind.__new__(kind)
        vars(schedule).update({key: _decoded(value) for key, value in told[_SCHEDULE]["attributes"].items()})
        optimizer.lr_scheduler = schedule
    return optimizer


def _set(optimizer: Optimizer, told: Mapping[str, Any]) -> None:
    for key, value in told["attributes"].items():
        if key not in vars(optimizer):
            raise ArgumentError(f"[KVStore server] optimizer {told['name']!r} has no attribute {key!r}")
        setattr(optimizer, key, _decoded(value))
