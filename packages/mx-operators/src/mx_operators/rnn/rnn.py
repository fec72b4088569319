# SPDX-License-Identifier: Apache-2.0
"""RNN: a stack of recurrent layers over whole sequences, in one or both directions."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from mx_core import philox
from mx_core.operator import Array, Arrays, Operator, ReferenceContext, Shapes
from mx_operators.nn.base import wide
from mx_operators.rnn.cells import CELLS
from mx_operators.rnn.params import RNNParam
from mx_operators.rnn.reserve import gather, reserve_size
from mx_operators.rnn.stack import backward, forward
from mx_operators.rnn.weights import directions, parameter_count, state_width
from mx_operators.sequence.base import lengths_of


def _has_mask(p: RNNParam) -> bool:
    return bool(p.p > 0 and p.num_layers > 1)


def _kept(p: RNNParam) -> tuple[str, ...]:
    reserve = ("reserve",) if reserve_size(p, 1, 1) > 0 else ()
    return (*reserve, "mask") if _has_mask(p) else reserve


def _states(p: RNNParam) -> tuple[str, ...]:
    return ("state", "state_cell") if CELLS[p.mode].has_cell_state else ("state",)


def _last_states(p: RNNParam) -> tuple[str, ...]:
    names = ("state_output", "statecell_output")[: len(_states(p))]
    return names if p.state_outputs else ()


def _given(p: RNNParam) -> tuple[str, ...]:
    lengths = ("sequence_length",) if p.use_sequence_length else ()
    return ("data", "parameters", *_states(p), *lengths)


def _split_inputs(p: RNNParam, inputs: Arrays, op: str) -> tuple[Array, Array, Array, Array, Array | None]:
    """data, parameters, h, c, lengths or None; c is h where the cell has none, and is passed through."""
    x, vector, h = (wide(a) for a in inputs[:3])
    lengths = lengths_of(inputs[len(_given(p)) - 1], len(x), op) if p.use_sequence_length else None
    return x, vector, h, wide(inputs[3]) if CELLS[p.mode].has_cell_state else h, lengths


def _infer_states(p: RNNParam, s: Shapes) -> None:
    """Extents of the states, the same after the steps as before them; those of lstm alone."""
    if p.mode != "lstm":
        for name in ("projection_size", "lstm_state_clip_min", "lstm_state_clip_max"):
            if getattr(p, name) is not None:
                raise s.error(f"{name}: expected mode 'lstm', got {p.mode!r}")
    low, high = p.lstm_state_clip_min, p.lstm_state_clip_max
    if low is not None and high is not None and not low <= high:
        raise s.error(f"lstm_state_clip_max: expected at least lstm_state_clip_min {low:g}, got {high:g}")
    stacks = directions(p) * p.num_layers
    widths = (state_width(p), p.state_size)
    for name, width in zip(_states(p), widths, strict=False):
        s.assign(name, (stacks, -1, width))
    for before, behind in zip(_states(p), _last_states(p), strict=False):
        s.unify([before, behind])
    batch = max(s.ranked(name)[1] for name in _states(p))
    for name in (*_states(p), *_last_states(p)):
        s.assign(name, (-1, batch, -1))


class RNN(Operator[RNNParam]):
    """data (T, N, I), parameters, state (L·D, N, O) give (T, N, D·O); D directions, L layers.

    O is state_size H, or with projection_size what h′ = P·h is of. lstm takes state_cell (L·D, N, H)
    as well. state_outputs adds the states after the last step. With use_sequence_length sequence n
    has sequence_length[n] steps: the output is 0 beyond them, the last states are those after the
    last one, where the reverse direction begins. Hidden outputs are what backward needs of the steps,
    and with p above 0 the scaled dropout masks (L − 1, T, N, D·O). The layout of parameters is described
    in `mx_operators.rnn.weights`, that of the reserve in `mx_operators.rnn.reserve`, the cells in
    `mx_operators.rnn.cells`.
    """

    name = "RNN"
    floating_only = ("data", "parameters", "state")
    arguments = ("data", "parameters", "state", "state_cell", "sequence_length")
    without_gradient = ("sequence_length",)
    free_types = {"sequence_length": "data"}
    results = ("output", "state_output", "statecell_output", "reserve", "mask")
    hidden = ("reserve", "mask")
    is_random = True
    needs_train_flag = True

    def inputs(self, p: RNNParam) -> tuple[str, ...]:
        """state_cell with lstm, sequence_length with use_sequence_length."""
        return _given(p)

    def outputs(self, p: RNNParam) -> tuple[str, ...]:
        """Last states with state_outputs, the reserve if anything is kept, the masks with dropout."""
        return ("output", *_last_states(p), *_kept(p))

    def infer_shape(self, p: RNNParam, s: Shapes) -> None:
        _infer_states(p, s)
        width = directions(p) * state_width(p)
        data, batch = s.get("data"), s.ranked("state")[1]
        s.assign("output", (-1, batch, width))
        s.assign("parameters", (-1,))
        if data is not None:
            if len(data) != 3:
                raise s.error(f"data: expected 3 dimensions (T, N, I), got {data}")
            if data[0] == 0:
                raise s.error(f"data: no steps in {data}")
            for name in _states(p):
                s.assign(name, (-1, data[1], -1))
            s.assign("output", (data[0], data[1], width))
            if data[2] >= 0:
                s.assign("parameters", (parameter_count(p, data[2]),))
        output = s.ranked("output")
        s.assign("data", (*output[:2], -1))
        output = s.ranked("output")
        if p.use_sequence_length:
            s.assign("sequence_length", (output[1],))
        if "reserve" in _kept(p):
            size = reserve_size(p, *output[:2]) if min(output[:2]) >= 0 else -1
            s.assign("reserve", (size,))
        if _has_mask(p):
            s.assign("mask", (p.num_layers - 1, *output))

    def random_blocks(self, p: RNNParam, output_shapes: Sequence[tuple[int, ...]]) -> int:
        """Four decisions a block."""
        return (prod(output_shapes[-1]) + 3) // 4 if _has_mask(p) else 0

    def reference(self, p: RNNParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        """Layer by layer, step by step."""
        x, vector, h, c, lengths = _split_inputs(p, inputs, self.name)
        masks = None
        if _has_mask(p):
            shape = (p.num_layers - 1, *x.shape[:2], directions(p) * state_width(p))
            masks = _draw_masks(p, shape, ctx).astype(x.dtype)
        made = forward(p, x, vector, h, c, masks, lengths)
        results = [made.output, *(made.h, made.c)[: len(_last_states(p))]]
        results += [gather(p, made.runs)] if "reserve" in _kept(p) else []
        results += [] if masks is None else [masks]
        return tuple(y.astype(inputs[0].dtype) for y in results)

    def backward(
        self,
        p: RNNParam,
        out_grads: Arrays,
        inputs: Arrays,
        output: Array,
        reserve: Array | None = None,
        mask: Array | None = None,
    ) -> Arrays:
        """The forward steps again, then backwards: only native kernels read output and reserve."""
        x, vector, h, c, lengths = _split_inputs(p, inputs, self.backward_name)
        made = forward(p, x, vector, h, c, mask, lengths)
        heads = [*out_grads, *[np.zeros_like(h), np.zeros_like(c)][len(out_grads) - 1 :]]
        return backward(p, vector, made, mask, heads, x.shape[2])[: 2 + len(_states(p))]


def _draw_masks(p: RNNParam, shape: tuple[int, ...], ctx: ReferenceContext) -> Array:
    """1/(1 − p) where a uniform number is at least p, else 0; ones outside training."""
    if not ctx.is_train:
        return np.ones(shape)
    u = philox.uniform(ctx.random_key, ctx.random_offset, prod(shape), np.float32).reshape(shape)
    return np.where(u >= p.p, 1 / (1 - p.p) if p.p < 1 else 0.0, 0.0)
