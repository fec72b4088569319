# SPDX-License-Identifier: Apache-2.0
"""Calls of the program: one span for every call from outside into a package of mx.

Python's profiling hook (`sys.setprofile`) tells of each call; those made inside of mx are skipped, so a
span is what the program itself wrote. The hook sees functions and methods, not operators such as
`a + b` that a type implements in C: those appear as the operations they push. It slows every Python
call down while it is on, and is absent otherwise.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from types import BuiltinFunctionType, CodeType, FrameType, MethodType
from typing import Any

from mx_engine.profiler.recording import Span
from mx_engine.profiler.scopes import scoped

Hook = Callable[[FrameType, str, Any], None]

#: the domain of these spans
DOMAIN = "api"
_OWN = __name__.rpartition(".")[0]  # calls of the profiler itself are not recorded


def _is_ours(module: object) -> bool:
    if not isinstance(module, str) or module.startswith(_OWN):
        return False
    package = module.partition(".")[0]
    return package == "mx" or package.startswith("mx_")


def _code_name(frame: FrameType) -> str:
    """`mx_ndarray.NDArray.asnumpy`; empty for what is not a function of mx."""
    module, name = frame.f_globals.get("__name__"), frame.f_code.co_qualname
    if not _is_ours(module) or name.startswith("<") or name.endswith("__del__"):
        return ""
    return f"{str(module).partition('.')[0]}.{name}"


def _builtin_name(function: Any) -> str:
    module, name = getattr(function, "__module__", None), function.__name__
    if module is None:  # a method of a type written in C
        owner = type(function.__self__)
        module, name = owner.__module__, f"{owner.__name__}.{name}"
    return f"{module.partition('.')[0]}.{name}" if _is_ours(module) else ""


def _watch_methods() -> int | None:
    """Tells the hook of calls of which `sys.setprofile` of Python 3.12 tells only that they are over.

    They are those of functions in C that a class has wrapped as methods, as pybind11's classes do. Returns the tool
    of `sys.monitoring` that tells them; None where none is needed or free.
    """
    if sys.version_info < (3, 12) or sys.version_info >= (3, 13):
        return None
    monitoring = sys.monitoring
    tools = (monitoring.PROFILER_ID, 3, 4)  # the others belong to debuggers, coverage and optimisers
    tool = next((number for number in tools if monitoring.get_tool(number) is None), None)
    if tool is not None:
        monitoring.use_tool_id(tool, __name__)
        monitoring.register_callback(tool, monitoring.events.CALL, _method_called)
        monitoring.set_events(tool, monitoring.events.CALL)
    return tool


def _method_called(code: CodeType, offset: int, function: object, first: object) -> None:
    if isinstance(function, MethodType) and isinstance(function.__func__, BuiltinFunctionType):
        hook = sys.getprofile()
        if hook is not None:
            hook(sys._getframe(1), "c_call", function.__func__)


def _is_in(frame: FrameType, outer: FrameType) -> bool:
    """Whether a frame is a call within another one."""
    at: FrameType | None = frame
    while at is not None and at is not outer:
        at = at.f_back
    return at is not None


class ApiCalls:
    """Hands the calls of the starting thread, and of Python threads that begin later, to `keep`.

    From Python 3.12 on, threads that run already are seen too.

    Threads: one starts and stops it; every watched thread has a hook of its own.
    """

    def __init__(self, keep: Callable[[Span], None]) -> None:
        self._keep = keep
        self._names: dict[CodeType, str] = {}
        self._on = False
        self._tool: int | None = None  # of sys.monitoring

    def start(self) -> None:
        """Begins; replaces a profiling hook that another tool has set."""
        self._on = True
        if sys.version_info >= (3, 12):
            self._tool = _watch_methods()
            threading.setprofile_all_threads(self._first)
        else:
            threading.setprofile(self._first)
            sys.setprofile(self._first)

    def stop(self) -> None:
        """Ends; other threads remove their hooks at their next call."""
        if not self._on:
            return
        self._on = False
        threading.setprofile(None)
        sys.setprofile(None)
        if sys.version_info >= (3, 12) and self._tool is not None:
            sys.monitoring.set_events(self._tool, 0)
            sys.monitoring.register_callback(self._tool, sys.monitoring.events.CALL, None)
            sys.monitoring.free_tool_id(self._tool)
            self._tool = None

    def _first(self, frame: FrameType, event: str, argument: Any) -> None:
        # Each thread gets a hook of its own, whose state needs no lock.
        hook = self._hook()
        sys.setprofile(hook)
        hook(frame, event, argument)

    def _hook(self) -> Hook:
        thread = threading.get_native_id()
        names, keep, now = self._names, self._keep, time.monotonic_ns
        outermost: FrameType | None = (
            None  # of mx's function that the program called, or that called one in C
        )
        in_c, started, name = False, 0, ""

        def hook(frame: FrameType, event: str, argument: Any) -> None:
            nonlocal outermost, in_c, started, name
            if outermost is not None and event == "call" and not _is_in(frame, outermost):
                outermost = None  # its end was not told: the program has set another hook meanwhile
            if outermost is not None:
                # Not every call is told whose end is, nor the other way round, so they are not counted.
                if frame is outermost and (in_c or event == "return") and event not in ("call", "c_call"):
                    outermost = None
                    keep(Span("api", DOMAIN, scoped(name), thread, started, now()))
            elif event == "call" or event == "c_call":
                if not self._on:
                    sys.setprofile(None)
                    return
                in_c = event == "c_call"
                if in_c:
                    name = _builtin_name(argument)
                else:
                    known = names.get(frame.f_code)
                    name = names.setdefault(frame.f_code, _code_name(frame)) if known is None else known
                if name:
                    outermost, started = frame, now()

        return hook
