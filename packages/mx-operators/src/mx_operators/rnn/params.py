# SPDX-License-Identifier: Apache-2.0
"""Parameters of RNN."""

from __future__ import annotations

from mx_core.operator import Params, opt, required


class RNNParam(Params):
    """Kind of cell, extents, dropout."""

    state_size: int = required("units H of a layer", lower=1)
    num_layers: int = required("layers L", lower=1)
    bidirectional: bool = opt(False, "every layer runs in both directions")
    mode: str = required("kind of cell", choices=("gru", "lstm", "rnn_relu", "rnn_tanh"))
    p: float = opt(0.0, "probability of dropping what a layer passes up, in training", lower=0.0, upper=1.0)
    state_outputs: bool = opt(False, "show the last states as outputs")
    projection_size: int | None = opt(None, "of lstm: values O that the state is projected to", lower=1)
    lstm_state_clip_min: float | None = opt(None, "of lstm: what the cell state is not below")
    lstm_state_clip_max: float | None = opt(None, "of lstm: what the cell state is not above")
    lstm_state_clip_nan: bool = opt(False, "NaN in the cell state becomes the lower bound, or else the upper")
    use_sequence_length: bool = opt(False, "read the lengths; otherwise every sequence is full")
