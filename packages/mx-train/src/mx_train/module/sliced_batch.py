# SPDX-License-Identifier: Apache-2.0
"""Sliced batches: an iterator may give a list, with a batch of equal shape for each context."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mx_core.errors import ArgumentError, ShapeError
from mx_io.io import DataBatch, DataDesc

if TYPE_CHECKING:
    from mx_train.module.executor_group import ExecutorGroup

#: one batch for all contexts, or one for each
Batch = DataBatch | list[DataBatch]


def is_sliced(batch: Any) -> bool:
    """Whether it has a batch for each context. A named tuple is one batch."""
    return isinstance(batch, list)


def slices_of(batch: Any) -> list[Any]:
    """The batches of a list, or the one batch."""
    return list(batch) if is_sliced(batch) else [batch]


def contents_of(batch: Any, contexts: int) -> list[tuple[Sequence[Any], Sequence[Any]]]:
    """(data, labels) of the batch, or of that of each context.

    Raises
    ------
    ArgumentError  a list has another number of batches than there are contexts
    """
    parts = slices_of(batch)
    if len(parts) not in (1, contexts):
        raise ArgumentError(f"[Module] expected {contexts} batches, one per context, got {len(parts)}")
    return [(each.data, getattr(each, "label", None) or []) for each in parts]


def pad_of(batch: Any) -> int:
    """How many examples at the end of one batch are padding; batches of scripts may have data and labels only."""
    return getattr(batch, "pad", 0) or 0


def whole_shapes(
    group: ExecutorGroup, parts: Sequence[tuple[Sequence[Any], Sequence[Any]]]
) -> tuple[list[DataDesc], list[DataDesc]] | None:
    """Data and labels of the size that (data, labels) of each part make together; None where it is the group's.

    Labels that a batch lacks have as many examples as its data.

    Raises
    ------
    ShapeError  parts differ in shape, or in their number of arrays
    """
    data = _joined([each for each, _ in parts], group.data_shapes)
    if data == [tuple(d.shape) for d in group.data_shapes]:
        return None
    label = _joined([each for _, each in parts], group.label_shapes)
    label = label or [(data[0][0], *d.shape[1:]) for d in group.label_shapes]
    return (
        [DataDesc(d.name, s, d.dtype, d.layout) for d, s in zip(group.data_shapes, data, strict=True)],
        [DataDesc(d.name, s, d.dtype, d.layout) for d, s in zip(group.label_shapes, label, strict=False)],
    )


def _joined(parts: Sequence[Sequence[Any]], described: Sequence[DataDesc]) -> list[tuple[int, ...]]:
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
