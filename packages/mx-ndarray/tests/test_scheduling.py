# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import threading
from typing import Any

import pytest

import mx_ndarray
from mx_core.errors import ArgumentError
from mx_ndarray import _core


def test_blocks_nest_and_belong_to_their_thread() -> None:
    seen: list[int] = []
    outer = mx_ndarray.priority(4)
    with outer:
        with mx_ndarray.priority(-1), outer:
            pass
        thread = threading.Thread(target=lambda: seen.append(_core.set_priority(0)))
        thread.start()
        thread.join()
        seen.append(_core.set_priority(4))
    seen.append(_core.set_priority(0))
    assert seen == [0, 4, 0]


@pytest.mark.parametrize("wrong", [1.5, "high", 2**31, -(2**31) - 1])
def test_what_is_no_priority(wrong: Any) -> None:
    with pytest.raises(ArgumentError, match="32 bits"):
        mx_ndarray.priority(wrong)
