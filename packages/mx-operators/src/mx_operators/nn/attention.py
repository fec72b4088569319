# SPDX-License-Identifier: Apache-2.0
"""Products of multi-head attention on interleaved projections.

Projections lie as (L, N, H·P·D): for every head H its P parts (query, key, value) of D elements.
Source: Vaswani et al., Attention Is All You Need, NIPS 2017.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from mx_core.operator import OperatorProperty, param, required
from mx_core.operator.property import ReferenceContext
from mx_operators.backward import BackwardOperator
from mx_operators.nn.base import wide


@param
class HeadsParam:
    """Number of heads."""

    heads: int = required("number of heads", lower=1)


def _parted(x: Any, heads: int, parts: int) -> list[Any]:
    """(L, N, H·P·D) as P arrays (N·H, L, D)."""
    length, batch, size = x.shape
    split = x.reshape(length, batch, heads, parts, size // (heads * parts))
    turned = split.transpose(3, 1, 2, 0, 4)
    return list(turned.reshape(parts, batch * heads, length, split.shape[4]))


def _joined(parts: Sequence[Any], heads: int) -> Any:
    """The inverse of `_parted`."""
    stacked = np.stack(parts)
    count, rows, length, size = stacked.shape
    turned = stacked.reshape(count, rows // heads, heads, length, size).transpose(3, 1, 2, 0, 4)
    return turned.reshape(length, rows // heads, heads * count * size)


def _check(s: Any, name: str, heads: int, parts: int) -> tuple[int, ...] | None:
    x = s.get(name)
    if x is None:
        return None
    if len(x) != 3 or (x[2] >= 0 and (x[2] % (heads * parts) or x[2] == 0)):
        raise s.error(f"{name}: expected (L, N, {heads * parts}·D) for {heads} heads, got {x}")
    return tuple(x)


def _rows(batch: int, heads: int) -> int:
    return batch * heads if batch >= 0 else -1


class _Attention(OperatorProperty):
    """Shared declaration; P parts lie in the projections that hold keys and values."""

    Param = HeadsParam
    parts: ClassVar[int]

    def gradient(self, p: Any, g: Any) -> Any:
        """Products again."""
        kept = (g.out_grad(), *(g.input(i) for i in range(len(self.arguments))))
        return g.op(f"_backward{self.name}", kept, params=p)

    def companions(self) -> tuple[OperatorProperty, ...]:
        """Its backward operator."""
        members = {
            "name": f"_backward{self.name}", "Param": HeadsParam, "forward": self,
            "arguments": ("out_grad", *self.arguments),
            "results": tuple(f"{name}_grad" for name in self.arguments),
            "gradient_of": {f"{name}_grad": name for name in self.arguments},
            "__doc__": f"Gradient of {self.name}.", "__module__": type(self).__module__,
        }  # fmt: skip
        return (type(f"Backward{type(self).__name__}", (_BackwardAttention,), members)(),)

    def pull(self, p: Any, head: Any, *inputs: Any) -> Sequence[Any]:
        """Gradients of the inputs from that of the output."""
        raise NotImplementedError


class _BackwardAttention(BackwardOperator):
    forward: ClassVar[_Attention]

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """By the forward operator's rule."""
        grads = self.forward.pull(p, *(wide(x) for x in inputs))
        return tuple(grad.astype(x.dtype) for grad, x in zip(grads, inputs[1:], strict=True))


class _Scores(_Attention):
    """Scaled products of queries and keys."""

    def infer_shape(self, p: Any, s: Any) -> None:
        """One matrix per sequence and head."""
        queries = _check(s, self.arguments[0], p.heads, 3 if self.parts == 3 else 1)
        keys = _check(s, self.arguments[-1], p.heads, self.parts)
        if queries is None or keys is None:
            return
        if self.parts == 2:
            size = keys[2] // 2 if keys[2] >= 0 else -1
            s.assign(self.arguments[0], (-1, keys[1], size))
        s.assign("output", (_rows(keys[1], p.heads), queries[0], keys[0]))

    def split(self, p: Any, inputs: Sequence[Any]) -> tuple[Any, Any]:
        """Queries, already scaled, and keys."""
        if self.parts == 3:
            q, k, _ = _parted(inputs[0], p.heads, 3)
        else:
            (q,), k = _parted(inputs[0], p.heads, 1), _parted(inputs[1], p.heads, 2)[0]
        return q / q.dtype.type(np.sqrt(q.shape[-1])), k

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """One product per sequence and head."""
        q, k = self.split(p, [wide(x) for x in inputs])
        return ((q @ k.swapaxes(-1, -2)).astype(inputs[0].dtype),)

    def pull(self, p: Any, head: Any, *inputs: Any) -> Sequence[Any]:
        """Scores by keys, and by queries; values have none."""
        q, k = self.split(p, inputs)
        dq = head @ k / k.dtype.type(np.sqrt(k.shape[-1]))
        dk = head.swapaxes(-1, -2) @ q
        if self.parts == 3:
            return (_joined((dq, dk, np.zeros_like(dk)), p.heads),)
        return _joined((dq,), p.heads), _joined((dk, np.zeros_like(dk)), p.heads)


class _Values(_Attention):
    """Values weighted by attention."""

    def infer_shape(self, p: Any, s: Any) -> None:
        """One vector per query, the heads side by side."""
        x = _check(s, self.arguments[0], p.heads, self.parts)
        if x is None:
            return
        s.assign("attention", (_rows(x[1], p.heads), x[0] if self.parts == 3 else -1, x[0]))
        size = x[2] // self.parts if x[2] >= 0 else -1
        s.assign("output", (s.get("attention")[1], x[1], size))

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """One product per sequence and head."""
        x, attention = (wide(a) for a in inputs)
        values = _parted(x, p.heads, self.parts)[-1]
        return (_joined((attention @ values,), p.heads).astype(inputs[0].dtype),)

    def pull(self, p: Any, head: Any, *inputs: Any) -> Sequence[Any]:
        """Out-gradients by attention, and by values."""
        x, attention = inputs
        values, (dy,) = _parted(x, p.heads, self.parts)[-1], _parted(head, p.heads, 1)
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


class DivSqrtDim(OperatorProperty):
    """data divided by the root of the extent of its last axis."""

    name = "_contrib_div_sqrt_dim"

    def infer_shape(self, p: Any, s: Any) -> None:
        """As data."""
        s.unify(["data", "output"])
        if s.get("data") == ():
            raise s.error("data: expected at least 1 dimension, got ()")

    def gradient(self, p: Any, g: Any) -> Any:
        """Divided likewise."""
        return g.op("_contrib_div_sqrt_dim", (g.out_grad(),))

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """A division."""
        x = wide(inputs[0])
        return ((x / x.dtype.type(np.sqrt(max(x.shape[-1], 1)))).astype(inputs[0].dtype),)


OPERATORS: tuple[type[OperatorProperty], ...] = (
    SelfAttentionScores, SelfAttentionValues, CrossAttentionScores, CrossAttentionValues, DivSqrtDim,
)  # fmt: skip
