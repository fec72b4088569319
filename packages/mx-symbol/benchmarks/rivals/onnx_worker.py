# SPDX-License-Identifier: Apache-2.0
"""A network in ONNX Runtime or OpenVINO, inference alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from loop import network, numbers, serve
from onnx import TensorProto, helper, numpy_helper


def _pads(text: str) -> list[int]:
    return [*numbers(text), *numbers(text)]


class Writer:
    """An ONNX model, node by node."""

    def __init__(self, folder: str) -> None:
        self.nodes, self.heads, self.values = network(folder)
        self.made: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, name: str, value: Any) -> str:
        """A tensor in the file."""
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def add(self, kind: str, inputs: list[str], output: str, **attrs: Any) -> str:
        """A node."""
        self.made.append(helper.make_node(kind, inputs, [output], **attrs))
        return output

    def model(self) -> bytes:
        """The file's bytes."""
        names: list[str] = []
        for i, node in enumerate(self.nodes):
            if node["op"] is None:
                is_data = node["name"] == "data"
                names.append("data" if is_data else self.constant(node["name"], self.values[node["name"]]))
                continue
            names.append(self.write(node, [names[j] for j, _ in node["inputs"]], f"t{i}"))
        last = names[self.heads[0][0]]
        data = self.values["data"]
        graph = helper.make_graph(
            self.made, "network",
            [helper.make_tensor_value_info("data", TensorProto.FLOAT, data.shape)],
            [helper.make_tensor_value_info(last, TensorProto.FLOAT, self.nodes[self.heads[0][0]]["shape"])],
            self.constants,
        )  # fmt: skip
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
        onnx.checker.check_model(made)
        return bytes(made.SerializeToString())

    def write(self, node: dict[str, Any], x: list[str], out: str) -> str:
        """One node, as one or a few of ONNX."""
        op, a = node["op"], node["attrs"]
        if op == "Convolution":
            return self.add("Conv", x, out, strides=numbers(a["stride"]), pads=_pads(a["pad"]),
                            kernel_shape=numbers(a["kernel"]), group=int(a["num_group"]))  # fmt: skip
        if op == "BatchNorm":
            return self.add("BatchNormalization", x, out, epsilon=float(a["eps"]))
        if op == "Pooling":
            if a["global_pool"] in ("True", "1"):
                return self.add("GlobalAveragePool", x, out)
            window = {
                "kernel_shape": numbers(a["kernel"]),
                "strides": numbers(a["stride"]),
                "pads": _pads(a["pad"]),
            }
            kind = "MaxPool" if a["pool_type"] == "max" else "AveragePool"
            return self.add(kind, x, out, **window)
        if op == "FullyConnected":
            if a["flatten"] in ("True", "1"):
                return self.add("Gemm", [self.add("Flatten", x[:1], f"{out}_flat"), *x[1:]], out, transB=1)
            turned = self.add("Transpose", x[1:2], f"{out}_weight", perm=[1, 0])
            product = self.add("MatMul", [x[0], turned], f"{out}_product")
            return self.add("Add", [product, x[2]], out)
        if op in ("Reshape", "Flatten"):
            return self.add(
                "Reshape", [x[0], self.constant(f"{out}_shape", np.array(node["shape"], np.int64))], out
            )
        if op == "_mul_scalar":
            return self.add("Mul", [x[0], self.constant(f"{out}_scalar", np.float32(a["scalar"]))], out)
        if op == "batch_dot":
            turned = a["transpose_b"] in ("True", "1")
            right = self.add("Transpose", x[1:], f"{out}_t", perm=[0, 2, 1]) if turned else x[1]
            return self.add("MatMul", [x[0], right], out)
        kinds = {
            "Activation": ({"relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh"}.get(a.get("act_type", "")), {}),
            "relu": ("Relu", {}), "elemwise_add": ("Add", {}), "Dropout": ("Identity", {}),
            "LeakyReLU": ("Gelu", {}), "Concat": ("Concat", {"axis": int(a.get("dim", 1))}),
            "transpose": ("Transpose", {"perm": numbers(a.get("axes", ""))}),
            "softmax": ("Softmax", {"axis": -1}),
            "LayerNorm": ("LayerNormalization", {"epsilon": float(a.get("eps", 1e-5))}),
        }  # fmt: skip
        kind, attrs = kinds[op]
        assert kind is not None
        return self.add(kind, x, out, **attrs)


def make(folder: str, mode: str, kind: str) -> tuple[Any, Any]:
    """A session of the model."""
    if mode != "inference":
        raise ValueError("inference alone")
    writer = Writer(folder)
    model, data = writer.model(), writer.values["data"]
    if kind == "onnxruntime":
        import onnxruntime

        session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
        return lambda: session.run(None, {"data": data}), session.run(None, {"data": data})[0]
    import openvino

    file = Path(folder) / "network.onnx"
    file.write_bytes(model)
    settings = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
    compiled = openvino.Core().compile_model(str(file), "CPU", settings)
    request = compiled.create_infer_request()
    return lambda: request.infer({0: data}), request.infer({0: data})[0]


if __name__ == "__main__":
    serve(make)
