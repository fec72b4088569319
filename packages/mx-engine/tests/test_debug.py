# SPDX-License-Identifier: Apache-2.0
"""The debugging engine: what it refuses, in the words a user reads."""

from __future__ import annotations

import threading

import pytest

import mx_engine
from mx_core.errors import MXNetError
from mx_core.testing import EngineContract

pytestmark = pytest.mark.timeout(60)


class TestDebugEngine(EngineContract):
    def make_engine(self) -> mx_engine.Engine:
        return mx_engine.create("DebugEngine", workers=2)

    def test_an_operation_may_push_another(self) -> None:
        engine = self.make_engine()
        a, b, ran = engine.new_variable(), engine.new_variable(), []

        def push() -> None:
            own = engine.new_variable()
            engine.push(lambda: ran.append("own"), writes=(own,))
            engine.push(lambda: ran.append("declared"), writes=(b,))
            ran.append("pushed")

        engine.push(push, writes=(a, b))
        engine.wait_for_all()
        assert sorted(ran) == ["declared", "own", "pushed"]
        assert ran.index("pushed") < ran.index("declared")  # b is its pusher's until that ends


@pytest.fixture
def engine() -> mx_engine.Engine:
    return mx_engine.create("DebugEngine", workers=2)


def test_a_write_that_was_not_declared_is_refused(engine: mx_engine.Engine) -> None:
    declared, other = engine.new_variable(), engine.new_variable()

    def update() -> None:
        engine.push(lambda: None, writes=(other,), name="assign")

    engine.push(update, reads=(other,), writes=(declared,), name="update")
    with pytest.raises(MXNetError, match=r"\[assign\] writes a variable .* 'update' .*test_debug.py:"):
        engine.wait_for_variable(declared)
    assert engine.variable_version(other) == 0


def test_a_program_that_waits_for_itself_is_told_so(engine: mx_engine.Engine) -> None:
    a, b = engine.new_variable(), engine.new_variable()
    both = threading.Barrier(2)

    def waiting_for(variable: mx_engine.Variable) -> None:
        both.wait(20)
        engine.wait_for_variable(variable)

    engine.push(lambda: waiting_for(b), writes=(a,), name="left")
    engine.push(lambda: waiting_for(a), writes=(b,), name="right")
    with pytest.raises(MXNetError, match="would wait for itself: '(left|right)' .* waits for '(left|right)'"):
        engine.wait_for_all()


def test_it_counts_like_the_others(engine: mx_engine.Engine) -> None:
    variables = [engine.new_variable() for _ in range(50)]
    for i in range(500):
        engine.push(lambda: None, reads=(variables[i % 50],), writes=(variables[(i + 7) % 50],))
    engine.wait_for_all()
    assert [engine.variable_version(v) for v in variables] == [10] * 50
