# SPDX-License-Identifier: Apache-2.0
"""Bulk scopes from Python."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from mx_core import services
from mx_core.errors import ArgumentError
from mx_engine import bulking

pytestmark = pytest.mark.timeout(60)


def test_scopes_nest_and_end_with_exceptions() -> None:
    assert bulking.set_bulk_size(7) == 0
    with bulking.bulk(3):
        assert bulking.set_bulk_size(4) == 3
    with pytest.raises(KeyError), bulking.bulk(5):
        raise KeyError
    assert bulking.set_bulk_size(0) == 7
    assert bulking.set_bulk_size(-1) == 0
    assert bulking.set_bulk_size(0) == 0


def test_a_scope_is_the_thread_s_own() -> None:
    seen: list[int] = []
    with bulking.bulk(9):
        thread = threading.Thread(target=lambda: seen.append(bulking.set_bulk_size(0)))
        thread.start()
        thread.join()
    assert seen == [0]


def test_operations_within_a_scope_run() -> None:
    engine = services.engine()
    variable, log = engine.new_variable(), []
    with bulking.bulk(10):
        for i in range(25):
            engine.push(lambda i=i: log.append(i), writes=[variable])
        engine.wait_for_variable(variable)
        assert log == list(range(25))


@pytest.mark.parametrize("size", [2**31, 2**80, 1.5, "2", None])
def test_bad_sizes(size: Any) -> None:
    with pytest.raises(ArgumentError, match="size: expected a whole number"):
        bulking.set_bulk_size(size)
