# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json

import pytest

from mx_core.errors import MXNetError
from mx_ndarray import NDArray, autograd, nd
from mx_ndarray.recorded_graph import to_json


class Same(autograd.Function):
    """Its input."""

    def forward(self, x: NDArray) -> NDArray:
        return x * 1

    def backward(self, dy: NDArray) -> NDArray:
        return dy


def test_operators_leaves_and_other_arrays() -> None:
    x, other = nd.ones((2, 4)), nd.ones((2, 2))
    x.attach_grad()
    with autograd.record():
        left, right = nd.split(x, num_outputs=2, axis=1)
        y = nd.sum(right * left + other, axis=1) * 3
    graph = json.loads(to_json(y))
    nodes = graph["nodes"]
    assert [node["name"] for node in nodes] == [
        "var0", "node_0", "node_1", "null1", "node_2", "node_3", "node_4",
    ]  # fmt: skip
    assert nodes[2]["inputs"] == [[1, 1, 0], [1, 0, 0]]
    assert nodes[5]["op"] == "sum" and nodes[5]["attrs"] == {"axis": "(1,)"}
    assert float(nodes[6]["attrs"]["scalar"]) == 3
    assert graph["arg_nodes"] == [0, 3] and graph["heads"] == [[6, 0, 0]]
    assert json.loads(to_json(right))["heads"] == [[1, 1, 0]]


def test_what_has_no_graph_is_refused() -> None:
    x = nd.ones((2,))
    with pytest.raises(MXNetError, match="not in a computational graph"):
        to_json(x)
    x.attach_grad()
    with autograd.record():
        y = x * 2
        z = Same()(y)
    with pytest.raises(MXNetError, match="Function"):
        to_json(z)
    y.backward()
    with pytest.raises(MXNetError, match="graph"):
        to_json(y)
