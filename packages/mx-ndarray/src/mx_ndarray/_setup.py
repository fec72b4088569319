# SPDX-License-Identifier: Apache-2.0
"""Gives the native part the Python functions that it calls; runs once, at import."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from mx_core import operators, scopes, services
from mx_core.context import Context
from mx_core.errors import MXUnsafeReadWarning
from mx_core.operator import Operator, Params, gradient_of
from mx_ndarray import _core, device_kernels, indexing, invocation, python_kernels, views
from mx_ndarray.invocation import Bounds
from mx_ndarray.ndarray import NDArray, integer_operand, operand


@dataclass(frozen=True, kw_only=True)
class Hooks:
    """The Python side of native code."""

    array_class: type[NDArray]
    #: (operator, parameters, shapes and types of inputs, outputs, context, is_train) -> call capsule
    prepare: Callable[..., object]
    #: (operator, args, kwargs) -> Binding
    bind: Callable[..., invocation.Binding]
    #: (operator, number) -> parameters
    scalar_params: Callable[[Operator, float], Params]
    #: (operator, shape, type code or -1) -> parameters
    shaped_params: Callable[[Operator, tuple[int, ...], int], Params]
    #: (operator, start, stop, step, repeat, type code) -> parameters
    progression_params: Callable[[Operator, float, float, float, int, int], Params]
    #: (operator, begin, end, step) -> parameters
    part_params: Callable[[Operator, Bounds, Bounds, Bounds], Params]
    #: (array, other) -> NDArray or NotImplemented
    operand: Callable[[NDArray, Any], Any]
    #: (array, integer) -> NDArray
    integer_operand: Callable[[NDArray, int], Any]
    #: (array, key) -> NDArray
    get_item: Callable[[NDArray, Any], NDArray]
    #: (array, key, value)
    set_item: Callable[[NDArray, Any, Any], None]
    #: (array, args, **kwargs) -> NDArray
    reshape: Callable[..., NDArray]
    #: (operator, parameters) -> its gradient
    gradient: Callable[[Operator, Params], Any]
    #: (name) -> operator
    find: Callable[[str], Operator]
    #: (type, id) -> Context
    context: Callable[[int, int], Context]
    context_class: type[Context]
    #: has `stack`, the contexts of the `with` blocks that a thread is in
    entered_contexts: threading.local
    #: name or NumPy type -> type code
    dtype_codes: dict[Any, int]
    #: the module mx_core.services
    services: ModuleType
    #: calls a kernel written in Python; of a device, whose type and id come last
    run_kernel: Callable[..., None]
    unsafe_read_warning: type[Warning]
    #: (type) -> name
    device_name: Callable[[int], str]
    #: (), once the engine is there
    watch_forks: Callable[[], None]
    #: frames of files in it are not the user's
    package_folder: str
    sticky_errors: bool


def _watch_forks() -> None:
    """Called when the engine has installed its own handlers, so that ours enclose them. Native: Ctrl-C ends none."""
    os.register_at_fork(
        before=partial(_core.set_forking, True),
        after_in_parent=partial(_core.set_forking, False),
        after_in_child=partial(_core.set_forking, False),
    )


def _run_kernel(kernel: Callable[..., Any], *arguments: Any) -> None:
    """On the host there are no type and id of a device."""
    (python_kernels if len(arguments) == 4 else device_kernels).run(kernel, *arguments)


_core.configure(
    Hooks(
        array_class=NDArray,
        prepare=invocation.prepare,
        bind=invocation.bind,
        scalar_params=invocation.scalar_params,
        shaped_params=invocation.shaped_params,
        progression_params=invocation.progression_params,
        part_params=invocation.part_params,
        operand=operand,
        integer_operand=integer_operand,
        get_item=indexing.get,
        set_item=indexing.put,
        reshape=views.reshape,
        gradient=gradient_of,
        find=operators.get,
        context=invocation.make_context,
        context_class=Context,
        entered_contexts=Context.entered,
        dtype_codes=invocation.dtype_codes(),
        services=services,
        run_kernel=_run_kernel,
        unsafe_read_warning=MXUnsafeReadWarning,
        device_name=invocation.device_name,
        watch_forks=_watch_forks,
        package_folder=str(Path(__file__).parent) + os.sep,
        sticky_errors=os.environ.get("MX_ERRORS") == "sticky",
    )
)
scopes.listen(_core.set_memory_scope)
