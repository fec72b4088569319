# SPDX-License-Identifier: Apache-2.0
"""Every assertion of the contract tests says what was found and what is expected."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import mx_core.testing

FILES = sorted(Path(mx_core.testing.__file__).parent.rglob("*.py"))


def silent(source: str) -> Iterator[int]:
    """Lines of assertions without a text of their own."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assert) and not isinstance(node.msg, (ast.Constant, ast.JoinedStr)):
            yield node.lineno


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_assertions_have_a_text(path: Path) -> None:
    assert list(silent(path.read_text())) == []


def test_assertions_without_one_are_found() -> None:
    assert list(silent("assert a\nassert a, b\nassert a, 'text'\nassert a, f'{b}'\n")) == [1, 2]
