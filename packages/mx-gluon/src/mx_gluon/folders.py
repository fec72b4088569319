# SPDX-License-Identifier: Apache-2.0
"""Where MXNet keeps what it has fetched."""

from __future__ import annotations

import os
from pathlib import Path


def data_folder(*below: str) -> Path:
    """A folder below `MXNET_HOME`, by default `.mxnet` of the user."""
    return Path(os.environ.get("MXNET_HOME") or Path.home() / ".mxnet").joinpath(*below)
