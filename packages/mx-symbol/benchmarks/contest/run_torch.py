# SPDX-License-Identifier: Apache-2.0
"""PyTorch: the nodes of a task as calls of `torch.nn.functional`, eager or through `torch.compile`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

Attrs = dict[str, Any]
_ACTIVATIONS = {"relu": F.relu, "sigmoid": torch.sigmoid, "tanh": torch.tanh}


def _convolution(x: Any, a: Attrs, _: Any, training: bool) -> Any:
    return F.conv2d(
        x[0], x[1], x[2] if len(x) > 2 else None, a["stride"] or 1, a["pad"] or 0, 1, a["num_group"]
    )


def _batch_norm(x: Any, a: Attrs, _: Any, training: bool) -> Any:
    scale, shift = x[1].to(x[3].dtype), x[2].to(x[3].dtype)
    return F.batch_norm(x[0], x[3], x[4], scale, shift, training, 1.0 - a["momentum"], a["eps"])


def _pooling(x: Any, a: Attrs, shape: Any, training: bool) -> Any:
    if a["global_pool"]:
        return F.adaptive_avg_pool2d(x[0], 1)
    window = (a["kernel"], a["stride"] or 1, a["pad"] or 0)
    return F.max_pool2d(x[0], *window) if a["pool_type"] == "max" else F.avg_pool2d(x[0], *window)


def _linear(x: Any, a: Attrs, _: Any, training: bool) -> Any:
    data = x[0].flatten(1) if a["flatten"] else x[0]
    return F.linear(data, x[1], x[2] if len(x) > 2 else None)


def _lstm(x: Any, a: Attrs, _: Any, training: bool) -> Any:
    hidden, layers, width = a["state_size"], a["num_layers"], x[0].shape[2]
    weights, at = [], 0
    for layer in range(layers):
        for columns in (width if layer == 0 else hidden, hidden):
            weights.append(x[1][at : at + 4 * hidden * columns].reshape(4 * hidden, columns))
            at += 4 * hidden * columns
    biases = x[1][at:].reshape(layers, 2, 4 * hidden)
    flat = [w for n in range(layers) for w in (*weights[2 * n : 2 * n + 2], *biases[n])]
    return torch.lstm(x[0], (x[2], x[3]), flat, True, layers, 0.0, training, False, False)[0]


CALLS: dict[str, Callable[..., Any]] = {
    "Convolution": _convolution,
    "BatchNorm": _batch_norm,
    "Pooling": _pooling,
    "FullyConnected": _linear,
    "RNN": _lstm,
    "Activation": lambda x, a, s, t: _ACTIVATIONS[a["act_type"]](x[0]),
    "LeakyReLU": lambda x, a, s, t: F.gelu(x[0]),
    "Flatten": lambda x, a, s, t: x[0].flatten(1),
    "Concat": lambda x, a, s, t: torch.cat(x, a["dim"]),
    "Dropout": lambda x, a, s, t: F.dropout(x[0], a["p"], t),
    "LayerNorm": lambda x, a, s, t: F.layer_norm(x[0], x[0].shape[-1:], x[1], x[2], a["eps"]),
    "Embedding": lambda x, a, s, t: F.embedding(x[0].long(), x[1]),
    "batch_dot": lambda x, a, s, t: torch.bmm(x[0], x[1].transpose(1, 2) if a["transpose_b"] else x[1]),
    "softmax": lambda x, a, s, t: F.softmax(x[0], a["axis"]),
    "transpose": lambda x, a, s, t: x[0].permute(a["axes"]),
    "Reshape": lambda x, a, s, t: x[0].reshape(s),
    "elemwise_add": lambda x, a, s, t: x[0] + x[1],
    "elemwise_mul": lambda x, a, s, t: x[0] * x[1],
    "_mul_scalar": lambda x, a, s, t: x[0] * a["scalar"],
    "SliceChannel": lambda x, a, s, t: (
        [p.squeeze(a["axis"]) if a["squeeze_axis"] else p for p in x[0].chunk(a["num_outputs"], a["axis"])]
    ),
    "sigmoid": lambda x, a, s, t: torch.sigmoid(x[0]),
    "tanh": lambda x, a, s, t: torch.tanh(x[0]),
}
CALLS |= {"reshape": CALLS["Reshape"], "_plus": CALLS["elemwise_add"], "concat": CALLS["Concat"]}


class Network(torch.nn.Module):
    """Runs the nodes in order."""

    def __init__(self, graph: dict[str, Any], arrays: Any, dtype: torch.dtype) -> None:
        super().__init__()
        self.nodes, self.heads = graph["nodes"], graph["heads"]
        self.keys = {}
        for i, node in enumerate(self.nodes):
            if node["op"] is None and node["name"] != "data":
                value = torch.from_numpy(arrays[node["name"]])
                self.keys[i] = f"p{i}"
                if node["name"] in graph["states"]:
                    self.register_buffer(f"p{i}", value)
                elif node["name"] in graph["fixed"]:
                    self.register_buffer(f"p{i}", value.to(dtype))
                else:
                    self.register_parameter(f"p{i}", torch.nn.Parameter(value.to(dtype)))

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        values: list[Any] = []
        for i, node in enumerate(self.nodes):
            if node["op"] is None:
                values.append([getattr(self, self.keys[i]) if i in self.keys else data])
                continue
            inputs = [values[n][k] for n, k in node["inputs"]]
            made = CALLS[node["op"]](inputs, node["attrs"], node["shapes"][0], self.training)
            values.append(made if isinstance(made, list) else [made])
        n, k = self.heads[0]
        return values[n][k]


def prepare(
    framework: str, folder: str, training: bool, dtype: str
) -> tuple[Callable[[], None], Callable[[], Any]]:
    """Step and result of a task; `torch.compile` compiles."""
    torch.set_num_threads(os.cpu_count() or 1)
    with open(os.path.join(folder, "graph.json")) as file:
        graph = json.load(file)
    arrays = np.load(os.path.join(folder, "arrays.npz"))
    kind = getattr(torch, dtype)
    net = Network(graph, arrays, kind).train(training)
    data = torch.from_numpy(arrays["data"])
    data = data if _is_index(graph) else data.to(kind)
    run: Any = net
    if framework == "torch.compile":
        if not training:
            import torch._inductor.config as inductor

            inductor.freezing = True
        run = torch.compile(net)

    def step() -> None:
        if not training:
            with torch.no_grad():
                run(data)
            return
        net.zero_grad(set_to_none=True)
        out = run(data)
        out.backward(torch.ones_like(out))

    def result() -> Any:
        net.eval()
        with torch.no_grad():
            found = (net if training else run)(data).float().numpy()
        net.train(training)
        return found

    return step, result


def _is_index(graph: dict[str, Any]) -> bool:
    """True when `data` are word numbers."""
    return any(node["op"] == "Embedding" for node in graph["nodes"])
