# SPDX-License-Identifier: Apache-2.0
"""Keeps a `sys.exit` in a plug-in from ending the user's program."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mx_core.errors import PluginError
from mx_core.signals import let_pass


@contextmanager
def exits_refused(what: str) -> Iterator[None]:
    """Turns a `sys.exit` in the block into a PluginError; KeyboardInterrupt and handlers of signals pass.

    Raises
    ------
    PluginError  in place of SystemExit; it names `what`
    """
    try:
        yield
    except SystemExit as error:
        raise refusal(what, error) from error


def refusal(what: str, error: SystemExit) -> PluginError:
    """What stands for a `sys.exit` of a plug-in; where a block would cost too much, callers catch it themselves.

    Raises
    ------
    SystemExit  a handler of a signal has raised it
    """
    let_pass(error)
    return PluginError(f"{what} ends the program: {error!r}")
