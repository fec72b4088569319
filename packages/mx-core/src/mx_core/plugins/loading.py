# SPDX-License-Identifier: Apache-2.0
"""Loads one plug-in: import, checks, registration, all or nothing."""

from __future__ import annotations

import difflib
import inspect
from dataclasses import replace
from types import ModuleType
from typing import Any

import pluggy

from mx_core.errors import PluginError
from mx_core.exits import exits_refused
from mx_core.imports import import_by_name
from mx_core.plugins import hookspecs
from mx_core.plugins.discovery import PluginRecord, check_hook_api
from mx_core.plugins.points import Point
from mx_core.plugins.registrars import REGISTRARS
from mx_core.plugins.registries import Registry, Transaction
from mx_core.raised import origin_of, own_traceback
from mx_core.signals import let_pass


class Manager(pluggy.PluginManager):
    """pluggy's manager, which also takes undecorated functions whose names start with `mx_`."""

    def __init__(self) -> None:
        super().__init__("mx")
        self.add_hookspecs(hookspecs)

    def parse_hookimpl_opts(self, plugin: object, name: str) -> Any:
        """Options of a hook implementation, or None when `name` is not one."""
        options = super().parse_hookimpl_opts(plugin, name)
        if options is None and name.startswith("mx_"):
            function = getattr(plugin, name)
            home = getattr(plugin, "__name__", None)
            if inspect.isfunction(function) and function.__module__ == home:
                return pluggy.HookimplOpts(
                    wrapper=False, hookwrapper=False, optionalhook=False,
                    tryfirst=False, trylast=False, specname=None,
                )  # fmt: skip
        return options


def load(
    manager: Manager, registries: dict[str, Registry], record: PluginRecord, point: Point
) -> tuple[PluginRecord, Exception | None]:
    """Loads a found plug-in; returns its new record and, when it failed, the exception.

    Nothing of a plug-in that fails stays behind in `manager` or `registries`.
    """
    transaction = Transaction(record.source)
    hooks: tuple[str, ...] = ()
    try:
        module = _import(point)
        refusal = check_hook_api(getattr(module, "MX_HOOK_API", hookspecs.HOOK_API))
        if refusal is not None:
            return replace(record, state="incompatible", error=refusal), PluginError(refusal)
        record = replace(record, info=_info(module))
        hooks = _hooks(manager, module)
        _register(manager, module, record.name, hooks, transaction)
        try:
            transaction.commit(registries)
        except PluginError:
            manager.unregister(module)
            raise
    except Exception as error:
        let_pass(error)
        text = str(error) if isinstance(error, PluginError) else f"{type(error).__name__}: {error}"
        return (
            replace(
                record,
                state="broken",
                error=text,
                traceback=own_traceback(error),
                contributions=_contributions(transaction),
                hooks=hooks,
                origin=origin_of(error),
            ),
            error,
        )
    return (
        replace(record, state="loaded", contributions=_contributions(transaction), hooks=hooks),
        None,
    )


def _import(point: Point) -> ModuleType:
    with exits_refused(f"the import of {point.value!r}"):
        try:
            import_by_name(point.module)
            module = point.load()
        except Exception as error:
            if type(error).__module__ == "zlib":  # its text is that of the library: no file, no module
                raise PluginError(
                    f"module {point.module!r} cannot be read, its archive is damaged: zlib.error: {error}; "
                    "install it again"
                ) from error
            raise
    if not isinstance(module, ModuleType):
        raise PluginError(f"entry point {point.value!r}: expected a module, got {module!r}")
    return module


def _info(module: ModuleType) -> hookspecs.PluginInfo:
    info = getattr(module, "MX_PLUGIN", hookspecs.PluginInfo())
    if not isinstance(info, hookspecs.PluginInfo):
        raise PluginError(f"MX_PLUGIN: expected mx_core.PluginInfo, got {info!r}")
    return info


def _hooks(manager: Manager, module: ModuleType) -> tuple[str, ...]:
    """Hooks the module implements.

    Raises
    ------
    PluginError  one of them is not a hook of this version
    """
    found = []
    for name in dir(module):
        options = manager.parse_hookimpl_opts(module, name)
        if options is None:
            continue
        hook = options.get("specname") or name
        caller = getattr(manager.hook, hook, None)
        if caller is None or not caller.has_spec():
            known = [each for each in vars(hookspecs) if each.startswith("mx_")]
            close = difflib.get_close_matches(hook, known, 1, 0.8)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise PluginError(f"unknown hook {hook!r} in {module.__name__}{hint}")
        found.append(hook)
    return tuple(found)


def _register(
    manager: Manager,
    module: ModuleType,
    name: str,
    hooks: tuple[str, ...],
    transaction: Transaction,
) -> None:
    """Registers the module with pluggy and runs its registration hooks."""
    others = manager.get_plugins()
    if (taken := manager.get_name(module)) is not None:
        raise PluginError(f"its module {module.__name__!r} is that of plug-in {taken!r}, too")
    try:
        manager.register(module, name)
        for kind, registrar in REGISTRARS.items():
            hook = f"mx_register_{kind}"
            if hook in hooks:
                caller = manager.subset_hook_caller(hook, remove_plugins=others)
                try:
                    with exits_refused(hook):
                        returned = caller(registry=registrar(transaction))
                    if returned:
                        raise PluginError(
                            f"{hook} returned {returned[0]!r}, expected None; registry.add(...) registers what a "
                            "plug-in brings, one by one"
                        )
                except Exception as error:
                    error.add_note(f"raised in {hook} of plug-in {name!r}")
                    raise
    except BaseException:
        if manager.is_registered(module):
            manager.unregister(module)
        raise


def _contributions(transaction: Transaction) -> tuple[tuple[str, str], ...]:
    return tuple((entry.kind, entry.name) for entry in transaction.staged)
