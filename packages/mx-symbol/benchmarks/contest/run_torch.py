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

from contest.packed import packed_weights, pieces
from contest.timing import turn

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
    return torch.lstm(x[0], (x[2], x[3]), x[1], True, a["num_layers"], 0.0, training, False, False)[0]


def _attention(x: Any, a: Attrs, _: Any, training: bool) -> Any:
    q, k, v = (part.unsqueeze(1) for part in x)  # four axes, as the fast kernels take them
    return F.scaled_dot_product_attention(q, k, v, scale=a["scale"]).squeeze(1)


CALLS: dict[str, Callable[..., Any]] = {
    "Convolution": _convolution,
    "BatchNorm": _batch_norm,
    "Pooling": _pooling,
    "FullyConnected": _linear,
    "RNN": _lstm,
    "attention": _attention,
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
    """Runs the nodes in order; attention is one call, and weights of recurrent layers are parameters of their own."""

    def __init__(self, graph: dict[str, Any], arrays: Any, dtype: torch.dtype) -> None:
        super().__init__()
        self.nodes, self.heads = fuse_attention(graph["nodes"], graph["heads"]), graph["heads"]
        self.packed = packed_weights(graph)
        self.keys = {}
        for i, node in enumerate(self.nodes):
            if node is None or node["op"] is not None or node["name"] == "data":
                continue
            name, value = node["name"], torch.from_numpy(arrays[node["name"]])
            self.keys[i] = f"p{i}"
            if name in graph["states"]:
                self.register_buffer(f"p{i}", value)
            elif name in graph["fixed"]:
                self.register_buffer(f"p{i}", value.to(dtype))
            elif name in self.packed:
                self.register_module(f"p{i}", _separate(value.to(dtype), self.packed[name]))
            else:
                self.register_parameter(f"p{i}", torch.nn.Parameter(value.to(dtype)))

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        values: list[Any] = []
        for i, node in enumerate(self.nodes):
            if node is None:
                values.append(None)
                continue
            if node["op"] is None:
                value = getattr(self, self.keys[i]) if i in self.keys else data
                values.append([list(value) if isinstance(value, torch.nn.ParameterList) else value])
                continue
            inputs = [values[n][k] for n, k in node["inputs"]]
            made = CALLS[node["op"]](inputs, node["attrs"], node["shapes"][0], self.training)
            values.append(made if isinstance(made, list) else [made])
        n, k = self.heads[0]
        return values[n][k]

    def gradients(self) -> dict[str, Any]:
        """Gradients by name, those of packed weights in one array again."""
        found = {}
        for i, key in self.keys.items():
            held, name = getattr(self, key), self.nodes[i]["name"]
            if isinstance(held, torch.nn.ParameterList):
                order = _packing_order(len(held))
                found[name] = torch.cat([held[n].grad.ravel() for n in order]).float().numpy()
            elif isinstance(held, torch.nn.Parameter):
                found[name] = held.grad.float().numpy()
        return found


def _separate(flat: torch.Tensor, shapes: list[tuple[int, int]]) -> torch.nn.ParameterList:
    """Per layer: input weights, recurrent weights, and their biases."""
    weights, rest = pieces(flat, shapes)
    biases = rest.reshape(len(shapes), -1)
    flat_list = [w for n in range(0, len(shapes), 2) for w in (*weights[n : n + 2], *biases[n : n + 2])]
    return torch.nn.ParameterList([torch.nn.Parameter(w.clone()) for w in flat_list])


def _packing_order(n: int) -> list[int]:
    """All weights, then all biases."""
    return [i for i in range(n) if i % 4 < 2] + [i for i in range(n) if i % 4 >= 2]


def fuse_attention(nodes: list[Any], heads: list[Any]) -> list[Any]:
    """softmax(q kᵀ · scale) v as one node, where nothing else reads what is between."""
    readers: dict[int, list[int]] = {}
    for i, node in enumerate(nodes):
        for source, _ in node["inputs"]:
            readers.setdefault(source, []).append(i)
    for source, _ in heads:
        readers.setdefault(source, []).append(-1)
    made = list(nodes)
    for i, node in enumerate(nodes):
        if node["op"] != "batch_dot" or node["attrs"]["transpose_b"]:
            continue
        inner, chain, scale = node["inputs"][0][0], [], 1.0
        for op in ("softmax", "_mul_scalar", "batch_dot"):
            if nodes[inner]["op"] != op or len(readers[inner]) > 1:
                break
            chain.append(inner)
            scale = nodes[inner]["attrs"].get("scalar", scale)
            inner = nodes[inner]["inputs"][0][0]
        if len(chain) == 3 and nodes[chain[2]]["attrs"]["transpose_b"]:
            inputs = [*nodes[chain[2]]["inputs"], node["inputs"][1]]
            made[i] = {**node, "op": "attention", "inputs": inputs, "attrs": {"scale": scale}}
            for gone in chain:
                made[gone] = None
    return made


def prepare(
    framework: str, folder: str, training: bool, dtype: str
) -> tuple[Callable[[], None], Callable[[], Any], Callable[[], Any]]:
    """Step, result and gradients of a task, in the memory format that is quicker; `torch.compile` compiles."""
    torch.set_num_threads(os.cpu_count() or 1)
    with open(os.path.join(folder, "graph.json")) as file:
        graph = json.load(file)
    arrays = np.load(os.path.join(folder, "arrays.npz"))
    formats = [torch.contiguous_format]
    if arrays["data"].ndim == 4:
        formats.append(torch.channels_last)
    found = [_prepared(framework, graph, arrays, training, dtype, layout) for layout in formats]
    return min(found, key=lambda made: min(turn(made[0], 3)))


def _prepared(
    framework: str, graph: Any, arrays: Any, training: bool, dtype: str, layout: Any
) -> tuple[Callable[[], None], Callable[[], Any], Callable[[], Any]]:
    kind = getattr(torch, dtype)
    net: Network = Network(graph, arrays, kind).train(training).to(memory_format=layout)
    states = {name: value.clone() for name, value in net.named_buffers()}
    data = torch.from_numpy(arrays["data"])
    data = data if _is_index(graph) else data.to(kind).contiguous(memory_format=layout)
    run: Any = net
    if framework == "torch.compile":
        if not training:
            import torch._inductor.config as inductor

            inductor.freezing = True
        run = torch.compile(net)
    without_gradients = torch.no_grad if framework == "torch.compile" else torch.inference_mode

    def step() -> None:
        if not training:
            with without_gradients():
                run(data)
            return
        net.zero_grad(set_to_none=True)
        out = run(data)
        out.backward(torch.ones_like(out))

    def result() -> Any:
        net.eval()
        for name, value in net.named_buffers():  # what training steps have moved
            value.copy_(states[name])
        with without_gradients():
            found = (net if training else run)(data).float().numpy()
        net.train(training)
        return found

    def gradients() -> dict[str, Any]:
        step()
        return net.gradients()

    return step, result, gradients


def _is_index(graph: dict[str, Any]) -> bool:
    """True when `data` are word numbers."""
    return any(node["op"] == "Embedding" for node in graph["nodes"])
