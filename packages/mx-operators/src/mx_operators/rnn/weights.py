# SPDX-License-Identifier: Apache-2.0
"""The parameter vector of a recurrent stack.

Weights first, then biases; each by layer, then by direction, then W (of the input) before R (of the
state), and after them P, the projection of the state, if there is one. A layer above the first one
reads all directions of the layer below.
"""

from __future__ import annotations

from typing import NamedTuple

from mx_core.operator import Array
from mx_operators.rnn.cells import CELLS
from mx_operators.rnn.params import RNNParam


class Weights(NamedTuple):
    """Of one layer and direction: W (G·H, I), R (G·H, O), P (O, H) or None, b_W and b_R (G·H)."""

    w: Array
    r: Array
    p: Array | None
    b_w: Array
    b_r: Array


def directions(p: RNNParam) -> int:
    """1, or 2 when bidirectional."""
    return 2 if p.bidirectional else 1


def state_width(p: RNNParam) -> int:
    """O, the values a direction shows per step: those of the projection, or the units H."""
    return int(p.state_size if p.projection_size is None else p.projection_size)


def parameter_count(p: RNNParam, input_size: int) -> int:
    """Length of the parameter vector."""
    rows, width = CELLS[p.mode].gates * p.state_size, state_width(p)
    above = directions(p) * width
    read = input_size + (p.num_layers - 1) * above + p.num_layers * (width + 2)
    projections = p.num_layers * width * p.state_size if p.projection_size is not None else 0
    return int(directions(p) * (rows * read + projections))


def split(p: RNNParam, vector: Array, input_size: int) -> list[Weights]:
    """Views of the vector, per layer and direction."""
    rows, width = CELLS[p.mode].gates * p.state_size, state_width(p)
    begin = 0

    def take(*shape: int) -> Array:
        nonlocal begin
        size = shape[0] * (shape[1] if len(shape) > 1 else 1)
        begin += size
        return vector[begin - size : begin].reshape(shape)

    matrices = []
    for layer in range(p.num_layers):
        inputs = input_size if layer == 0 else directions(p) * width
        for _ in range(directions(p)):
            w, r = take(rows, inputs), take(rows, width)
            matrices.append((w, r, None if p.projection_size is None else take(width, p.state_size)))
    return [Weights(w, r, projection, take(rows), take(rows)) for w, r, projection in matrices]
