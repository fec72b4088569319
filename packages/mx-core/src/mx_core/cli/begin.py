# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C while `mx` begins.

Python raises KeyboardInterrupt wherever the main thread is. In a callback, such as those of its import system, it lets
no error out, and the interrupt would be lost: of a second that a command takes to import what it needs, Python is in
such callbacks for a good part, since it looks for signals when a function begins. Nothing is to be cleared up before a
command runs. So Ctrl-C ends the process there and then, as it does programs that are not Python's.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

#: what the module `signal` is made of; it is part of the interpreter, so that nothing is imported here
_signal: Any = import_module("_signal")
_held = False


def begin() -> None:
    """Ctrl-C ends the process from now on, unless it does something else than Python has it do. Main thread."""
    global _held
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
        _held = True


def end() -> None:
    """A command begins: Ctrl-C raises KeyboardInterrupt again, if `begin` has changed that. Main thread."""
    global _held
    if _held and _signal.getsignal(_signal.SIGINT) is _signal.SIG_DFL:
        _signal.signal(_signal.SIGINT, _signal.default_int_handler)
    _held = False
