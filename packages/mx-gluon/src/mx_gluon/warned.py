# SPDX-License-Identifier: Apache-2.0
"""Warnings at the line of the program that called Gluon, however deep in it they arise."""

from __future__ import annotations

import sys
import warnings
from types import FrameType


def warn(text: str) -> None:
    """A UserWarning at the innermost line outside of this package."""
    level = 2
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "mx_gluon":
        frame, level = frame.f_back, level + 1
    warnings.warn(text, stacklevel=level)
