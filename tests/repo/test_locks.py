# SPDX-License-Identifier: Apache-2.0
"""No lock of the standard library hides in what threads share: a forked child would find it taken for ever."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_cached_properties_take_no_lock() -> None:
    found = [
        str(path.relative_to(ROOT))
        for src in [*ROOT.glob("packages/*/src"), *ROOT.glob("plugins/*/src")]
        for path in src.rglob("*.py")
        if re.search(r"from functools import .*cached_property|functools\.cached_property", path.read_text())
        and path.name != "cached.py"
    ]
    assert not found, "mx_core.cached.cached_property takes none"
