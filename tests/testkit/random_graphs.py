# SPDX-License-Identifier: Apache-2.0
"""Random graphs as functions that work on symbols and on arrays alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st

#: extents of every value
SHAPE = (4, 4)
NAMES = ("a", "b", "c")
UNARY = ("relu", "tanh", "sigmoid", "negative", "BlockGrad", "Flatten", "test_doubled")
KINDS = ("unary", "add", "mul", "scalar", "dense", "concat", "norm")
#: what needs a symbol: states, several outputs of which some are unused, values that only lend their shape
SYMBOLIC = ("batch_norm", "pair", "shape_only", "constant", "sum")

Run = Callable[[Any, Sequence[Any]], list[Any]]


@st.composite
def graphs(draw: Any, symbolic: bool = False) -> Run:
    """A function of (namespace, three values of SHAPE), which gives one to three more.

    Parameters
    ----------
    symbolic : it may only be called with symbols
    """
    kinds = (*KINDS, *SYMBOLIC) if symbolic else KINDS
    steps = []
    for n in range(3, 3 + draw(st.integers(1, 14))):
        picks = [draw(st.integers(0, n - 1)) for _ in range(2)]
        steps.append((draw(st.sampled_from(kinds)), draw(st.sampled_from(UNARY)), *picks))
    outputs = draw(st.lists(st.integers(0, 2 + len(steps)), min_size=1, max_size=3, unique=True))

    def run(space: Any, given: Sequence[Any]) -> list[Any]:
        values = list(given)
        for kind, unary, i, j in steps:
            values.append(_apply(space, kind, unary, values[i], values[j]))
        return [values[i] for i in outputs]

    return run


def _apply(space: Any, kind: str, unary: str, a: Any, b: Any) -> Any:
    if kind == "unary":
        return getattr(space, unary)(a)
    if kind == "add":
        return a + b
    if kind == "mul":
        return a * b * 0.5
    if kind == "scalar":
        return a * 0.5 - 1
    if kind == "dense":
        return space.FullyConnected(a, b, no_bias=True, num_hidden=4) * 0.1
    if kind == "concat":
        both = space.Concat(a, b, dim=1)
        return space.slice_axis(both, axis=1, begin=2, end=6)
    if kind == "norm":
        return space.softmax(a)
    if kind == "batch_norm":
        return space.BatchNorm(space.tanh(a), fix_gamma=False, eps=0.1)
    if kind == "pair":
        return space.test_pair(a)[0] + b
    if kind == "shape_only":
        return space.reshape_like(a, space.exp(b)) + space.ones_like(b)
    if kind == "constant":
        return a + space.sin(space.arange(0, 16).reshape(SHAPE))
    return space.broadcast_add(a, space.sum(b, axis=1, keepdims=True) * 0.1)
