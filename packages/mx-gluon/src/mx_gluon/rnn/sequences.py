# SPDX-License-Identifier: Apache-2.0
"""Sequences as one array or symbol, or as one per step; those of unequal lengths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mx_gluon.errors import RefusedError
from mx_ndarray import NDArray, nd
from mx_symbol import sym
from mx_symbol.symbol import Symbol


def is_whole(data: Any) -> bool:
    """Whether it is one array or symbol, and not one per step."""
    return isinstance(data, (NDArray, Symbol))


def library(data: Any) -> Any:
    """`mx_ndarray.nd` or `mx_symbol.sym`, whichever computes with it."""
    first = data if is_whole(data) else data[0]
    return sym if isinstance(first, Symbol) else nd


def time_axis(layout: str) -> int:
    """The axis of steps.

    Raises
    ------
    RefusedError  the layout names no steps
    """
    if "T" not in layout:
        raise RefusedError(f"[unroll] layout: expected one such as TNC or NTC, got {layout!r}")
    return layout.find("T")


def batch_size(data: Any, layout: str) -> int:
    """Of arrays; 0, which is unknown, of symbols."""
    if library(data) is sym:
        return 0
    return int(data.shape[layout.find("N")] if is_whole(data) else data[0].shape[0])


def steps(length: int | None, data: Any, layout: str) -> list[Any]:
    """One array or symbol per step.

    Raises
    ------
    RefusedError  there are not as many steps as `length` says, or the symbol has several outputs
    """
    axis = time_axis(layout)
    if data is None or (not is_whole(data) and not len(data)):
        raise RefusedError(f"[unroll] inputs: expected arrays or symbols, got {data}")
    if not is_whole(data):
        if length is not None and len(data) != length:
            raise RefusedError(f"[unroll] inputs: expected {length} steps, got {len(data)}")
        return list(data)
    if isinstance(data, Symbol):
        if len(data.list_outputs()) != 1:
            raise RefusedError(
                f"[unroll] inputs: expected a symbol of one output, got {data.list_outputs()}; list(inputs) makes one "
                "of each"
            )
        return list(sym.split(data, axis=axis, num_outputs=length, squeeze_axis=1))
    if length is not None and data.shape[axis] != length:
        raise RefusedError(
            f"[unroll] inputs: expected {length} steps along axis {axis}, got shape {data.shape}"
        )
    parts = nd.split(data, axis=axis, num_outputs=data.shape[axis], squeeze_axis=1)
    return list(parts) if isinstance(parts, (list, tuple)) else [parts]


def whole(data: Any, layout: str) -> Any:
    """One array or symbol of all steps."""
    return data if is_whole(data) else library(data).stack(*data, axis=time_axis(layout))


def arranged(length: int | None, data: Any, layout: str, merge: bool | None) -> Any:
    """In one, one per step, or as it is, if that does not matter."""
    if merge is None:
        return data
    return whole(data, layout) if merge else steps(length, data, layout)


def masked(data: Any, length: int, valid_length: Any, layout: str, merge: bool | None) -> Any:
    """Zeros after the end of each sequence."""
    joined = whole(data, layout)
    F, axis = library(joined), time_axis(layout)
    kept = F.SequenceMask(joined, sequence_length=valid_length, use_sequence_length=True, axis=axis)
    return kept if merge else steps(length, kept, layout)


def backwards(data: Sequence[Any], valid_length: Any) -> list[Any]:
    """Steps in the other order, of each sequence up to its end."""
    if valid_length is None:
        return list(reversed(data))
    F = library(data)
    turned = F.SequenceReverse(F.stack(*data, axis=0), sequence_length=valid_length, use_sequence_length=True)
    return steps(len(data), turned, "TN")


def last_valid(states: Sequence[Sequence[Any]], valid_length: Any) -> list[Any]:
    """Of the states of every step those at the end of each sequence."""
    F = library(states[0])
    return [
        F.SequenceLast(F.stack(*each, axis=0), sequence_length=valid_length, use_sequence_length=True, axis=0)
        for each in zip(*states, strict=True)
    ]
