# SPDX-License-Identifier: Apache-2.0
"""A task as an ONNX model (operator set 17), for the runtimes that read those."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

OPSET = 17


class _Builder:
    def __init__(self, graph: dict[str, Any], arrays: Any) -> None:
        self.graph, self.arrays = graph, arrays
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, name: str, value: np.ndarray | np.float32) -> str:
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def add(self, op: str, inputs: list[str], outputs: list[str], **attrs: Any) -> None:
        self.nodes.append(helper.make_node(op, inputs, outputs, **attrs))

    def build(self) -> ModelProto:
        nodes = self.graph["nodes"]
        for i, node in enumerate(nodes):
            outputs = [f"v{i}_{k}" for k in range(len(node["shapes"]))]
            if node["op"] is None:
                if node["name"] != "data":
                    self.constant(outputs[0], self.arrays[node["name"]])
                continue
            inputs = [f"v{n}_{k}" for n, k in node["inputs"]]
            shapes = [nodes[n]["shapes"][k] for n, k in node["inputs"]]
            getattr(self, f"_{node['op'].strip('_').lower()}")(node, inputs, outputs, shapes)
        data = next(i for i, node in enumerate(nodes) if node["name"] == "data")
        n, k = self.graph["heads"][0]
        given = helper.make_tensor_value_info(f"v{data}_0", TensorProto.FLOAT, nodes[data]["shapes"][0])
        result = helper.make_tensor_value_info(f"v{n}_{k}", TensorProto.FLOAT, nodes[n]["shapes"][k])
        made = helper.make_graph(self.nodes, "task", [given], [result], self.constants)
        return helper.make_model(made, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)

    def _convolution(self, node: Any, x: list[str], y: list[str], s: Any) -> None:
        a = node["attrs"]
        pad = list(a["pad"] or (0, 0))
        self.add("Conv", x, y[:1], kernel_shape=a["kernel"], strides=a["stride"] or (1, 1), pads=pad * 2,
                 group=a["num_group"])  # fmt: skip

    def _batchnorm(self, node: Any, x: list[str], y: list[str], s: Any) -> None:
        self.add("BatchNormalization", x, y[:1], epsilon=node["attrs"]["eps"])

    def _activation(self, node: Any, x: list[str], y: list[str], s: Any) -> None:
        self.add({"relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh"}[node["attrs"]["act_type"]], x, y)

    def _pooling(self, node: Any, x: list[str], y: list[str], s: Any) -> None:
        a = node["attrs"]
        if a["global_pool"]:
            self.add("GlobalAveragePool", x, y)
            return
        op = "MaxPool" if a["pool_type"] == "max" else "AveragePool"
        pad = list(a["pad"] or (0, 0))
        self.add(op, x, y, kernel_shape=a["kernel"], strides=a["stride"] or (1, 1), pads=pad * 2)

    def _fullyconnected(self, node: Any, x: list[str], y: list[str], s: Any) -> None:
        if node["attrs"]["flatten"] or len(s[0]) == 2:
            self.add("Flatten", x[:1], [y[0] + "f"], axis=1)
            self.add("Gemm", [y[0] + "f", *x[1:]], y, transB=1)
            return
        self.add("Transpose", [x[1]], [y[0] + "t"], perm=(1, 0))
        self.add("MatMul", [x[0], y[0] + "t"], [y[0] + "m"])
        self.add("Add", [y[0] + "m", x[2]], y)

    def _leakyrelu(self, node: Any, x: list[str], y: list[str], s: Any) -> None:
        half, one = self.constant(y[0] + "h", np.float32(0.5)), self.constant(y[0] + "o", np.float32(1))
        root = self.constant(y[0] + "r", np.float32(2**0.5))
        self.add("Div", [x[0], root], [y[0] + "d"])
        self.add("Erf", [y[0] + "d"], [y[0] + "e"])
        self.add("Add", [y[0] + "e", one], [y[0] + "a"])
        self.add("Mul", [x[0], y[0] + "a"], [y[0] + "m"])
        self.add("Mul", [y[0] + "m", half], y[:1])

    def _flatten(self, node: Any, x: list[str], y: list[str], s: Any) -> None:
        self.add("Flatten", x, y, axis=1)

    def _concat(self, node: Any, x: list[str], y: list[str], s: Any) -> None:
        self.add("Concat", x, y, axis=node["attrs"]["dim"])

    def _dropout(self, node: Any, x: list[str], y: list[str], s: Any) -> None:
        self.add("Identity", x, y[:1])

    def _layernorm(self, node: Any, x: list[str], y: list[str], s: Any) -> None:
        self.add("LayerNormalization", x, y[:1], axis=-1, epsilon=node["attrs"]["eps"])

    def _embedding(self, node: Any, x: list[str], y: list[str], s: Any) -> None:
        self.add("Cast", [x[0]], [y[0] + "i"], to=TensorProto.INT64)
        self.add("Gather", [x[1], y[0] + "i"], y)

    def _batch_dot(self, node: Any, x: list[str], y: list[str], s: Any) -> None:
        right = x[1]
        if node["attrs"]["transpose_b"]:
            right = y[0] + "t"
            self.add("Transpose", [x[1]], [right], perm=(0, 2, 1))
        self.add("MatMul", [x[0], right], y)

    def _softmax(self, node: Any, x: list[str], y: list[str], s: Any) -> None:
        self.add("Softmax", x[:1], y, axis=node["attrs"]["axis"])

    def _transpose(self, node: Any, x: list[str], y: list[str], s: Any) -> None:
        self.add("Transpose", x, y, perm=node["attrs"]["axes"])

    def _reshape(self, node: Any, x: list[str], y: list[str], s: Any) -> None:
        self.add("Reshape", [x[0], self.constant(y[0] + "s", np.array(node["shapes"][0], np.int64))], y)

    def _elemwise_add(self, node: Any, x: list[str], y: list[str], s: Any) -> None:
        self.add("Add", x, y)

    def _mul_scalar(self, node: Any, x: list[str], y: list[str], s: Any) -> None:
        self.add("Mul", [x[0], self.constant(y[0] + "c", np.float32(node["attrs"]["scalar"]))], y)

    def _rnn(self, node: Any, x: list[str], y: list[str], s: Any) -> None:
        """ONNX orders gates i, o, f, c; ours are i, f, c, o."""
        hidden, layers, width = node["attrs"]["state_size"], node["attrs"]["num_layers"], s[0][2]
        name = self.graph["nodes"][node["inputs"][1][0]]["name"]
        flat, at, weights = self.arrays[name], 0, []
        for layer in range(layers):
            for columns in (width if layer == 0 else hidden, hidden):
                weights.append(flat[at : at + 4 * hidden * columns].reshape(4, hidden, columns)[[0, 3, 1, 2]])
                at += 4 * hidden * columns
        biases = flat[at:].reshape(layers, 2, 4, hidden)[:, :, [0, 3, 1, 2]]
        states = [self.arrays[self.graph["nodes"][n]["name"]] for n, _ in node["inputs"][2:4]]
        current = x[0]
        for layer in range(layers):
            tag, out = f"{y[0]}l{layer}", y[0] if layer + 1 == layers else f"{y[0]}l{layer}y"
            given = [
                self.constant(tag + "w", weights[2 * layer].reshape(1, 4 * hidden, -1)),
                self.constant(tag + "r", weights[2 * layer + 1].reshape(1, 4 * hidden, -1)),
                self.constant(tag + "b", biases[layer].reshape(1, -1)), "",
                self.constant(tag + "h", states[0][layer : layer + 1]),
                self.constant(tag + "c", states[1][layer : layer + 1]),
            ]  # fmt: skip
            self.add("LSTM", [current, *given], [tag + "o"], hidden_size=hidden)
            axes = self.constant(tag + "a", np.array([1], np.int64))
            self.add("Squeeze", [tag + "o", axes], [out])
            current = out


def load(folder: str) -> tuple[ModelProto, np.ndarray]:
    """The model of a task and its data."""
    with open(os.path.join(folder, "graph.json")) as file:
        graph = json.load(file)
    arrays = np.load(os.path.join(folder, "arrays.npz"))
    return _Builder(graph, arrays).build(), arrays["data"]
