# SPDX-License-Identifier: Apache-2.0
"""RNN: a stack of recurrent layers over whole sequences, in one or both directions."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from mx_core import philox
from mx_core.operator import OperatorProperty, opt, param, required
from mx_core.operator.property import ReferenceContext
from mx_operators.nn.base import wide
from mx_operators.rnn.cells import CELLS
from mx_operators.rnn.reserve import gather, reserve_size
from mx_operators.rnn.stack import backward, forward
from mx_operators.rnn.weights import directions, parameter_count, state_width
from mx_operators.sequence.base import lengths_of


@param
class RNNParam:
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


def _has_mask(p: Any) -> bool:
    return bool(p.p > 0 and p.num_layers > 1)


def _kept(p: Any) -> tuple[str, ...]:
    reserve = ("reserve",) if reserve_size(p, 1, 1) > 0 else ()
    return (*reserve, "mask") if _has_mask(p) else reserve


def _states(p: Any) -> tuple[str, ...]:
    return ("state", "state_cell") if CELLS[p.mode].has_cell_state else ("state",)


def _last_states(p: Any) -> tuple[str, ...]:
    names = ("state_output", "statecell_output")[: len(_states(p))]
    return names if p.state_outputs else ()


def _given(p: Any) -> tuple[str, ...]:
    lengths = ("sequence_length",) if p.use_sequence_length else ()
    return ("data", "parameters", *_states(p), *lengths)


def _split_inputs(p: Any, inputs: Sequence[Any], op: str) -> tuple[Any, Any, Any, Any, Any]:
    """data, parameters, h, c, lengths or None; c is h where the cell has none, and is passed through."""
    x, vector, h = (wide(a) for a in inputs[:3])
    lengths = lengths_of(inputs[len(_given(p)) - 1], len(x), op) if p.use_sequence_length else None
    return x, vector, h, wide(inputs[3]) if CELLS[p.mode].has_cell_state else h, lengths


def _infer_states(p: Any, s: Any) -> None:
    """Extents of the states, the same behind the steps as before them; those of lstm alone."""
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
    batch = max(s.get(name)[1] for name in _states(p))
    for name in (*_states(p), *_last_states(p)):
        s.assign(name, (-1, batch, -1))


class RNN(OperatorProperty):
    """data (T, N, I), parameters, state (L·D, N, O) give (T, N, D·O); D directions, L layers.

    O is state_size H, or with projection_size what h′ = P·h is of. lstm takes state_cell (L·D, N, H)
    as well. state_outputs adds the states behind the last step. With use_sequence_length sequence n
    has sequence_length[n] steps: the output is 0 beyond them, the last states are those behind the
    last one, where the reverse direction begins. Hidden outputs are what backward needs of the steps,
    and with p above 0 the scaled dropout masks (L − 1, T, N, D·O). The layout of parameters is described
    in `mx_operators.rnn.weights`, that of the reserve in `mx_operators.rnn.reserve`, the cells in
    `mx_operators.rnn.cells`.
    """

    name = "RNN"
    Param = RNNParam
    arguments = ("data", "parameters", "state", "state_cell", "sequence_length")
    results = ("output", "state_output", "statecell_output", "reserve", "mask")
    is_random = True
    needs_train_flag = True

    def inputs(self, p: Any) -> tuple[str, ...]:
        """state_cell with lstm, sequence_length with use_sequence_length."""
        return _given(p)

    def outputs(self, p: Any) -> tuple[str, ...]:
        """Last states with state_outputs, the reserve if anything is kept, the masks with dropout."""
        return ("output", *_last_states(p), *_kept(p))

    def num_visible_outputs(self, p: Any) -> int:
        """All but reserve and masks."""
        return 1 + len(_last_states(p))

    def infer_shape(self, p: Any, s: Any) -> None:
        """Everything from data."""
        _infer_states(p, s)
        width = directions(p) * state_width(p)
        data, batch = s.get("data"), s.get("state")[1]
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
        output = s.get("output")
        s.assign("data", (*output[:2], -1))
        output = s.get("output")
        if p.use_sequence_length:
            s.assign("sequence_length", (output[1],))
        if "reserve" in _kept(p):
            size = reserve_size(p, *output[:2]) if min(output[:2]) >= 0 else -1
            s.assign("reserve", (size,))
        if _has_mask(p):
            s.assign("mask", (p.num_layers - 1, *output))

    def infer_type(self, p: Any, t: Any) -> None:
        """As data; lengths of any type, that of data unless they have one."""
        _infer_types(p, t, [*self.inputs(p), *self.outputs(p)])

    def random_blocks(self, p: Any, output_shapes: Sequence[tuple[int, ...]]) -> int:
        """Four decisions a block."""
        return (prod(output_shapes[-1]) + 3) // 4 if _has_mask(p) else 0

    def gradient(self, p: Any, g: Any) -> Any:
        """Reads what the steps kept."""
        heads = [g.out_grad(i) for i in range(self.num_visible_outputs(p))]
        kept = [g.output(len(heads) + i) for i in range(len(_kept(p)))]
        inputs = map(g.input, range(len(self.inputs(p))))
        grads = g.op("_backward_RNN", [*heads, *inputs, g.output(0), *kept], params=p)
        return [*grads, None] if p.use_sequence_length else grads

    def companions(self) -> tuple[OperatorProperty, ...]:
        """Its backward operator."""
        return (BackwardRNN(),)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """Layer by layer, step by step."""
        x, vector, h, c, lengths = _split_inputs(p, inputs, self.name)
        masks = None
        if _has_mask(p):
            shape = (p.num_layers - 1, *x.shape[:2], directions(p) * state_width(p))
            masks = _draw_masks(p, shape, ctx).astype(x.dtype)
        made = forward(p, x, vector, h, c, masks, lengths)
        shown = [made.output, *(made.h, made.c)[: len(_last_states(p))]]
        kept = {"reserve": gather(p, made.runs), "mask": masks}
        return tuple(y.astype(inputs[0].dtype) for y in (*shown, *map(kept.__getitem__, _kept(p))))


def _infer_types(p: Any, t: Any, names: list[str]) -> None:
    t.unify([name for name in names if name != "sequence_length"])
    if p.use_sequence_length and t.get("sequence_length") is None:
        t.assign("sequence_length", t.get("data"))


def _draw_masks(p: Any, shape: tuple[int, ...], ctx: ReferenceContext) -> Any:
    """1/(1 − p) where a uniform number is at least p, else 0; ones outside training."""
    if not ctx.is_train:
        return np.ones(shape)
    u = philox.uniform(ctx.random_key, ctx.random_offset, prod(shape), np.float32).reshape(shape)
    return np.where(u >= p.p, 1 / (1 - p.p) if p.p < 1 else 0.0, 0.0)


class BackwardRNN(OperatorProperty):
    """Gradients of RNN with respect to all its inputs, by back-propagation through time."""

    name = "_backward_RNN"
    Param = RNNParam

    def inputs(self, p: Any) -> tuple[str, ...]:
        """Out-gradients of the visible outputs, the forward inputs, the output, reserve and masks."""
        heads = (f"{name}_grad" for name in ("output", *_last_states(p)))
        return (*heads, *_given(p), "output", *_kept(p))

    def outputs(self, p: Any) -> tuple[str, ...]:
        """One per forward input but the lengths."""
        return tuple(f"grad_{name}" for name in ("data", "parameters", *_states(p)))

    def infer_shape(self, p: Any, s: Any) -> None:
        """As the forward inputs."""
        for name in ("data", "parameters", *_states(p)):
            s.unify([name, f"grad_{name}"])

    def infer_type(self, p: Any, t: Any) -> None:
        """As data; lengths of any type."""
        _infer_types(p, t, [*self.inputs(p), *self.outputs(p)])

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """The forward steps again, then backwards: only native kernels read output and reserve."""
        n_heads = 1 + len(_last_states(p))
        given = inputs[n_heads : n_heads + len(_given(p))]
        x, vector, h, c, lengths = _split_inputs(p, given, self.name)
        masks = wide(inputs[-1]) if _has_mask(p) else None
        made = forward(p, x, vector, h, c, masks, lengths)
        heads = [wide(a) for a in inputs[:n_heads]]
        heads += [np.zeros_like(h), np.zeros_like(c)][n_heads - 1 :]
        grads = backward(p, vector, made, masks, heads, x.shape[2])
        return tuple(a.astype(b.dtype) for a, b in zip(grads[: len(self.outputs(p))], given, strict=False))


OPERATORS: tuple[type[OperatorProperty], ...] = (RNN,)
