# SPDX-License-Identifier: Apache-2.0
"""Version of the distribution and the place of its C headers."""

from __future__ import annotations

import os

__version__ = "0.1.0"


def get_include() -> str:
    """Directory to put on the include path for `#include "mx_core/abi.h"`."""
    return os.path.join(os.path.dirname(__file__), "include")
