# SPDX-License-Identifier: Apache-2.0
"""Parts of batches for several devices: functions that programs with modules of their own import from MXNet's files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mx_core.errors import ArgumentError
from mx_ndarray import NDArray, nd

#: arrays to fill: one for a whole batch, or each with the slice of the batch that it gets
Targets = NDArray | Sequence[tuple[slice, NDArray]]


def _load_general(
    data: Sequence[Any], targets: Sequence[Targets], major_axis: Sequence[int] | None = None
) -> None:
    """Copies the arrays of a batch into those of the devices.

    Parameters
    ----------
    data : sequence of NDArray, or of sequences of them
        Of each input the batch, or its parts, one per device.
    targets : as many as `data`
    major_axis : sequence of int, optional
        Of each input the axis of the examples, by default 0; below 0 every device gets the whole batch.

    Raises
    ------
    ArgumentError  the three are not of the same number
    """
    axes = [0] * len(data) if major_axis is None else list(major_axis)
    if not len(data) == len(targets) == len(axes):
        raise ArgumentError(
            f"[load] expected as many arrays as targets and axes, got {len(data)}, {len(targets)} and {len(axes)}"
        )
    for source, target, axis in zip(data, targets, axes, strict=True):
        if isinstance(target, NDArray):
            source.copyto(target)
        elif isinstance(source, NDArray):
            for part, array in target:
                _part(source, part, axis).copyto(array)
        else:
            for one, (_, array) in zip(source, target, strict=True):
                one.copyto(array)


def _part(source: NDArray, part: slice, axis: int) -> NDArray:
    if axis < 0 or (part.start, part.stop) == (0, source.shape[axis]):
        return source
    taken: NDArray = nd.slice_axis(source, axis=axis, begin=part.start, end=part.stop)
    return taken


def _load_data(batch: Any, targets: Sequence[Targets], major_axis: Sequence[int] | None = None) -> None:
    """Copies a batch's data; as `_load_general`."""
    _load_general(batch.data, targets, major_axis)


def _load_label(batch: Any, targets: Sequence[Targets], major_axis: Sequence[int] | None = None) -> None:
    """Copies a batch's labels; as `_load_general`."""
    _load_general(batch.label, targets, major_axis)


def _merge_multi_context(outputs: Sequence[Sequence[NDArray]], major_axis: Sequence[int]) -> list[NDArray]:
    """Of each output the parts of all devices joined along its axis, on the first device; the first part where the
    axis is below 0."""
    return [
        parts[0]
        if axis < 0 or len(parts) == 1
        else nd.concat(*(part.as_in_context(parts[0].context) for part in parts), dim=axis)
        for parts, axis in zip(outputs, major_axis, strict=True)
    ]
