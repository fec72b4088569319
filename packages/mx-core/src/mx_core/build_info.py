# SPDX-License-Identifier: Apache-2.0
"""Version of the distribution and the place of its C headers."""

from __future__ import annotations

from pathlib import Path

__version__ = "0.1.0"


def get_include() -> str:
    """Directory to put on the include path for `#include "mx_core/abi.h"`."""
    return str(Path(__file__).parent / "include")
