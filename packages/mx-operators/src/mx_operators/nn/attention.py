# SPDX-License-Identifier: Apache-2.0
"""Products of multi-head attention on interleaved projections.

Projections lie as (L, N, H·P·D): for every head H its P parts (query, key, value) of D elements.
Source: Vaswani et al., Attention Is All You Need, NIPS 2017.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from mx_core.operator import (
    Array,
    Arrays,
    GradientBuilder,
    Gradients,
    NoParams,
    Operator,
    Params,
    ReferenceContext,
    Shapes,
    required,
)
from mx_operators.nn.base import wide


class HeadsParam(Params):
    """Number of heads."""

    heads: int = required("number of heads", lower=1)


def _parted(x: Array, heads: int, parts: int) -> list[Array]:
    """(L, N, H·P·D) as P arrays (N·H, L, D)."""
    length, batch, size = x.shape
    split = x.reshape(length, batch, heads, parts, size // (heads * parts))
    transposed = split.transpose(3, 1, 2, 0, 4)
    return list(transposed.reshape(parts, batch * heads, length, split.shape[4]))


def _joined(parts: Arrays, heads: int) -> Array:
    """The inverse of `_parted`."""
    stacked = np.stack(parts)
    count, rows, length, size = stacked.shape
    transposed = stacked.reshape(count, rows // heads, heads, length, size).transpose(3, 1, 2, 0, 4)
    return transposed.reshape(length, rows // heads, heads * count * size)


def _check(s: Shapes, name: str, heads: int, parts: int) -> tuple[int, ...] | None:
    x = s.get(name)
    if x is None:
        return None
    if len(x) != 3 or (x[2] >= 0 and (x[2] % (heads * parts) or x[2] == 0)):
        raise s.error(f"{name}: expected (L, N, {heads * parts}·D) for {heads} heads, got {x}")
    return x


def _rows(batch: int, heads: int) -> int:
    return batch * heads if batch >= 0 else -1


class _Scores(Operator[HeadsParam]):
    """Scaled products of queries and keys; P parts lie in the projections that hold the keys."""

    parts: ClassVar[int]

    def infer_shape(self, p: HeadsParam, s: Shapes) -> None:
        """One matrix per sequence and head."""
        queries = _check(s, self.arguments[0], p.heads, 3 if self.parts == 3 else 1)
        keys = _check(s, self.arguments[-1], p.heads, self.parts)
        if queries is None or keys is None:
            return
        if self.parts == 2:
            size = keys[2] // 2 if keys[2] >= 0 else -1
            s.assign(self.arguments[0], (-1, keys[1], size))
        s.assign("output", (_rows(keys[1], p.heads), queries[0], keys[0]))

    def split(self, p: HeadsParam, inputs: Arrays) -> tuple[Array, Array]:
        """Queries, already scaled, and keys."""
        if self.parts == 3:
            q, k, _ = _parted(inputs[0], p.heads, 3)
        else:
            (q,), k = _parted(inputs[0], p.heads, 1), _parted(inputs[1], p.heads, 2)[0]
        return q / q.dtype.type(np.sqrt(q.shape[-1])), k

    def reference(self, p: HeadsParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        """One product per sequence and head."""
        q, k = self.split(p, [wide(x) for x in inputs])
        return ((q @ k.swapaxes(-1, -2)).astype(inputs[0].dtype),)

    def backward(self, p: HeadsParam, out_grad: Array, inputs: Arrays) -> Arrays:
        """Scores by keys, and by queries; values have none."""
        q, k = self.split(p, inputs)
        dq = out_grad @ k / k.dtype.type(np.sqrt(k.shape[-1]))
        dk = out_grad.swapaxes(-1, -2) @ q
        if self.parts == 3:
            return (_joined((dq, dk, np.zeros_like(dk)), p.heads),)
        return _joined((dq,), p.heads), _joined((dk, np.zeros_like(dk)), p.heads)


class _Values(Operator[HeadsParam]):
    """Values weighted by attention; P parts lie in the projections that hold them."""

    parts: ClassVar[int]

    def infer_shape(self, p: HeadsParam, s: Shapes) -> None:
        """One vector per query, the heads side by side."""
        x = _check(s, self.arguments[0], p.heads, self.parts)
        if x is None:
            return
        s.assign("attention", (_rows(x[1], p.heads), x[0] if self.parts == 3 else -1, x[0]))
        size = x[2] // self.parts if x[2] >= 0 else -1
        s.assign("output", (s.ranked("attention")[1], x[1], size))

    def reference(self, p: HeadsParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        """One product per sequence and head."""
        x, attention = (wide(a) for a in inputs)
        values = _parted(x, p.heads, self.parts)[-1]
        return (_joined((attention @ values,), p.heads).astype(inputs[0].dtype),)

    def backward(self, p: HeadsParam, out_grad: Array, inputs: Arrays) -> Arrays:
        """Out-gradients by attention, and by values."""
        x, attention = inputs
        values, (dy,) = _parted(x, p.heads, self.parts)[-1], _parted(out_grad, p.heads, 1)
        dv = attention.swapaxes(-1, -2) @ dy
        zeros = [np.zeros_like(dv)] * (self.parts - 1)
        return _joined((*zeros, dv), p.heads), dy @ values.swapaxes(-1, -2)


class SelfAttentionScores(_Scores):
    """q·kᵀ/√D of queries_keys_values (L, N, H·3·D) as (N·H, L, L)."""

    name = "_contrib_interleaved_matmul_selfatt_qk"
    arguments = ("queries_keys_values",)
    parts = 3


class SelfAttentionValues(_Values):
    """attention (N·H, L, L) times the values of queries_keys_values (L, N, H·3·D): (L, N, H·D)."""

    name = "_contrib_interleaved_matmul_selfatt_valatt"
    arguments = ("queries_keys_values", "attention")
    parts = 3


class CrossAttentionScores(_Scores):
    """q·kᵀ/√D of queries (Q, N, H·D) and keys_values (L, N, H·2·D) as (N·H, Q, L)."""

    name = "_contrib_interleaved_matmul_encdec_qk"
    arguments = ("queries", "keys_values")
    parts = 2


class CrossAttentionValues(_Values):
    """attention (N·H, Q, L) times the values of keys_values (L, N, H·2·D): (Q, N, H·D)."""

    name = "_contrib_interleaved_matmul_encdec_valatt"
    arguments = ("keys_values", "attention")
    parts = 2


class DivSqrtDim(Operator):
    """data divided by the root of the extent of its last axis."""

    name = "_contrib_div_sqrt_dim"

    def infer_shape(self, p: NoParams, s: Shapes) -> None:
        s.unify(["data", "output"])
        if s.get("data") == ():
            raise s.error("data: expected at least 1 dimension, got ()")

    def gradient(self, p: NoParams, g: GradientBuilder) -> Gradients:
        return g.op(self.name, [g.out_grad()])

    def reference(self, p: NoParams, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        x = wide(inputs[0])
        return ((x / x.dtype.type(np.sqrt(max(x.shape[-1], 1)))).astype(inputs[0].dtype),)
