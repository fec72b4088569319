# SPDX-License-Identifier: Apache-2.0
"""`mx.util`: how shapes of symbols are read."""

from __future__ import annotations

from mx_symbol.graph.shape_mode import is_np_shape, np_shape, set_np_shape, use_np_shape

__all__ = ["is_np_shape", "np_shape", "set_np_shape", "use_np_shape"]
