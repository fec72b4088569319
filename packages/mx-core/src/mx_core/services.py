# SPDX-License-Identifier: Apache-2.0
"""The engine, storage managers, random resources and devices of this process.

Each is chosen once, at the first question, and kept. Threads: any.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from mx_core import plugins
from mx_core.errors import PluginError, PluginWarning
from mx_core.registry import Entry


class Service(Protocol):
    """What every service has; its other methods are those of its kind."""

    #: capsule of the C table
    capsule: Any
    #: name under which it is registered
    name: str


_lock = threading.RLock()
_made: dict[tuple[str, str], Any] = {}

_ENGINE_VARIABLES = ("MX_ENGINE_TYPE", "MXNET_ENGINE_TYPE")
_INSTALL = {"engines": "mx-engine", "storage_managers": "mx-storage", "resources": "mx-storage"}
#: distributions that bring a device with its memory and random streams
DEVICE_INSTALL = {"gpu": "mx-operators-cuda"}


def engine() -> Any:
    """The process's engine.

    MX_ENGINE_TYPE, else MXNET_ENGINE_TYPE, names it; without them the highest priority is taken.

    Raises
    ------
    PluginError  none is installed, none of that name is, or the named one fails to start
    """
    made = _made.get(("engine", ""))
    return made if made is not None else _once(("engine", ""), _make_engine)


def storage(device_type: str = "cpu") -> Any:
    """The storage manager of a device type: the one of highest priority."""
    key = ("storage", device_type)
    made = _made.get(key)
    if made is not None:
        return made
    return _once(key, lambda: _make_first("storage_managers", device_type))


def random(device_type: str = "cpu") -> Any:
    """The random resource of a device type: the one of highest priority."""
    key = ("random", device_type)
    made = _made.get(key)
    return made if made is not None else _once(key, lambda: _make_first("resources", device_type))


def device(device_type: str) -> Any:
    """The device table's object of an accelerator; there is none for `cpu`.

    It is attached to the engine, where one is installed, before anyone gets it: operations on its
    contexts can be pushed from then on.
    """
    key = ("device", device_type)
    made = _made.get(key)
    return made if made is not None else _once(key, lambda: _make_device(device_type))


def device_count(device_type: str) -> int:
    """Devices of a type that are present; 1 for `cpu`, 0 when no plug-in knows the type.

    Raises
    ------
    PluginError  the plug-in's probe fails
    """
    if device_type == "cpu":
        return 1
    devices = plugins.registry("devices")
    if device_type not in devices:
        return 0
    entry = devices.get(device_type)
    try:
        return int(entry.value.probe())
    except Exception as error:
        raise PluginError(f"device {entry.name!r} of {entry} cannot be probed: {error!r}") from error


def made(kind: str) -> list[Any]:
    """The services of a kind (`engine`, `storage`, `random`, `device`) that were made so far."""
    with _lock:
        return [service for (found, _), service in _made.items() if found == kind]


def reset() -> None:
    """Forgets the choices (the objects live on with who holds them); for tests."""
    with _lock:
        _made.clear()


def _once(key: tuple[str, str], make: Callable[[], Any]) -> Any:
    with _lock:
        if key not in _made:
            _made[key] = make()
        return _made[key]


def _make_engine() -> Any:
    registry = plugins.registry("engines")
    for variable in _ENGINE_VARIABLES:
        name = os.environ.get(variable)
        if not name:
            continue
        if name not in registry:
            known = ", ".join(registry.names()) or "none"
            hint = plugins.missing_hint("engines", name)
            raise PluginError(
                f"{variable}={name}: there is no such engine; available: {known}. {hint}".rstrip()
            )
        return _make(registry.get(name))
    return _best("engines", registry.items(), "engine")


def _make_device(device_type: str) -> Any:
    registry = plugins.registry("devices")
    if device_type in DEVICE_INSTALL and device_type not in registry:
        raise PluginError(_nothing("devices", f"device {device_type!r}", DEVICE_INSTALL[device_type]))
    made = _make(registry.get(device_type))
    if plugins.registry("engines").names():
        engine().attach_device(made.capsule)
    return made


def _make_first(kind: str, device_type: str) -> Any:
    entries = [e for e in plugins.registry(kind).items() if e.value.device == device_type]
    what = "storage manager" if kind == "storage_managers" else "random resource"
    return _best(kind, entries, f"{what} for device {device_type!r}", DEVICE_INSTALL.get(device_type))


def _best(kind: str, entries: Iterable[Entry], what: str, install: str | None = None) -> Any:
    """The entry of highest priority that starts; one that fails is passed over with a warning."""
    failed: list[PluginError] = []
    for entry in sorted(entries, key=lambda e: (-e.value.priority, e.name)):
        try:
            made = _make(entry)
        except PluginError as failure:
            if os.environ.get("MX_STRICT_PLUGINS") == "1":
                raise
            failed.append(failure)
            continue
        for passed in failed:
            warnings.warn(f"{passed}; using {entry.name!r}", PluginWarning, stacklevel=5)
        return made
    if failed:
        raise failed[0]
    raise PluginError(_nothing(kind, what, install or _INSTALL.get(kind, "")))


def _nothing(kind: str, what: str, install: str) -> str:
    text = f"no {what} is registered"
    if install:
        text += f"; pip install {install}"
    hint = plugins.missing_hint(kind, "")
    return f"{text}. {hint}" if hint else text


def _make(entry: Entry) -> Any:
    try:
        made = entry.value.make()
    except Exception as error:
        raise PluginError(f"{entry.kind}: {entry.name!r} of {entry} does not start: {error}") from error
    if not hasattr(made, "capsule"):
        raise PluginError(
            f"{entry.kind}: {entry.name!r} of {entry}: expected an object with `.capsule`, got {made!r}"
        )
    if not hasattr(made, "name"):
        made.name = entry.value.name if hasattr(entry.value, "name") else entry.name
    return made


def _after_fork_in_child() -> None:
    """The lock may be held by a thread that the child does not have."""
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
