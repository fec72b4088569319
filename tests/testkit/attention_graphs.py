# SPDX-License-Identifier: Apache-2.0
"""Graphs of attention as programs write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mx_symbol import sym

HEADS = 3


def cut(x: Any, heads: int = HEADS) -> Any:
    """(N, T, heads · depth) to (N · heads, T, depth)."""
    x = sym.reshape(x, shape=(0, 0, -4, heads, -1))
    return sym.reshape(sym.transpose(x, axes=(0, 2, 1, 3)), shape=(-3, -2))


def joined(x: Any, heads: int = HEADS) -> Any:
    """The way back."""
    x = sym.reshape(x, shape=(-4, -1, heads, 0, 0))
    return sym.reshape(sym.transpose(x, axes=(0, 2, 1, 3)), shape=(0, 0, -3))


def attention(q: Any, k: Any, v: Any, scale: Callable[[Any], Any] = lambda x: x * 0.5, **softmax: Any) -> Any:
    scores = scale(sym.batch_dot(q, k, transpose_b=True))
    return sym.batch_dot(sym.softmax(scores, **softmax), v)


def variables() -> list[Any]:
    return [sym.Variable(name) for name in ("q", "k", "v")]
