# SPDX-License-Identifier: Apache-2.0
"""Errors that handlers of signals raise in the middle of somebody else's code.

A program may end a long step by an alarm whose handler raises `TimeoutError`, or itself by SIGTERM and `sys.exit`. Such
an error arrives wherever the main thread happens to be, in code of a plug-in too, which is then not at fault.
"""

from __future__ import annotations

import dis
import functools
import inspect
import signal
from collections.abc import Iterator
from types import CodeType, FrameType


def let_pass(error: BaseException) -> None:
    """Raises again what a handler of a signal has raised, Ctrl-C included; any other error is left to the caller.

    So it does where something has made another error of it: as its cause, as Python does of errors in a `__set_name__`,
    while it was handled, or in a group. What a caller is handling meanwhile is the caller's: its own errors have it for
    their context, too.
    """
    handlers = _handlers()
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()  # errors may lead into a circle
    while waiting:
        found = waiting.pop()
        if found is None or id(found) in seen:
            continue
        seen.add(id(found))
        if isinstance(found, KeyboardInterrupt) or _is_from(handlers, found):
            raise found
        if isinstance(found, BaseExceptionGroup):
            waiting += found.exceptions
        if not _is_handled_by_a_caller(found.__context__):
            waiting.append(found.__context__)
        waiting.append(found.__cause__)


def _is_handled_by_a_caller(error: BaseException | None) -> bool:
    """Whether the function that caught an error is still running."""
    if error is None or error.__traceback__ is None:
        return False
    caught, at = error.__traceback__.tb_frame, inspect.currentframe()
    while at is not None and at is not caught:
        at = at.f_back
    return at is not None


def is_of_a_handler(error: BaseException) -> bool:
    """Whether a handler of a signal has raised an error; native code asks, where it can raise none."""
    return _is_from(_handlers(), error)


def is_of_ctrl_c(error: BaseException) -> bool:
    """Whether Ctrl-C raises just such an error, so that to press it again is as good as to raise the error."""
    return type(error) is KeyboardInterrupt and signal.getsignal(signal.SIGINT) is signal.default_int_handler


def _handlers() -> set[CodeType | None]:
    return {_code(signal.getsignal(number)) for number in signal.valid_signals()} - {None}


def _is_from(handlers: set[CodeType | None], error: BaseException) -> bool:
    """Whether a call of a handler is among those that an error has ended."""
    at = error.__traceback__
    caller = None if at is None else at.tb_frame.f_back  # native code may have called the handler
    while at is not None:
        frame = at.tb_frame
        if frame.f_code in handlers or (caller is not None and _is_given(frame, caller)):
            return True
        at, caller = at.tb_next, frame
    return False


def _is_given(frame: FrameType, caller: FrameType) -> bool:
    """Whether a function has its caller's frame as an argument, as handlers have, those that are set no more too."""
    code, local = frame.f_code, frame.f_locals
    names = list(code.co_varnames[: code.co_argcount])
    values = [local.get(name) for name in names]
    if code.co_flags & inspect.CO_VARARGS:
        names.append(code.co_varnames[code.co_argcount + code.co_kwonlyargcount])
        rest = local.get(names[-1])
        values += rest if isinstance(rest, tuple) else ()
    return any(value is caller for value in values) or _has_dropped_it(frame, names)


def _has_dropped_it(frame: FrameType, names: list[str]) -> bool:
    """Whether a function that uses the module `signal` still has a signal's number, its first argument or the one after
    `self`, and has assigned or deleted the argument after it: a handler that unsets itself and walks up the frames."""
    code, local = frame.f_code, frame.f_locals
    if frame.f_globals.get("__name__") == signal.__name__ or not _uses_signal(frame):
        return False
    values = [local.get(name) for name in names[:2]]
    numbers = [type(value) in (int, signal.Signals) and value in signal.valid_signals() for value in values]
    after = {name for name, number in zip(names[1:], numbers, strict=False) if number}
    return bool(after) and not after.isdisjoint(_stored(code))


def _uses_signal(frame: FrameType) -> bool:
    """Whether a function names the module `signal` or one of its functions, not another thing of that name."""
    loaded = {
        each.argval for each in dis.get_instructions(frame.f_code) if each.opname.startswith("LOAD_GLOBAL")
    }
    values = [*map(frame.f_globals.get, loaded), *frame.f_locals.values()]
    return any(value is each for value in values for each in (signal, signal.signal, signal.setitimer))


def _stored(code: CodeType) -> Iterator[str]:
    """Names of local variables that code assigns or deletes."""
    for instruction in dis.get_instructions(code):
        if instruction.opname.startswith(("STORE_FAST", "DELETE_FAST", "STORE_DEREF", "DELETE_DEREF")):
            value = instruction.argval
            yield from value if isinstance(value, tuple) else (value,)


def _code(handler: object) -> CodeType | None:
    """The code of a handler that is written in Python."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    function = getattr(handler, "__func__", handler)
    if not hasattr(function, "__code__") and callable(function):
        function = type(function).__call__
    code = getattr(function, "__code__", None)
    return code if isinstance(code, CodeType) else None
