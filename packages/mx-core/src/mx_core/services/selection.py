# SPDX-License-Identifier: Apache-2.0
"""Makes a service from what plug-ins registered: the one that is asked for, else the best that starts."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from mx_core import environment, plugins
from mx_core.errors import PluginError, SettingError
from mx_core.exits import exits_refused
from mx_core.plugins import Entry
from mx_core.signals import let_pass

_ENGINE_VARIABLES = ("MX_ENGINE_TYPE", "MXNET_ENGINE_TYPE")
_INSTALL = {"engines": "mx-engine", "storage_managers": "mx-storage", "resources": "mx-storage"}
#: distributions that bring a device with its memory and random streams
DEVICE_INSTALL = {"gpu": "mx-operators-cuda"}


def make_engine() -> Any:
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


def make_device(device_type: str) -> Any:
    registry = plugins.registry("devices")
    if device_type in DEVICE_INSTALL and device_type not in registry:
        raise PluginError(_nothing("devices", f"device {device_type!r}", DEVICE_INSTALL[device_type]))
    return _make(registry.get(device_type))


def make_first(kind: str, device_type: str) -> Any:
    entries = [e for e in plugins.registry(kind).items() if e.value.device == device_type]
    what = "storage manager" if kind == "storage_managers" else "random resource"
    return _best(kind, entries, f"{what} for device {device_type!r}", DEVICE_INSTALL.get(device_type))


def _best(kind: str, entries: Iterable[Entry], what: str, install: str | None = None) -> Any:
    """The entry of highest priority that starts; those that fail are set aside.

    A wrong environment variable is an error: choosing another entry would ignore the user's setting.
    """
    failed: list[tuple[Entry, PluginError]] = []
    for entry in sorted(entries, key=lambda e: (-e.value.priority, e.name)):
        try:
            made = _make(entry)
        except PluginError as failure:
            if environment.strict_plugins():
                raise
            failed.append((entry, failure))
            continue
        for passed, refused in failed:
            reason = PluginError(f"it does not start: {refused.__cause__}; using {entry.name!r}")
            reason.__cause__ = refused.__cause__
            plugins.set_aside(passed, reason)
        return made
    if failed:
        raise failed[0][1]
    raise PluginError(_nothing(kind, what, install or _INSTALL.get(kind, "")))


def _nothing(kind: str, what: str, install: str) -> str:
    text = f"no {what} is registered"
    if install:
        text += f"; install {install}"
    hint = plugins.missing_hint(kind, "")
    return f"{text}. {hint}" if hint else text


def _make(entry: Entry) -> Any:
    try:
        with exits_refused("make"):
            made = entry.value.make()
        if not hasattr(made, "capsule"):
            raise PluginError(f"expected an object with `.capsule`, got {made!r}")
    except SettingError:
        raise
    except Exception as error:
        let_pass(error)
        raise PluginError(f"{entry.kind}: {entry.name!r} of {entry} does not start: {error}") from error
    if not hasattr(made, "name"):
        made.name = entry.value.name if hasattr(entry.value, "name") else entry.name
    return made
