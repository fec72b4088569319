# SPDX-License-Identifier: Apache-2.0
"""What does not fit is refused with function, argument and value; no C++ type shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mx_core import context
from mx_core.errors import ArgumentError
from mx_storage import Random, StorageManager, managers

WHOLE = f"a whole number from 0 to {2**64 - 1}"

WRONG: list[tuple[Callable[[Any, Any], object], str]] = [
    (lambda m, r: m.alloc(-1), f"[StorageManager.alloc] nbytes: expected {WHOLE}, got -1"),
    (lambda m, r: m.alloc(2**64), f"[StorageManager.alloc] nbytes: expected {WHOLE}, got {2**64}"),
    (lambda m, r: m.alloc(1.5), f"[StorageManager.alloc] nbytes: expected {WHOLE}, got 1.5"),
    (lambda m, r: m.alloc("8"), f"[StorageManager.alloc] nbytes: expected {WHOLE}, got '8'"),
    (lambda m, r: m.alloc(8, "cpu"), "[StorageManager] ctx: expected a Context such as cpu(), got 'cpu'"),
    (lambda m, r: m.alloc(8, tag=3), "[StorageManager.alloc] tag: expected a str or None, got 3"),
    (
        lambda m, r: m.alloc(8, tag="\ud800"),
        "[StorageManager.alloc] tag: expected a str or None, got '\\ud800'",
    ),
    (lambda m, r: m.set_limit(-1), f"[StorageManager.set_limit] nbytes: expected {WHOLE}, got -1"),
    (lambda m, r: m.set_limit(None), f"[StorageManager.set_limit] nbytes: expected {WHOLE}, got None"),
    (lambda m, r: m.set_limit(8, 0), "[StorageManager] ctx: expected a Context such as cpu(), got 0"),
    (lambda m, r: m.stats("gpu"), "[StorageManager] ctx: expected a Context such as cpu(), got 'gpu'"),
    (lambda m, r: m.listen(-2), f"[StorageManager.listen] capacity: expected {WHOLE}, got -2"),
    (lambda m, r: m.segment(None), f"[StorageManager.segment] address: expected {WHOLE}, got None"),
    (
        lambda m, r: m.attach(2**31, 8),
        f"[StorageManager.attach] fd: expected a whole number from {-(2**31)} to {2**31 - 1}, got {2**31}",
    ),
    (lambda m, r: StorageManager(3), "[StorageManager] name: expected a str, got 3"),
    (lambda m, r: StorageManager("x", pool=b"naive"), "[StorageManager] pool: expected a str, got b'naive'"),
    (
        lambda m, r: StorageManager("x", page_size="4k"),
        f"[StorageManager] page_size: expected {WHOLE}, got '4k'",
    ),
    (lambda m, r: Random(None), "[Random] name: expected a str, got None"),
    (lambda m, r: r.seed(-1), f"[Random.seed] seed: expected {WHOLE}, got -1"),
    (lambda m, r: r.seed(1, "cpu"), "[Random] ctx: expected a Context such as cpu(), got 'cpu'"),
    (lambda m, r: r.reserve(1.0), f"[Random.reserve] blocks: expected {WHOLE}, got 1.0"),
]


@pytest.mark.parametrize(("call", "said"), WRONG, ids=[said.split(",")[-1] for _, said in WRONG])
def test_what_is_wrong_is_named(call: Callable[[Any, Any], object], said: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        call(managers.pooled(), Random("test"))
    assert str(caught.value) == said


def test_numbers_of_numpy_are_numbers() -> None:
    manager = managers.pooled()
    manager.set_limit(np.uint64(1 << 20))
    assert manager.alloc(np.int64(100), context.cpu(0)).nbytes == 100
    assert manager.stats().bytes_limit == 1 << 20


def test_an_error_of_the_object_itself_is_its_own() -> None:
    class Broken:
        def __index__(self) -> int:
            raise ZeroDivisionError("its own")

        @property
        def device_typeid(self) -> int:
            raise ZeroDivisionError("its own")

    manager = managers.pooled()
    for call in (lambda: manager.alloc(Broken()), lambda: manager.stats(Broken())):  # type: ignore[arg-type]
        with pytest.raises(ZeroDivisionError, match="its own"):
            call()
