# SPDX-License-Identifier: Apache-2.0
"""A network in PyTorch."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from loop import network, numbers, serve


def _flag(attrs: dict[str, str], name: str) -> bool:
    return attrs.get(name) in ("True", "1")


class Network(torch.nn.Module):
    """The nodes one after the other."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        self.nodes, self.heads, values = network(folder)
        used = {i for node in self.nodes for i, _ in node["inputs"]}
        self.slots: dict[int, str] = {}
        for i, node in enumerate(self.nodes):
            if node["op"] is None and i in used and node["name"] != "data":
                self.slots[i] = f"v{i}"
                value = torch.from_numpy(values[node["name"]])
                if "moving" in node["name"] or "begin" in node["name"]:
                    self.register_buffer(f"v{i}", value)
                else:
                    self.register_parameter(f"v{i}", torch.nn.Parameter(value))

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        """The first output."""
        found: dict[int, Any] = {}
        for i, node in enumerate(self.nodes):
            if node["op"] is None:
                found[i] = data if node["name"] == "data" else getattr(self, self.slots[i])
                continue
            inputs = [found[j][k] if isinstance(found[j], tuple) else found[j] for j, k in node["inputs"]]
            found[i] = self.apply_op(node, inputs)
        result: torch.Tensor = found[self.heads[0][0]]
        return result

    def apply_op(self, node: dict[str, Any], x: list[torch.Tensor]) -> Any:
        """One node."""
        op, a = node["op"], node["attrs"]
        if op == "Convolution":
            bias = x[2] if len(x) > 2 else None
            return F.conv2d(x[0], x[1], bias, numbers(a["stride"]), numbers(a["pad"]), 1, int(a["num_group"]))
        if op == "BatchNorm":
            return F.batch_norm(x[0], x[3], x[4], x[1], x[2], self.training, 0.1, float(a["eps"]))
        if op == "Pooling":
            if _flag(a, "global_pool"):
                return x[0].mean((2, 3), keepdim=True)
            window = numbers(a["kernel"]), numbers(a["stride"]), numbers(a["pad"])
            return (F.max_pool2d if a["pool_type"] == "max" else F.avg_pool2d)(x[0], *window)
        if op == "FullyConnected":
            return F.linear(
                x[0].flatten(1) if _flag(a, "flatten") else x[0], x[1], x[2] if len(x) > 2 else None
            )
        if op == "RNN":
            return _lstm(x, int(a["state_size"]), int(a["num_layers"]))
        if op in ("Reshape", "Flatten"):
            return x[0].reshape(node["shape"])
        return _SIMPLE[op](x, a)


_SIMPLE = {
    "Activation": lambda x, a: getattr(torch, a["act_type"])(x[0]),
    "relu": lambda x, a: torch.relu(x[0]),
    "LeakyReLU": lambda x, a: F.gelu(x[0]),
    "Dropout": lambda x, a: x[0],
    "elemwise_add": lambda x, a: x[0] + x[1],
    "Concat": lambda x, a: torch.cat(x, int(a["dim"])),
    "_mul_scalar": lambda x, a: x[0] * float(a["scalar"]),
    "transpose": lambda x, a: x[0].permute(numbers(a["axes"])),
    "softmax": lambda x, a: torch.softmax(x[0], int(a["axis"])),
    "LayerNorm": lambda x, a: F.layer_norm(x[0], x[1].shape, x[1], x[2], float(a["eps"])),
    "batch_dot": lambda x, a: torch.bmm(x[0], x[1].transpose(1, 2) if _flag(a, "transpose_b") else x[1]),
    "Embedding": lambda x, a: F.embedding(x[0].long(), x[1]),
}


def _lstm(x: list[torch.Tensor], units: int, layers: int) -> torch.Tensor:
    """A stack of LSTM layers on packed parameters: all weights, then all biases."""
    data, packed, h, c = x
    weights, at = [], 0
    sizes = [data.shape[-1], *[units] * (layers - 1)]
    for size in sizes:
        for width in (size, units):
            weights.append(packed[at : at + 4 * units * width].view(4 * units, width))
            at += 4 * units * width
    flat = []
    for layer in range(layers):
        biases = [packed[at + k * 4 * units : at + (k + 1) * 4 * units] for k in range(2)]
        at += 8 * units
        flat += [*weights[2 * layer : 2 * layer + 2], *biases]
    result: torch.Tensor = torch._VF.lstm(data, (h, c), flat, True, layers, 0.0, False, False, False)[0]
    return result


def make(folder: str, mode: str, kind: str) -> tuple[Any, Any]:
    """The network, compiled or not."""
    torch.manual_seed(0)
    net = Network(folder)
    data = torch.from_numpy(network(folder)[2]["data"])
    net.train(mode == "training")
    if kind == "compile":
        import torch._inductor.config as config

        config.freezing = mode == "inference"
    call = torch.compile(net) if kind == "compile" else net
    if mode == "inference":
        with torch.no_grad():
            result = call(data).numpy()

        def run() -> None:
            with torch.no_grad():
                call(data)

        return run, result
    head = torch.ones_like(call(data))

    def train() -> None:
        net.zero_grad(set_to_none=True)
        call(data).backward(head)

    return train, call(data).detach().numpy()


if __name__ == "__main__":
    serve(make)
