# SPDX-License-Identifier: Apache-2.0
"""A stack of recurrent layers run over sequences, and back-propagation through time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mx_core.operator import Array, Arrays
from mx_operators.rnn.cells import Cell, cell_of
from mx_operators.rnn.params import RNNParam
from mx_operators.rnn.weights import Weights, directions, split


class Run(NamedTuple):
    """Of one layer and direction, in running order.

    Input and output (T, N, …), states before and after each step, values kept of it, and its rows
    (N, 1) that lie within their sequences.
    """

    x: Array
    shown: Array
    before: list[Array]
    after: list[tuple[Array, Array]]
    kept: list[tuple[Array, ...]]
    on: Array


class Forward(NamedTuple):
    """Outputs (T, N, D·O), last states (L·D, N, O) and (L·D, N, H), and what backward needs."""

    output: Array
    h: Array
    c: Array
    runs: list[Run]


def _in_direction(x: Array, direction: int) -> Array:
    return x[::-1] if direction else x


def _run(cell: Cell, weights: Weights, x: Array, on: Array, h: Array, c: Array) -> tuple[Array, Array, Run]:
    """Behind the last step of its sequence a row keeps its states and shows 0."""
    products = x @ weights.w.T + weights.b_w
    shown, before = np.empty((*x.shape[:2], h.shape[-1]), x.dtype), []
    after: list[tuple[Array, Array]] = []
    kept: list[tuple[Array, ...]] = []
    for t, a in enumerate(products):
        before.append(h)
        step = cell.forward(a, h @ weights.r.T + weights.b_r, h, c)
        new = step.h if weights.p is None else step.h @ weights.p.T
        h, c = np.where(on[t], new, h), np.where(on[t], step.c, c)
        kept.append((*step.kept, step.h))
        after.append((h, c))
        shown[t] = np.where(on[t], h, 0)
    return h, c, Run(x, shown, before, after, kept, on)


def forward(
    p: RNNParam,
    x: Array,
    vector: Array,
    h: Array,
    c: Array,
    masks: Array | None,
    lengths: Array | None = None,
) -> Forward:
    """The stack; `masks` (L − 1, T, N, D·O) multiply what a layer passes up, None is 1.

    Sequence n has `lengths[n]` steps, all T with None.
    """
    weights, runs = split(p, vector, x.shape[2]), []
    last_h, last_c = np.empty_like(h), np.empty_like(c)
    on = np.ones((*x.shape[:2], 1), bool)
    if lengths is not None:
        on = np.arange(len(x))[:, None, None] < lengths[:, None]
        x = np.where(on, x, 0)
    for layer in range(p.num_layers):
        outputs = []
        for direction in range(directions(p)):
            i = layer * directions(p) + direction
            last_h[i], last_c[i], run = _run(
                cell_of(p), weights[i], _in_direction(x, direction), _in_direction(on, direction), h[i], c[i]
            )
            outputs.append(_in_direction(run.shown, direction))
            runs.append(run)
        x = np.concatenate(outputs, -1)
        if masks is not None and layer < p.num_layers - 1:
            x = x * masks[layer]
    return Forward(x, last_h, last_c, runs)


def _run_back(
    cell: Cell, weights: Weights, grads: Weights, run: Run, heads: Array, dh: Array, dc: Array
) -> tuple[Array, Array, Array]:
    """Gradients of input and first states; those of the weights are written to `grads`."""
    d_products = np.zeros((*run.x.shape[:2], weights.w.shape[0]), run.x.dtype)
    for t in reversed(range(len(run.kept))):
        on = run.on[t]
        *kept, state = run.kept[t]
        shown = d_state = np.where(on, dh + heads[t], 0)
        if weights.p is not None and grads.p is not None:
            grads.p[...] += shown.T @ np.where(on, state, 0)
            d_state = shown @ weights.p
        step = cell.backward(kept, d_state, dc)
        a, r = np.where(on, step.a, 0), np.where(on, step.r, 0)
        d_products[t] = a
        grads.r[...] += r.T @ run.before[t]
        grads.b_r[...] += r.sum(0)
        dh, dc = np.where(on, step.h + r @ weights.r, dh), np.where(on, step.c, dc)
    grads.w[...] = np.tensordot(d_products, run.x, ((0, 1), (0, 1)))
    grads.b_w[...] = d_products.sum((0, 1))
    return d_products @ weights.w, dh, dc


def backward(
    p: RNNParam, vector: Array, made: Forward, masks: Array | None, heads: Arrays, input_size: int
) -> tuple[Array, Array, Array, Array]:
    """Gradients of x, the vector, h and c from those of output, last h and last c."""
    head, dh, dc = heads[0], heads[1].copy(), heads[2].copy()
    grad = np.zeros_like(vector)
    weights, grads = split(p, vector, input_size), split(p, grad, input_size)
    for layer in reversed(range(p.num_layers)):
        if masks is not None and layer < p.num_layers - 1:
            head = head * masks[layer]
        below = []
        for direction, part in enumerate(np.split(head, directions(p), -1)):
            i = layer * directions(p) + direction
            dx, dh[i], dc[i] = _run_back(
                cell_of(p), weights[i], grads[i], made.runs[i], _in_direction(part, direction), dh[i], dc[i]
            )
            below.append(_in_direction(dx, direction))
        head = sum(below[1:], below[0])
    return head, grad, dh, dc
