# SPDX-License-Identifier: Apache-2.0
"""Extensions release the GIL in the one way that survives the end of the interpreter."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
WRONG = re.compile(r"gil_scoped_release|gil_scoped_acquire")


def test_no_source_takes_the_gil_back_where_it_must_not_unwind() -> None:
    sources = [
        path
        for folder in ("packages", "plugins")
        for suffix in ("*.cc", "*.h", "*.hpp")
        for path in (ROOT / folder).glob(f"*/csrc/**/{suffix}")
    ]
    assert len(sources) > 100
    found = [str(path.relative_to(ROOT)) for path in sources if WRONG.search(path.read_text())]
    assert not found, "use mx::GilRelease and mx::GilAcquire of mx_core/gil.hpp"
