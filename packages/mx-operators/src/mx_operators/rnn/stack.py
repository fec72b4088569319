# SPDX-License-Identifier: Apache-2.0
"""A stack of recurrent layers run over sequences, and back-propagation through time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mx_operators.rnn.cells import CELLS
from mx_operators.rnn.weights import Weights, directions, split


class Run(NamedTuple):
    """Of one layer and direction, in running order: input, states before and behind each step, kept values."""

    x: Any
    before: list[Any]
    after: list[tuple[Any, Any]]
    kept: list[tuple[Any, ...]]


class Forward(NamedTuple):
    """Outputs (T, N, D·H), last states (L·D, N, H), and what backward needs."""

    output: Any
    h: Any
    c: Any
    runs: list[Run]


def _turned(x: Any, direction: int) -> Any:
    return x[::-1] if direction else x


def _run(mode: str, weights: Weights, x: Any, h: Any, c: Any) -> tuple[Any, Any, Any, Run]:
    cell = CELLS[mode]
    products = x @ weights.w.T + weights.b_w
    states, before = np.empty((*x.shape[:2], h.shape[-1]), x.dtype), []
    after: list[tuple[Any, Any]] = []
    kept: list[tuple[Any, ...]] = []
    for t, a in enumerate(products):
        before.append(h)
        h, c, values = cell.forward(a, h @ weights.r.T + weights.b_r, h, c)
        kept.append(values)
        after.append((h, c))
        states[t] = h
    return states, h, c, Run(x, before, after, kept)


def forward(p: Any, x: Any, vector: Any, h: Any, c: Any, masks: Any) -> Forward:
    """The stack; `masks` (L − 1, T, N, D·H) multiply what a layer passes up, None is 1."""
    weights, runs = split(p, vector, x.shape[2]), []
    last_h, last_c = np.empty_like(h), np.empty_like(c)
    for layer in range(p.num_layers):
        outputs = []
        for direction in range(directions(p)):
            i = layer * directions(p) + direction
            states, last_h[i], last_c[i], run = _run(p.mode, weights[i], _turned(x, direction), h[i], c[i])
            outputs.append(_turned(states, direction))
            runs.append(run)
        x = np.concatenate(outputs, -1)
        if masks is not None and layer < p.num_layers - 1:
            x = x * masks[layer]
    return Forward(x, last_h, last_c, runs)


def _run_back(
    mode: str, weights: Weights, grads: Weights, run: Run, heads: Any, dh: Any, dc: Any
) -> tuple[Any, Any, Any]:
    """Gradients of input and first states; those of the weights are written to `grads`."""
    cell = CELLS[mode]
    d_products = np.zeros((*run.x.shape[:2], weights.w.shape[0]), run.x.dtype)
    for t in reversed(range(len(run.kept))):
        step = cell.backward(run.kept[t], dh + heads[t], dc)
        d_products[t] = step.a
        grads.r[...] += step.r.T @ run.before[t]
        grads.b_r[...] += step.r.sum(0)
        dh, dc = step.h + step.r @ weights.r, step.c
    grads.w[...] = np.tensordot(d_products, run.x, ((0, 1), (0, 1)))
    grads.b_w[...] = d_products.sum((0, 1))
    return d_products @ weights.w, dh, dc


def backward(
    p: Any, vector: Any, made: Forward, masks: Any, heads: Sequence[Any], input_size: int
) -> tuple[Any, Any, Any, Any]:
    """Gradients of x, the vector, h and c from those of output, last h and last c."""
    head, dh, dc = heads[0], heads[1].copy(), heads[2].copy()
    grad = np.zeros_like(vector)
    weights, grads = split(p, vector, input_size), split(p, grad, input_size)
    for layer in reversed(range(p.num_layers)):
        if masks is not None and layer < p.num_layers - 1:
            head = head * masks[layer]
        below: Any = 0
        for direction, part in enumerate(np.split(head, directions(p), -1)):
            i = layer * directions(p) + direction
            dx, dh[i], dc[i] = _run_back(
                p.mode, weights[i], grads[i], made.runs[i], _turned(part, direction), dh[i], dc[i]
            )
            below = below + _turned(dx, direction)
        head = below
    return head, grad, dh, dc
