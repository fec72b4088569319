# SPDX-License-Identifier: Apache-2.0
"""The table with which operators are registered has what the modules declare."""

from __future__ import annotations

import subprocess
import sys

from mx_core import operators
from mx_core.operator import later
from mx_operators.operator_table import OPERATORS


def test_the_table_is_that_of_the_declarations() -> None:
    cure = "run python -m mx_core.operator.later mx_operators src/mx_operators/operator_table.py"
    assert later.table("mx_operators") == OPERATORS, cure


def test_every_name_is_known_before_its_module_is_imported() -> None:
    program = """
import sys
from mx_core import operators
before = set(operators.names())
assert not [name for name in sys.modules if name.startswith("mx_operators.nn")]
assert operators.get("_backward_Convolution").backward_of is operators.get("Convolution")
assert "mx_operators.nn.convolution" in sys.modules and "mx_operators.rnn.rnn" not in sys.modules
for name in before:
    operators.get(name)
assert set(operators.names()) == before
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_backward_operator_that_is_declared_on_its_own_is_that_of_its_operator() -> None:
    assert operators.get("_backward_LeakyReLU").backward_of is operators.get("LeakyReLU")
