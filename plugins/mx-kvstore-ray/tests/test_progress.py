# SPDX-License-Identifier: Apache-2.0
"""What a start says while it lasts."""

from __future__ import annotations

import re
import threading

import pytest

pytest.importorskip("mx_kvstore_ray", reason="mx-kvstore-ray is not installed")

from mx_kvstore_ray.progress import saying


@pytest.mark.parametrize("at_once", [True, False])
def test_a_start_says_what_is_waited_for_until_it_is_over(at_once: bool) -> None:
    said: list[str] = []
    enough = threading.Event()

    def say(text: str) -> None:
        said.append(text)
        if len(said) == 3:
            enough.set()

    with pytest.raises(ZeroDivisionError), saying("starting Ray", say, at_once, 0.01):
        assert said[:1] == ["starting Ray…"] or not at_once
        assert enough.wait(20.0)
        raise ZeroDivisionError
    count = len(said)
    assert all(re.fullmatch(r"starting Ray, for \d+ s so far", text) for text in said[at_once:])
    assert not any(thread.name == "mx kvstore: progress" for thread in threading.enumerate())
    assert len(said) == count
