# SPDX-License-Identifier: Apache-2.0
"""Batches that an iterator gives as a list, one batch of equal shape for each context."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mx_core.errors import ShapeError
from mx_io.io import DataBatch, DataDesc

#: one batch for all contexts, or one for each
Batch = DataBatch | list[DataBatch]


def is_in_parts(batch: Any) -> bool:
    """Whether it has a batch for each context. A named tuple is one batch."""
    return isinstance(batch, list)


def parts_of(batch: Any) -> list[Any]:
    """The batches of a list, or the one batch."""
    return list(batch) if is_in_parts(batch) else [batch]


def pad_of(batch: Any) -> int:
    """How many examples at the end of one batch are padding; batches of scripts may have data and labels only."""
    return getattr(batch, "pad", 0) or 0


def whole_shapes(parts: Sequence[Sequence[Any]], described: Sequence[DataDesc]) -> list[tuple[int, ...]]:
    """Shapes of the arrays of a whole batch, from those of each part.

    Raises
    ------
    ShapeError  parts differ in shape, or in their number of arrays
    """
    shapes = [[tuple(array.shape) for array in part] for part in parts]
    if any(each != shapes[0] for each in shapes):
        raise ShapeError(f"[Module] batches of several contexts: expected equal shapes, got {shapes}")
    if len(parts) == 1:
        return shapes[0]
    whole = []
    for shape, desc in zip(shapes[0], described, strict=False):
        axis = DataDesc.get_batch_axis(desc.layout)
        whole.append(tuple(n * len(parts) if i == axis else n for i, n in enumerate(shape)))
    return whole
