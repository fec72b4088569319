# SPDX-License-Identifier: Apache-2.0
"""In which block arrays of shapes or types that do not fit have met."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from mx_core import dtypes
from mx_core.errors import ShapeError
from mx_ndarray import NDArray

if TYPE_CHECKING:
    from mx_gluon.block.block import Block


#: why an error may blame a parameter where the input is wrong
_KEPT = "; parameters keep the shapes that were given or that the first inputs gave, so the input may be what is wrong"


def tell_where(block: Block, args: Sequence[Any], error: Exception) -> None:
    """Adds a note with a block's inputs and parameters to an error, unless a block within has added one."""
    if getattr(error, "__notes__", None):
        return
    with suppress(
        Exception
    ):  # such as that of an input, whose shape cannot be told then: this error is the one to see
        kept = isinstance(error, ShapeError) and len(block.collect_params()) > 0
        error.add_note(_note(block, args) + (_KEPT if kept else ""))


def _note(block: Block, args: Sequence[Any]) -> str:
    given = [f"{each.shape} {dtypes.name(each._dtype_code)}" for each in args if isinstance(each, NDArray)]
    own = [
        f"{param.name} {param.shape} {dtypes.name(dtypes.code(param.dtype))}"
        for param in block.params.values()
    ]
    note = f"in block {block.name}, called with {', '.join(given) or 'no arrays'}"
    return note + (f"; its parameters are {', '.join(own)}" if own else "")
