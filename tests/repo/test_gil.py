# SPDX-License-Identifier: Apache-2.0
"""Extensions survive the end of the interpreter in a thread that is inside them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WRONG = re.compile(r"gil_scoped_release|gil_scoped_acquire")


def test_no_source_takes_the_gil_back_where_it_must_not_unwind() -> None:
    sources = [
        path
        for folder in ("packages", "plugins")
        for suffix in ("*.cc", "*.hpp")
        for path in (ROOT / folder).glob(f"*/csrc/**/{suffix}")
    ]
    assert len(sources) > 100
    found = [str(path.relative_to(ROOT)) for path in sources if WRONG.search(path.read_text())]
    assert not found, "use mx::GilRelease and mx::GilAcquire of mx_core/gil.hpp"


@pytest.mark.parametrize(
    "setup", sorted(ROOT.glob("packages/*/setup.py")), ids=lambda setup: setup.parent.name
)
def test_extensions_of_the_packages_have_the_guard_against_unwinding(setup: Path) -> None:
    text = "".join(path.read_text() for path in setup.parent.glob("csrc/**/*.*") if path.is_file())
    assert re.search(r'#include "mx_core/(gil|pybind|python|python_end|python_storage)\.hpp"', text)
