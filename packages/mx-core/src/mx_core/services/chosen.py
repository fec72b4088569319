# SPDX-License-Identifier: Apache-2.0
"""The engine, storage managers, random resources and devices of this process.

Each is chosen once, at the first question, and kept. Threads: any.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from mx_core import plugins
from mx_core.errors import PluginError
from mx_core.exits import exits_refused
from mx_core.forks import FirstUseLock, at_fork, first_use
from mx_core.services import selection
from mx_core.signals import let_pass


class Service(Protocol):
    """What every service has; the other methods depend on its kind."""

    #: capsule of the C table
    capsule: Any
    #: name under which it is registered
    name: str


_lock = FirstUseLock()
_made: dict[tuple[str, str], Any] = {}
#: services that the holder of the lock is making
_under_way: list[tuple[str, str]] = []


def engine() -> Any:
    """The process's engine.

    MX_ENGINE_TYPE, else MXNET_ENGINE_TYPE, names it; without them the highest priority is taken.

    Raises
    ------
    PluginError
        None is installed, none of that name is, or the named one fails to start. An engine asked for the
        process's engine while it was being made.
    SettingError
        An environment variable holds a value that is not allowed.
    """
    made = _made.get(("engine", ""))
    return made if made is not None else _once(("engine", ""), selection.make_engine)


def storage(device_type: str = "cpu") -> Any:
    """The storage manager of a device type: the one of highest priority."""
    key = ("storage", device_type)
    made = _made.get(key)
    if made is not None:
        return made
    return _once(key, lambda: selection.make_first("storage_managers", device_type))


def random(device_type: str = "cpu") -> Any:
    """The random resource of a device type: the one of highest priority."""
    key = ("random", device_type)
    made = _made.get(key)
    return made if made is not None else _once(key, lambda: selection.make_first("resources", device_type))


def device(device_type: str) -> Any:
    """The device table's object of an accelerator; there is none for `cpu`.

    It is attached to the engine, where one is installed, before it is returned: operations on its
    contexts can be pushed from then on.
    """
    key = ("device", device_type)
    made = _made.get(key)
    return made if made is not None else _once(key, lambda: _attached(device_type))


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
        with exits_refused("probe"):
            return int(entry.value.probe())
    except Exception as error:
        let_pass(error)
        raise PluginError(f"device {entry.name!r} of {entry} cannot be probed: {error!r}") from error


def made(kind: str) -> list[Any]:
    """The services of a kind (`engine`, `storage`, `random`, `device`) that were made so far."""
    with _lock:  # a dictionary must not grow while it is walked
        return [service for (found, _), service in _made.items() if found == kind]


def reset() -> None:
    """Forgets the choices (the objects live on with who holds them); for tests."""
    with _lock:
        _made.clear()


def _attached(device_type: str) -> Any:
    made = selection.make_device(device_type)
    if plugins.registry("engines").names():
        engine().attach_device(made.capsule)
    return made


def _once(key: tuple[str, str], make: Callable[[], Any]) -> Any:
    with first_use, _lock:
        if key in _made:
            return _made[key]
        if key in _under_way:
            what = " ".join(filter(None, key))
            raise PluginError(f"it asks for the process's {what} while it is being made")
        _under_way.append(key)
        try:
            _made[key] = make()
        finally:
            _under_way.remove(key)
        return _made[key]


def _after_fork_in_child() -> None:
    """What another thread was making, which a fork gave up waiting for, is not made in the child."""
    if not _lock.held():
        _under_way.clear()


at_fork(after_in_child=_after_fork_in_child)
