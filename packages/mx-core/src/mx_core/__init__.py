# SPDX-License-Identifier: Apache-2.0
"""Plug-in loader, registries, services, operator declarations and C interfaces of mx."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mx_core.build_info import __version__, get_include
from mx_core.interpreter import require_main

if TYPE_CHECKING:
    from mx_core.context import (
        Context,
        cpu,
        cpu_pinned,
        cpu_shared,
        current_context,
        gpu,
        num_gpus,
    )
    from mx_core.errors import (
        AbiError,
        ArgumentError,
        DTypeError,
        EngineShutdownError,
        FileFormatError,
        IndexOutOfBoundsError,
        MXNetError,
        MXUnsafeReadWarning,
        NoKernelError,
        OutOfMemoryError,
        PluginError,
        PluginWarning,
        ShapeError,
        UnknownOperatorError,
    )
    from mx_core.plugins.hookspecs import PluginInfo, hookimpl

__all__ = [
    "AbiError",
    "ArgumentError",
    "Context",
    "DTypeError",
    "EngineShutdownError",
    "FileFormatError",
    "IndexOutOfBoundsError",
    "MXNetError",
    "MXUnsafeReadWarning",
    "NoKernelError",
    "OutOfMemoryError",
    "PluginError",
    "PluginInfo",
    "PluginWarning",
    "ShapeError",
    "UnknownOperatorError",
    "__version__",
    "cpu",
    "cpu_pinned",
    "cpu_shared",
    "current_context",
    "get_include",
    "gpu",
    "hookimpl",
    "num_gpus",
]

require_main()

_CONTEXT = {"Context", "cpu", "cpu_pinned", "cpu_shared", "current_context", "gpu", "num_gpus"}
_HOOKS = {"PluginInfo", "hookimpl"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "context" if name in _CONTEXT else "plugins.hookspecs" if name in _HOOKS else "errors"
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
