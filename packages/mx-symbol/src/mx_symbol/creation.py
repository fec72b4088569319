# SPDX-License-Identifier: Apache-2.0
"""Symbols that need no input: zeros, ones, ranges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mx_symbol.symbol import Symbol


def _create(operator: str, dtype: Any, /, **kwargs: Any) -> Symbol:
    from mx_symbol.functions import call

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
