# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C while the command `mx` begins, also where Python lets no error out."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

#: sends itself Ctrl-C in a callback while a module is looked for
BEGIN = """
import os, signal, sys, weakref

class Thing: pass

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "mx_core.cli.group":
            thing = Thing()
            reference = weakref.ref(thing, lambda _: os.kill(os.getpid(), signal.SIGINT))
            del thing

signal.signal(signal.SIGINT, {handler})
sys.meta_path.insert(0, Finder())
sys.argv = ["mx", "ask"]
from mx_core.cli import main
try:
    main()
finally:
    print("went on")
"""

ASKS = """
import click, signal, sys
sys.argv = ["mx", "ask"]
from mx_core.cli import cli, main

def ask():
    print(signal.getsignal(signal.SIGINT) is {handler})

cli.add_command(click.Command("ask", callback=ask))
main()
"""


def run(program: str, handler: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-c", program.format(handler=handler)]
    return subprocess.run(words, capture_output=True, text=True, timeout=120)


def test_ctrl_c_in_a_callback_of_an_import_is_not_lost() -> None:
    done = run(BEGIN, "signal.default_int_handler")
    assert done.returncode == -signal.SIGINT and "went on" not in done.stdout, done.stderr


def test_what_is_ignored_stays_ignored() -> None:
    done = run(BEGIN, "signal.SIG_IGN")
    assert done.returncode == 2 and "went on" in done.stdout and "No such command 'ask'" in done.stderr


@pytest.mark.parametrize("handler", ["signal.default_int_handler", "signal.SIG_IGN"])
def test_a_command_has_the_handler_of_before(handler: str) -> None:
    done = run(f"import signal; signal.signal(signal.SIGINT, {handler})\n{ASKS}", handler)
    assert done.stdout == "True\n", done.stderr


def test_an_import_changes_no_handler() -> None:
    program = (
        "import signal; from mx_core.cli import cli; print(signal.getsignal(signal.SIGINT) is {handler})"
    )
    assert run(f"import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n{program}",
               "signal.default_int_handler").stdout == "True\n"  # fmt: skip
