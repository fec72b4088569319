# SPDX-License-Identifier: Apache-2.0
"""Symbols that need no input: zeros, ones, ranges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mx_symbol.symbol import Symbol


def _create(operator: str, dtype: Any, /, **kwargs: Any) -> Symbol:
    from mx_symbol.symbol.functions import call

    return call(operator, dtype="float32" if dtype is None else dtype, **kwargs)


def zeros(shape: Sequence[int] | int, dtype: Any = None, **kwargs: Any) -> Symbol:
    """Zeros of a shape; float32 unless `dtype` says otherwise."""
    return _create("_zeros", dtype, shape=shape, **kwargs)


def ones(shape: Sequence[int] | int, dtype: Any = None, **kwargs: Any) -> Symbol:
    """Ones of a shape."""
    return _create("_ones", dtype, shape=shape, **kwargs)


def full(shape: Sequence[int] | int, val: float, dtype: Any = None, **kwargs: Any) -> Symbol:
    """A shape filled with one value."""
    return _create("_full", dtype, shape=shape, value=float(val), **kwargs)


def arange(
    start: float,
    stop: float | None = None,
    step: float = 1.0,
    repeat: int = 1,
    infer_range: bool = False,
    name: str | None = None,
    dtype: Any = None,
) -> Symbol:
    """Values from `start` (or 0) below `stop` in steps, each `repeat` times."""
    return _create(
        "_arange", dtype, start=start, stop=stop, step=step, repeat=repeat,
        infer_range=infer_range, name=name,
    )  # fmt: skip


def eye(N: int, M: int = 0, k: int = 0, dtype: Any = None, **kwargs: Any) -> Symbol:
    """N × M (or N × N) with ones on diagonal k."""
    return _create("_eye", dtype, N=N, M=M, k=k, **kwargs)


def linspace(
    start: float,
    stop: float,
    num: int,
    endpoint: bool = True,
    name: str | None = None,
    dtype: Any = None,
) -> Symbol:
    """`num` evenly spaced values from `start` to `stop`."""
    return _create("_linspace", dtype, start=start, stop=stop, num=num, endpoint=endpoint, name=name)


def split_v2(
    ary: Symbol,
    indices_or_sections: int | Sequence[int],
    axis: int = 0,
    squeeze_axis: bool = False,
) -> Symbol:
    """Partitions along an axis: equally many sections, or cut before the given indices."""
    from mx_symbol.symbol.functions import call

    if isinstance(indices_or_sections, int):
        cuts: dict[str, Any] = {"sections": indices_or_sections, "indices": ()}
    else:
        cuts = {"sections": 0, "indices": (0, *indices_or_sections)}
    return call("_split_v2", ary, axis=axis, squeeze_axis=squeeze_axis, **cuts)
