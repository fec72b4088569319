# SPDX-License-Identifier: Apache-2.0
"""What the stand-in for cuDNN was told to refuse, and what it has run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

LOG = os.environ.get("FAKE_CUDNN_LOG")
REFUSED = os.environ.get("FAKE_CUDNN_REFUSES", "")


def told() -> list[str]:
    """A line for each graph that it has run since it was last asked."""
    assert LOG is not None, "FAKE_CUDNN_LOG is not set"
    path = Path(LOG)
    lines = path.read_text().splitlines() if path.exists() else []
    path.unlink(missing_ok=True)
    return lines


def told_all(test: Any) -> Any:
    """A test of what a stand-in runs that refuses nothing."""
    return test if LOG is not None and not REFUSED else None
