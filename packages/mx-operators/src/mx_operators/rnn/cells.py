# SPDX-License-Identifier: Apache-2.0
"""One step of a recurrent layer and its gradient, for each kind of cell.

A step gets a = W·x + b_W and r = R·h + b_R, with the gates side by side along the last axis.

Sources: Elman, Finding structure in time, 1990; Hochreiter and Schmidhuber, Long short-term memory,
1997; Cho et al., Learning phrase representations using RNN encoder-decoder, EMNLP 2014 (with the reset
gate after the recurrent product).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mx_core.operator import Array, Arrays
from mx_operators.rnn.params import RNNParam


class Step(NamedTuple):
    """What a step gives: the states, and what its gradient needs."""

    h: Array
    c: Array
    kept: tuple[Array, ...]


class StepGradient(NamedTuple):
    """Gradients with respect to a, r, and the previous states other than through r."""

    a: Array
    r: Array
    h: Array | float
    c: Array


def sigmoid(x: Array) -> Array:
    """1/(1 + e⁻ˣ) without overflow."""
    return 0.5 * (1 + np.tanh(0.5 * x))


class Cell:
    """A kind of cell; `gates` products are made per unit."""

    gates = 1
    has_cell_state = False

    def forward(self, a: Array, r: Array, h: Array, c: Array) -> Step:
        """The new states."""
        raise NotImplementedError

    def backward(self, kept: Arrays, dh: Array, dc: Array) -> StepGradient:
        """From gradients of the new states."""
        raise NotImplementedError


class Tanh(Cell):
    """h′ = tanh(a + r)."""

    def forward(self, a: Array, r: Array, h: Array, c: Array) -> Step:
        """Elman's cell."""
        new = np.tanh(a + r)
        return Step(new, c, (new,))

    def backward(self, kept: Arrays, dh: Array, dc: Array) -> StepGradient:
        """The slope of tanh from its value."""
        d = dh * (1 - kept[0] ** 2)
        return StepGradient(d, d, 0, dc)


class Relu(Cell):
    """h′ = max(a + r, 0)."""

    def forward(self, a: Array, r: Array, h: Array, c: Array) -> Step:
        """Elman's cell with a rectifier."""
        new = np.maximum(a + r, 0)
        return Step(new, c, (new,))

    def backward(self, kept: Arrays, dh: Array, dc: Array) -> StepGradient:
        """Where the value is positive."""
        d = np.where(kept[0] > 0, dh, 0)
        return StepGradient(d, d, 0, dc)


@dataclass(frozen=True)
class Clip:
    """Bounds of a cell state; without a bound there is none on that side."""

    low: float | None
    high: float | None
    replaces_nan: bool

    def __call__(self, c: Array) -> tuple[Array, Array]:
        """The clipped state, and where it is as it was."""
        low = -np.inf if self.low is None else self.low
        high = np.inf if self.high is None else self.high
        free = (c >= low) & (c <= high)
        clipped = np.clip(c, low, high)
        if self.replaces_nan:
            clipped = np.where(np.isnan(c), high if self.low is None else low, clipped)
        return clipped.astype(c.dtype), free


@dataclass(frozen=True)
class LSTM(Cell):
    """c′ = clip(σ(f)·c + σ(i)·tanh(g)), h′ = σ(o)·tanh(c′); gates in the order i, f, g, o."""

    clip: Clip | None = None

    gates = 4
    has_cell_state = True

    def forward(self, a: Array, r: Array, h: Array, c: Array) -> Step:
        """Forget, add, show."""
        i, f, g, o = np.split(a + r, 4, -1)
        i, f, g, o = sigmoid(i), sigmoid(f), np.tanh(g), sigmoid(o)
        new, free = f * c + i * g, np.asarray(True)
        if self.clip is not None:
            new, free = self.clip(new)
        shown = np.tanh(new)
        return Step(o * shown, new, (i, f, g, o, c, shown, free))

    def backward(self, kept: Arrays, dh: Array, dc: Array) -> StepGradient:
        """Through the shown state, then through the gates."""
        i, f, g, o, c, shown, free = kept
        total = np.where(free, dc + dh * o * (1 - shown**2), 0)
        parts = (
            total * g * i * (1 - i), total * c * f * (1 - f),
            total * i * (1 - g**2), dh * shown * o * (1 - o),
        )  # fmt: skip
        d = np.concatenate(parts, -1)
        return StepGradient(d, d, 0, total * f)


class GRU(Cell):
    """h′ = (1 − z)·n + z·h, n = tanh(aₙ + ρ·rₙ); gates in the order ρ (reset), z (update), n."""

    gates = 3

    def forward(self, a: Array, r: Array, h: Array, c: Array) -> Step:
        """A mixture of the old state and a candidate."""
        (a_r, a_z, a_n), (r_r, r_z, r_n) = np.split(a, 3, -1), np.split(r, 3, -1)
        reset, update = sigmoid(a_r + r_r), sigmoid(a_z + r_z)
        candidate = np.tanh(a_n + reset * r_n)
        return Step((1 - update) * candidate + update * h, c, (reset, update, candidate, r_n, h))

    def backward(self, kept: Arrays, dh: Array, dc: Array) -> StepGradient:
        """Through the mixture, then through the gates."""
        reset, update, candidate, r_n, h = kept
        d_n = dh * (1 - update) * (1 - candidate**2)
        d_z = dh * (h - candidate) * update * (1 - update)
        d_r = d_n * r_n * reset * (1 - reset)
        joined = np.concatenate((d_r, d_z, d_n), -1)
        return StepGradient(joined, np.concatenate((d_r, d_z, d_n * reset), -1), dh * update, dc)


CELLS: dict[str, Cell] = {"rnn_relu": Relu(), "rnn_tanh": Tanh(), "lstm": LSTM(), "gru": GRU()}


def cell_of(p: RNNParam) -> Cell:
    """The cell of a layer's parameters, with its bounds."""
    low, high = p.lstm_state_clip_min, p.lstm_state_clip_max
    if low is None and high is None:
        return CELLS[p.mode]
    return LSTM(Clip(low, high, p.lstm_state_clip_nan))
