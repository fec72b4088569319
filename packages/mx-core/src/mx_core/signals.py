# SPDX-License-Identifier: Apache-2.0
"""Errors that handlers of signals raise in the middle of somebody else's code.

A program may end a long step by an alarm whose handler raises `TimeoutError`, or itself by SIGTERM and `sys.exit`. Such
an error arrives wherever the main thread happens to be, in code of a plug-in too, which is then not at fault.
"""

from __future__ import annotations

import functools
import signal
from types import CodeType


def let_pass(error: BaseException) -> None:
    """Raises an error again that a handler of a signal has raised; any other is left to the caller."""
    handlers = {_code(signal.getsignal(number)) for number in signal.valid_signals()} - {None}
    at = error.__traceback__
    while handlers and at is not None:
        if at.tb_frame.f_code in handlers:
            raise error
        at = at.tb_next


def _code(handler: object) -> CodeType | None:
    """The code of a handler that is written in Python."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    function = getattr(handler, "__func__", handler)
    if not hasattr(function, "__code__") and callable(function):
        function = type(function).__call__
    code = getattr(function, "__code__", None)
    return code if isinstance(code, CodeType) else None
