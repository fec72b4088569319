# SPDX-License-Identifier: Apache-2.0
"""A Transformer encoder (Vaswani et al. 2017), post-norm, without dropout."""

from __future__ import annotations

from mx_symbol import sym


def transformer_encoder(layers: int = 4, width: int = 512, heads: int = 8, inner: int = 2048) -> sym.Symbol:
    """`data` is (batch, time, width)."""
    x = sym.Variable("data")
    for _ in range(layers):
        x = sym.LayerNorm(x + _attention(x, width, heads))
        hidden = sym.LeakyReLU(sym.FullyConnected(x, num_hidden=inner, flatten=False), act_type="gelu")
        x = sym.LayerNorm(x + sym.FullyConnected(hidden, num_hidden=width, flatten=False))
    return x


def _attention(x: sym.Symbol, width: int, heads: int) -> sym.Symbol:
    q, k, v = (_heads(sym.FullyConnected(x, num_hidden=width, flatten=False), heads) for _ in range(3))
    scores = sym.batch_dot(q, k, transpose_b=True) * (width // heads) ** -0.5
    mixed = sym.batch_dot(sym.softmax(scores, axis=-1), v)
    mixed = sym.reshape(mixed, shape=(-4, -1, heads, 0, 0))
    mixed = sym.reshape(sym.transpose(mixed, axes=(0, 2, 1, 3)), shape=(0, 0, -3))
    return sym.FullyConnected(mixed, num_hidden=width, flatten=False)


def _heads(x: sym.Symbol, heads: int) -> sym.Symbol:
    """(batch, time, width) to (batch · heads, time, width / heads)."""
    x = sym.reshape(x, shape=(0, 0, -4, heads, -1))
    return sym.reshape(sym.transpose(x, axes=(0, 2, 1, 3)), shape=(-3, -2))
