# SPDX-License-Identifier: Apache-2.0
"""The parameter vector of a recurrent stack.

Weights first, then biases; each by layer, then by direction, then W (of the input) before R (of the
state). A layer above the first one reads all directions of the layer below.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from mx_operators.rnn.cells import CELLS


class Weights(NamedTuple):
    """Of one layer and direction: W (G·H, I), R (G·H, H), b_W and b_R (G·H)."""

    w: Any
    r: Any
    b_w: Any
    b_r: Any


def directions(p: Any) -> int:
    """1, or 2 when bidirectional."""
    return 2 if p.bidirectional else 1


def parameter_count(p: Any, input_size: int) -> int:
    """Length of the parameter vector."""
    rows = CELLS[p.mode].gates * p.state_size * directions(p)
    above = directions(p) * p.state_size
    return int(rows * (input_size + (p.num_layers - 1) * above + p.num_layers * (p.state_size + 2)))


def split(p: Any, vector: Any, input_size: int) -> list[Weights]:
    """Views of the vector, per layer and direction."""
    rows = CELLS[p.mode].gates * p.state_size
    begin = 0

    def take(*shape: int) -> Any:
        nonlocal begin
        size = shape[0] * (shape[1] if len(shape) > 1 else 1)
        begin += size
        return vector[begin - size : begin].reshape(shape)

    matrices = []
    for layer in range(p.num_layers):
        inputs = input_size if layer == 0 else directions(p) * p.state_size
        matrices += [(take(rows, inputs), take(rows, p.state_size)) for _ in range(directions(p))]
    return [Weights(w, r, take(rows), take(rows)) for w, r in matrices]
