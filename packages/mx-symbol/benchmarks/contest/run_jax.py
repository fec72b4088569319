# SPDX-License-Identifier: Apache-2.0
"""JAX: the nodes of a task as one function, compiled by `jax.jit`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from contest.packed import packed_weights, pieces

Attrs = dict[str, Any]


def _convolution(x: Any, a: Attrs, _: Any, training: bool) -> Any:
    pad = [(p, p) for p in a["pad"] or (0, 0)]
    y = lax.conv_general_dilated(
        x[0], x[1], tuple(a["stride"] or (1, 1)), pad, feature_group_count=a["num_group"]
    )
    return y + x[2][:, None, None] if len(x) > 2 else y


def _batch_norm(x: Any, a: Attrs, _: Any, training: bool) -> Any:
    data, gamma, beta, mean, var = x
    if training:
        wide = data.astype(jnp.float32)
        mean, var = wide.mean((0, 2, 3)), wide.var((0, 2, 3))
    scale = gamma * lax.rsqrt(var + a["eps"])
    y = data * scale[:, None, None] + (beta - mean * scale)[:, None, None]
    return y.astype(data.dtype)


def _pooling(x: Any, a: Attrs, shape: Any, training: bool) -> Any:
    if a["global_pool"]:
        return x[0].mean((2, 3), keepdims=True)
    window, stride = (1, 1, *a["kernel"]), (1, 1, *(a["stride"] or (1, 1)))
    pads = [(0, 0), (0, 0), *((p, p) for p in a["pad"] or (0, 0))]
    if a["pool_type"] == "max":
        return lax.reduce_window(x[0], -jnp.inf, lax.max, window, stride, pads)
    return lax.reduce_window(x[0], 0.0, lax.add, window, stride, pads) / np.prod(a["kernel"])


def _linear(x: Any, a: Attrs, _: Any, training: bool) -> Any:
    data = x[0].reshape(x[0].shape[0], -1) if a["flatten"] else x[0]
    y = data @ x[1].T
    return y + x[2] if len(x) > 2 else y


def _layer_norm(x: Any, a: Attrs, _: Any, training: bool) -> Any:
    wide = x[0].astype(jnp.float32)
    y = (wide - wide.mean(-1, keepdims=True)) * lax.rsqrt(wide.var(-1, keepdims=True) + a["eps"])
    return (y * x[1] + x[2]).astype(x[0].dtype)


def _lstm(x: Any, a: Attrs, _: Any, training: bool) -> Any:
    data, (weights, biases), h0, c0 = x
    layers = a["num_layers"]
    biases = biases.reshape(layers, 2, -1).sum(1)
    for layer in range(layers):
        gates, recurrent = data @ weights[2 * layer].T + biases[layer], weights[2 * layer + 1].T

        def cell(state: Any, given: Any, recurrent: Any = recurrent) -> Any:
            h, c = state
            i, f, g, o = jnp.split(given + h @ recurrent, 4, -1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        data = lax.scan(cell, (h0[layer], c0[layer]), gates)[1]
    return data


def separate(flat: Any, shapes: Any) -> Any:
    """Weights of a recurrent layer as arrays of their own, and all biases."""
    weights, rest = pieces(flat, shapes)
    return [jnp.asarray(w) for w in weights], jnp.asarray(rest)


_ACTIVATIONS = {"relu": jax.nn.relu, "sigmoid": jax.nn.sigmoid, "tanh": jnp.tanh}
CALLS: dict[str, Callable[..., Any]] = {
    "Convolution": _convolution, "BatchNorm": _batch_norm, "Pooling": _pooling, "FullyConnected": _linear,
    "RNN": _lstm, "LayerNorm": _layer_norm,
    "Activation": lambda x, a, s, t: _ACTIVATIONS[a["act_type"]](x[0]),
    "LeakyReLU": lambda x, a, s, t: jax.nn.gelu(x[0], approximate=False),
    "Flatten": lambda x, a, s, t: x[0].reshape(s),
    "Reshape": lambda x, a, s, t: x[0].reshape(s),
    "Concat": lambda x, a, s, t: jnp.concatenate(x, a["dim"]),
    "Dropout": lambda x, a, s, t: x[0],
    "Embedding": lambda x, a, s, t: x[1][x[0].astype(jnp.int32)],
    "batch_dot": lambda x, a, s, t: x[0] @ (x[1].swapaxes(1, 2) if a["transpose_b"] else x[1]),
    "softmax": lambda x, a, s, t: jax.nn.softmax(x[0], a["axis"]),
    "transpose": lambda x, a, s, t: x[0].transpose(a["axes"]),
    "elemwise_add": lambda x, a, s, t: x[0] + x[1],
    "_mul_scalar": lambda x, a, s, t: x[0] * a["scalar"],
}  # fmt: skip


def prepare(
    framework: str, folder: str, training: bool, dtype: str
) -> tuple[Callable[[], None], Callable[[], Any], Callable[[], Any]]:
    """Step, result and gradients of a task."""
    with open(os.path.join(folder, "graph.json")) as file:
        graph = json.load(file)
    arrays = np.load(os.path.join(folder, "arrays.npz"))
    indices = any(node["op"] == "Embedding" for node in graph["nodes"])

    def value(name: str) -> Any:
        exact = name in graph["states"] or (name == "data" and indices)
        return jnp.asarray(arrays[name], jnp.float32 if exact else dtype)

    params = {n: value(n) for n in arrays.files if n not in graph["fixed"] and n not in graph["states"]}
    packed = packed_weights(graph)
    for name, shapes in packed.items():
        params[name] = separate(params[name], shapes)
    others = {name: value(name) for name in (*graph["fixed"], *graph["states"])}

    def forward(params: Any, others: Any, training: bool) -> Any:
        values: list[Any] = []
        for node in graph["nodes"]:
            if node["op"] is None:
                name = node["name"]
                values.append(params[name] if name in params else others[name])
            else:
                inputs = [values[n] for n, _ in node["inputs"]]
                values.append(CALLS[node["op"]](inputs, node["attrs"], node["shapes"][0], training))
        return values[graph["heads"][0][0]]

    def with_gradients(params: Any, others: Any) -> Any:
        out, back = jax.vjp(lambda p: forward(p, others, True), params)
        return out, back(jnp.ones_like(out))[0]

    infer = jax.jit(lambda params, others: forward(params, others, False))
    gradients_of = jax.jit(with_gradients)
    run = gradients_of if training else infer

    def step() -> None:
        jax.block_until_ready(run(params, others))

    def found() -> dict[str, Any]:
        """Gradients by parameter, those of packed weights in one array again."""
        grads = gradients_of(params, others)[1]
        joined = {n: jnp.concatenate([*(w.ravel() for w in grads[n][0]), grads[n][1]]) for n in packed}
        return {n: np.asarray(g, np.float32) for n, g in {**grads, **joined}.items()}

    return step, lambda: np.asarray(infer(params, others), np.float32), found
