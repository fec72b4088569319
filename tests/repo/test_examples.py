# SPDX-License-Identifier: Apache-2.0
"""Every operator has an example in the reference; it runs, and shows numbers."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from generate import examples

ROOT = Path(__file__).parents[2]


@cache
def recorded() -> Any:
    return examples.recorded_cases(ROOT / "tests" / "oracle" / "operators")


@pytest.mark.parametrize("op", examples.shown_operators(), ids=lambda op: op.name)
def test_every_operator_has_an_example(op: Any) -> None:
    lines = examples.example(op, recorded().get(op.name, []))
    code = [line for line in lines if line.startswith(">>> ")]
    assert any("mx." in line for line in code) and not lines[-1].startswith(">>>"), "it shows nothing"
    assert examples.session("\n".join(line[4:] for line in lines if line[:4] in (">>> ", "... "))) == lines


def test_examples_written_by_hand_are_of_operators() -> None:
    names = {op.name for op in examples.shown_operators()}
    assert set(examples.hand_written()) <= names | {"moving_average"}, "the plug-in may be missing"


def test_what_a_session_shows() -> None:
    assert examples.session("x = 1\nx + 1\nfor i in range(2):\n    x += i\nx") == [
        ">>> x = 1", ">>> x + 1", "2", ">>> for i in range(2):", "...     x += i", "...", ">>> x", "2",
    ]  # fmt: skip


def test_a_session_shows_comments_and_decorators() -> None:
    code = "x = 1  # one\n@staticmethod\ndef f(): ...\nx  # still"
    assert examples.session(code) == [
        ">>> x = 1  # one", ">>> @staticmethod", "... def f(): ...", "...", ">>> x  # still", "1",
    ]  # fmt: skip


def test_an_operator_that_nothing_shows_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examples, "made_up", lambda op, cases: iter(["1 / mx"]))
    monkeypatch.setattr(examples, "hand_written", dict)
    with pytest.raises(LookupError, match=r"no example of relu works; write one into examples\.toml"):
        examples.example(examples.operators.get("relu"), [])
