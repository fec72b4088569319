# SPDX-License-Identifier: Apache-2.0
import math

import numpy as np
import pytest

from mx_core import expression as X
from mx_core.errors import ArgumentError


def test_arithmetic_is_written_down_once() -> None:
    made = X.trace(lambda x: (x + 1) * (x + 1), 1)
    assert [step.opcode for step in made.instructions] == [X.Opcode.ADD, X.Opcode.MUL]


def test_commutative_operands_are_the_same_instruction() -> None:
    made = X.trace(lambda x, y: (x + y) - (y + x), 2)
    assert len(made.instructions) == 2


def test_dead_instructions_are_dropped() -> None:
    def function(x: X.Traced) -> X.Traced:
        X.exp(x)
        return x * 2

    assert [step.opcode for step in X.trace(function, 1).instructions] == [X.Opcode.MUL]


def test_branching_on_a_traced_value_names_where() -> None:
    with pytest.raises(ArgumentError, match="where"):
        X.trace(lambda x: x if x > 0 else -x, 1)


def test_math_functions_are_refused_with_the_cure() -> None:
    import math

    with pytest.raises(ArgumentError, match="mx_core.expression"):
        X.trace(lambda x: math.exp(x), 1)


def test_values_of_two_traces_do_not_mix() -> None:
    kept: list[X.Traced] = []
    X.trace(lambda x: kept.append(x) or x, 1)  # type: ignore[func-returns-value]
    with pytest.raises(ArgumentError, match="two different traces"):
        X.trace(lambda x: x + kept[0], 1)


def test_a_string_is_not_an_operand() -> None:
    with pytest.raises(ArgumentError, match="str"):
        X.trace(lambda x: x + "1", 1)


def test_powers_of_values_and_of_two() -> None:
    assert X.trace(lambda x, y: x**y, 2).instructions[0].opcode is X.Opcode.POW
    assert X.trace(lambda x: x**2, 1).instructions[0].opcode is X.Opcode.SQUARE
    assert X.trace(lambda x: 2**x, 1).instructions[0].opcode is X.Opcode.POW


def test_negative_zero_is_a_constant_of_its_own() -> None:
    made = X.trace(lambda x: (x * 0.0, x * -0.0, X.maximum(x, -0.0)), 1)
    assert [math.copysign(1, c) for c in made.constants] == [1, -1]
    first, second, _ = X.evaluate(made, [np.array([3.0])])
    assert not np.signbit(first[0])
    assert np.signbit(second[0])
