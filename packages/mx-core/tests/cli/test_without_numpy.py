# SPDX-License-Identifier: Apache-2.0
"""The command and the table of operators where there is no NumPy, as with the engine or the storage alone."""

import os
import subprocess
import sys
from importlib.metadata import entry_points

import pytest

from mx_core.cli import cli

REFUSED = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "numpy":
            raise ModuleNotFoundError("No module named 'numpy'", name="numpy")

sys.meta_path.insert(0, Refuse())
"""
COMMAND = REFUSED + "sys.argv[0] = 'mx'\nfrom mx_core.cli import main\nmain()"
OPERATOR = """
from mx_core import operators
from mx_core.operator import Array, Operator, SimpleOp

class Halved(Operator):
    name = "halved"

    def reference(self, p, inputs, ctx):
        return [inputs[0] / 2]

    def backward(self, p, out_grad: Array) -> Array:
        return out_grad / 2

with operators.temporary(Halved):
    print(*(name for name in operators.names() if "halved" in name))
"""


#: of distributions that do without NumPy
ALONE = {"mx-core", "mx-engine", "mx-storage"}
OTHERS = [point.name for point in entry_points(group="mx.plugins.v1") if point.dist.name not in ALONE]


def run(program, *arguments):
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env=os.environ | {"MX_DISABLE_PLUGINS": ",".join(OTHERS)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("name", [None, *sorted(cli.commands), "plugins check", "plugins show", "ops show"])
def test_every_command_has_its_help(name):
    done = run(COMMAND, *(name.split() if name else ()), "--help")
    assert done.returncode == 0 and "Usage: mx" in done.stdout, done.stderr


@pytest.mark.parametrize("name", ["plugins", "doctor", "ops"])
def test_the_commands_that_look_at_plugins_run(name):
    done = run(COMMAND, name)
    assert done.returncode in (0, 1) and done.stdout and not done.stderr, done.stderr


def test_checks_say_what_they_need(tmp_path):
    (tmp_path / "mx_acme-1.dist-info").mkdir()
    (tmp_path / "mx_acme-1.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: mx-acme\nVersion: 1\n"
    )
    (tmp_path / "mx_acme-1.dist-info" / "entry_points.txt").write_text("[mx.plugins.v1]\nacme = json\n")
    done = run(f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n" + COMMAND, "plugins", "check", "acme")
    assert (done.returncode, done.stderr) == (1, "Error: the checks need NumPy: No module named 'numpy'\n")


def test_operators_are_declared_and_listed():
    done = run(REFUSED + OPERATOR)
    assert (done.returncode, done.stdout) == (0, "_backward_halved halved\n"), done.stderr
