# SPDX-License-Identifier: Apache-2.0
"""Threads that push with variables which another thread deletes: each push runs, or is refused."""

from __future__ import annotations

import threading

from threads import ROUNDS, beside

from mx_core.errors import ArgumentError
from mx_engine import Engine

ENGINES = [Engine("deleted variables"), Engine("deleted variables, naive", naive=True)]


def work(engine: Engine, thread: int, current: list[object], counted: list[int]) -> None:
    """The first thread deletes the variable and puts another in its place; others push and wait with it."""
    for _ in range(400 * ROUNDS):
        variable = current[0]
        try:
            if thread == 0:
                current[0] = engine.new_variable()
                engine.delete_variable(variable)
            else:
                engine.push(lambda: counted.append(1), writes=[variable])
                engine.wait_for_variable(variable)
        except ArgumentError as error:
            assert "deleted" in str(error)


if __name__ == "__main__":
    for engine in ENGINES:
        current, counted = [engine.new_variable()], []
        beside(lambda thread: work(engine, thread, current, counted), 4)
        engine.wait_for_all()
        assert counted
    assert threading.active_count() == 1
    print("done")
