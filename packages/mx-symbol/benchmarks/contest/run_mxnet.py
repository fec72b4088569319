# SPDX-License-Identifier: Apache-2.0
"""MXNet 1.9.1, which reads our symbol files. Runs on Python 3.8."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

import mxnet as mx
import numpy as np


def prepare(
    framework: str, folder: str, training: bool, dtype: str
) -> tuple[Callable[[], None], Callable[[], np.ndarray], Callable[[], dict[str, np.ndarray]]]:
    """Step, result and gradients of a task."""
    net = mx.sym.load(os.path.join(folder, "symbol.json"))
    with open(os.path.join(folder, "graph.json")) as file:
        fixed = json.load(file)["fixed"]
    if not training:
        net = net.optimize_for("MKLDNN")
    arrays = np.load(os.path.join(folder, "arrays.npz"))
    inputs = net.list_arguments() + net.list_auxiliary_states()
    shapes = {name: arrays[name].shape for name in inputs if name in arrays}
    requests = {n: "write" if training and n not in fixed else "null" for n in net.list_arguments()}
    executor = net.simple_bind(mx.cpu(), grad_req=requests, **shapes)
    for table in (executor.arg_dict, executor.aux_dict):
        for name, array in table.items():
            array[:] = arrays[name]
    head = mx.nd.ones(executor.outputs[0].shape)

    def step() -> None:
        executor.forward(is_train=training)
        if training:
            executor.backward(head)
        mx.nd.waitall()

    def result() -> np.ndarray:
        found: np.ndarray = executor.forward(is_train=False)[0].asnumpy()
        return found

    def gradients() -> dict[str, np.ndarray]:
        step()
        return {name: array.asnumpy() for name, array in executor.grad_dict.items() if array is not None}

    return step, result, gradients
