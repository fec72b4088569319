# SPDX-License-Identifier: Apache-2.0
"""Cells that convolve, as MXNet 1.9.1 has them (`tests/oracle/training`)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mx_core import cpu
from mx_core.errors import ArgumentError
from mx_symbol import sym
from mx_symbol.symbol.naming import NameManager
from mx_train import rnn
from testkit.oracle import ORACLE

RECORDED = json.loads((ORACLE / "training" / "rnn_convolutional.json").read_text())
MAKERS: dict[str, Callable[[], Any]] = {
    "ConvRNNCell": lambda: rnn.ConvRNNCell((1, 3, 6, 6), 2),
    "ConvLSTMCell": lambda: rnn.ConvLSTMCell(
        (1, 3, 6, 6), 2, h2h_kernel=(5, 3), i2h_stride=(2, 1), i2h_pad=(0, 1), activation="tanh", prefix="p_"
    ),
    "ConvGRUCell": lambda: rnn.ConvGRUCell(
        (1, 3, 6, 6), 2, h2h_dilate=(2, 1), i2h_kernel=(1, 1), i2h_pad=(0, 0)
    ),
}


@pytest.mark.parametrize("name", MAKERS)
def test_graphs_and_numbers_are_mxnets(name: str) -> None:
    expected, cell = RECORDED[name], MAKERS[name]()
    assert [list(shape) for shape in cell.state_shape] == expected["states"]
    with NameManager():
        outputs, states = cell.unroll(2, sym.Variable("data"), merge_outputs=True)
    net = sym.Group([outputs, *states])
    graph = json.loads(net.tojson())
    nodes = [[n["op"], n["name"], n.get("attrs", {}), [i[:2] for i in n["inputs"]]] for n in graph["nodes"]]
    assert (nodes, [head[:2] for head in graph["heads"]]) == (expected["nodes"], expected["heads"])
    executor = net.simple_bind(cpu(), data=(1, 2, 3, 6, 6))
    random = np.random.RandomState(1)
    for key in sorted(executor.arg_dict):
        executor.arg_dict[key][:] = random.uniform(-1, 1, executor.arg_dict[key].shape)
    for output, (shape, values) in zip(executor.forward(), expected["outputs"], strict=True):
        assert list(output.shape) == shape
        np.testing.assert_allclose(output.asnumpy().ravel(), values, atol=2e-4)


@pytest.mark.parametrize("kind", [rnn.ConvRNNCell, rnn.ConvLSTMCell, rnn.ConvGRUCell])
def test_channels_may_come_last(kind: type[rnn.BaseConvRNNCell]) -> None:
    results = []
    random = np.random.RandomState(0)
    data = random.uniform(-1, 1, (2, 2, 3, 5, 5))
    weights: dict[str, Any] = {}
    for layout in ("NCHW", "NHWC"):
        last = layout == "NHWC"
        cell = kind((1, 5, 5, 3) if last else (1, 3, 5, 5), 4, conv_layout=layout, prefix="c_")
        outputs, _ = cell.unroll(2, sym.Variable("data"), merge_outputs=True)
        values = data.transpose(0, 1, 3, 4, 2) if last else data
        executor = outputs.simple_bind(cpu(), data=values.shape)
        executor.arg_dict["data"][:] = values
        for key, array in executor.arg_dict.items():
            if key == "data":
                continue
            if not last:
                weights[key] = random.uniform(-0.5, 0.5, array.shape)
            turned = last and weights[key].ndim == 4
            array[:] = weights[key].transpose(0, 2, 3, 1) if turned else weights[key]
        result = executor.forward()[0].asnumpy()
        results.append(result.transpose(0, 1, 4, 2, 3) if last else result)
    np.testing.assert_allclose(results[0], results[1], rtol=1e-4, atol=1e-5)


def test_the_kernel_of_the_state_is_odd() -> None:
    with pytest.raises(
        ArgumentError, match=r"\[ConvGRUCell\] h2h_kernel: expected odd numbers, got \(2, 3\)"
    ):
        rnn.ConvGRUCell((1, 3, 6, 6), 2, h2h_kernel=(2, 3))
