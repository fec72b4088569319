# SPDX-License-Identifier: Apache-2.0
"""In which block arrays of shapes or types that do not fit have met."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mx_ndarray import NDArray

if TYPE_CHECKING:
    from mx_gluon.block.block import Block


def tell_where(block: Block, args: Sequence[Any], error: Exception) -> None:
    """Adds a note with a block's inputs and parameters to an error, unless a block within has added one."""
    if getattr(error, "__notes__", None):
        return
    given = [f"{each.shape} {np.dtype(each.dtype)}" for each in args if isinstance(each, NDArray)]
    own = [f"{param.name} {param.shape} {np.dtype(param.dtype)}" for param in block.params.values()]
    note = f"in block {block.name}, called with {', '.join(given) or 'no arrays'}"
    error.add_note(note + (f"; its parameters are {', '.join(own)}" if own else ""))
