# SPDX-License-Identifier: Apache-2.0
"""`mx.util`: how shapes of symbols are read."""

from __future__ import annotations

import sys as _sys

from mx.absent import explain as _explain
from mx_symbol.graph.shape_mode import is_np_shape, np_shape, set_np_shape, use_np_shape

__all__ = ["is_np_shape", "np_shape", "set_np_shape", "use_np_shape"]

_explain(_sys.modules[__name__], [__name__])
