# SPDX-License-Identifier: Apache-2.0
"""Tells the native part what it calls in Python; runs once, at import."""

from __future__ import annotations

import os
from pathlib import Path

from mx_core import operators, scopes, services
from mx_core.context import current_context
from mx_core.errors import MXUnsafeReadWarning
from mx_core.operator import ReferenceContext, gradient_of
from mx_ndarray import _core, indexing, invocation, views
from mx_ndarray.ndarray import NDArray, operand


def _watch_forks() -> None:
    """Called when the engine has installed its own handlers, so that ours enclose them."""
    os.register_at_fork(
        before=lambda: _core.set_forking(True),
        after_in_parent=lambda: _core.set_forking(False),
        after_in_child=lambda: _core.set_forking(False),
    )


_core.configure({
    "array_class": NDArray,
    "prepare": invocation.prepare,
    "bind": invocation.bind,
    "scalar_params": invocation.scalar_params,
    "operand": operand,
    "get_item": indexing.get,
    "reshape": views.reshape,
    "gradient": gradient_of,
    "find": operators.get,
    "context": invocation.make_context,
    "current_context": current_context,
    "services": services,
    "reference_context": ReferenceContext,
    "unsafe_read_warning": MXUnsafeReadWarning,
    "device_name": invocation.device_name,
    "watch_forks": _watch_forks,
    "package_folder": str(Path(__file__).parent) + os.sep,
    "sticky_errors": os.environ.get("MX_ERRORS") == "sticky",
})  # fmt: skip
scopes.listen(_core.set_memory_scope)
