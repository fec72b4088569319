# SPDX-License-Identifier: Apache-2.0
"""Plug-in loader, registries, services, operator declarations and C interfaces of mx."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mx_core.build_info import __version__ as __version__
from mx_core.build_info import get_include as get_include
from mx_core.imports import lazy
from mx_core.interpreter import require_main

if TYPE_CHECKING:
    from mx_core.context import Context as Context
    from mx_core.context import cpu as cpu
    from mx_core.context import cpu_pinned as cpu_pinned
    from mx_core.context import cpu_shared as cpu_shared
    from mx_core.context import current_context as current_context
    from mx_core.context import gpu as gpu
    from mx_core.context import num_gpus as num_gpus
    from mx_core.errors import AbiError as AbiError
    from mx_core.errors import ArgumentError as ArgumentError
    from mx_core.errors import DTypeError as DTypeError
    from mx_core.errors import EngineShutdownError as EngineShutdownError
    from mx_core.errors import FileError as FileError
    from mx_core.errors import FileFormatError as FileFormatError
    from mx_core.errors import IndexOutOfBoundsError as IndexOutOfBoundsError
    from mx_core.errors import MXNetError as MXNetError
    from mx_core.errors import MXUnsafeReadWarning as MXUnsafeReadWarning
    from mx_core.errors import NoKernelError as NoKernelError
    from mx_core.errors import OutOfMemoryError as OutOfMemoryError
    from mx_core.errors import PluginError as PluginError
    from mx_core.errors import PluginWarning as PluginWarning
    from mx_core.errors import ShapeError as ShapeError
    from mx_core.errors import UnknownOperatorError as UnknownOperatorError
    from mx_core.plugins.hookspecs import PluginInfo as PluginInfo
    from mx_core.plugins.hookspecs import hookimpl as hookimpl

require_main()

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "mx_core.context": ["Context", "cpu", "cpu_pinned", "cpu_shared", "current_context", "gpu", "num_gpus"],
        "mx_core.errors": [
            "AbiError", "ArgumentError", "DTypeError", "EngineShutdownError", "FileError",
            "FileFormatError", "IndexOutOfBoundsError", "MXNetError", "MXUnsafeReadWarning", "NoKernelError",
            "OutOfMemoryError", "PluginError", "PluginWarning", "ShapeError", "UnknownOperatorError",
        ],
        "mx_core.plugins.hookspecs": ["PluginInfo", "hookimpl"],
    },
)  # fmt: skip
