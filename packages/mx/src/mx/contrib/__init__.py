# SPDX-License-Identifier: Apache-2.0
"""`mx.contrib`: experimental parts of MXNet's interface. mx has `amp`, automatic mixed precision."""

from __future__ import annotations

import sys as _sys

from mx.absent import explain as _explain
from mx_core.imports import lazy

__getattr__, __dir__, __all__ = lazy(__name__, {}, ["amp"])

_explain(_sys.modules[__name__], [__name__])
