# SPDX-License-Identifier: Apache-2.0
"""Checks what third-party plug-ins registered, as far as that needs no data; for `mx plugins` and `mx doctor`.

Finds errors of lazily named contributions before their first use: modules that are missing, operators
that cannot be made, codecs that raise, kernels for operators and devices that do not exist.
"""

from __future__ import annotations

import difflib
import warnings

from mx_core import operators
from mx_core.errors import MXNetError, PluginWarning
from mx_core.exits import exits_refused
from mx_core.plugins.aside import is_aside, set_aside
from mx_core.plugins.loaded import plugins, registry
from mx_core.plugins.registries import Entry
from mx_core.plugins.specs import resolve

_TARGETS = ("make", "apply", "command", "sniff", "decode", "encode", "probe", "supports")


def examine() -> None:
    """Disables what cannot work, without warnings; contributions of this project are trusted."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PluginWarning)
        _examine_all()


def _examine_all() -> None:
    names = frozenset(operators.names())  # makes every operator
    devices = _present_devices()
    for record in plugins():
        if record.state != "loaded" or record.is_first_party:
            continue
        for kind, name in record.contributions:
            entry = registry(kind).get(name)
            if not is_aside(entry):
                _examine(entry, names, devices)


def _present_devices() -> dict[str, bool]:
    """Device types that are known, and whether there is one."""
    from mx_core import services

    found = {"cpu": True} | dict.fromkeys(services.DEVICE_INSTALL, False)
    for name in registry("devices").names():
        try:
            found[name] = services.device_count(name) > 0
        except MXNetError:
            found[name] = False
    return found


def _examine(entry: Entry, names: frozenset[str], devices: dict[str, bool]) -> None:
    device = getattr(entry.value, "device", "cpu")
    if (
        entry.kind in ("kernels", "kernel_generators", "storage_managers", "resources")
        and device not in devices
    ):
        set_aside(entry, f"there is no device {device!r}; there are {', '.join(sorted(devices))}")
        return
    if entry.kind == "kernels" and operators.find(entry.value.op) is None and not _is_private(entry.value.op):
        close = difflib.get_close_matches(entry.value.op, names, 1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        set_aside(entry, f"there is no operator {entry.value.op!r}{hint}")
        return
    if not devices.get(device, True):
        return  # what it imports may be missing like the device
    try:
        for field in _TARGETS:
            resolve(getattr(entry.value, field, None))
        if entry.kind == "image_codecs":
            with exits_refused("sniff"):
                for head in (b"", bytes(64), b"\xff\xd8\xff\xe0"):
                    entry.value.sniff(head)
    except Exception as error:
        set_aside(entry, error)


def _is_private(name: str) -> bool:
    """An operator that graph passes of the project make, which it has kernels for though the table has it not."""
    return any(e.value.op == name and e.is_first_party for e in registry("kernels").items())
