# SPDX-License-Identifier: Apache-2.0
"""Deformable convolutions: names, shapes, texts, outputs and gradients as MXNet 1.9.1 has them (`tests/oracle/gluon`)."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from mx_gluon.contrib import cnn
from mx_gluon.errors import RefusedError
from mx_ndarray import autograd, nd
from mx_symbol import NameManager
from mx_train import initializer
from testkit.gluon_record import FOLDER

pytestmark = pytest.mark.timeout(60)
RECORDED: list[dict[str, Any]] = json.loads((FOLDER / "cnn.json").read_text())
CASES = [pytest.param(case, id=case["make"][4:60]) for case in RECORDED]
BOTH = pytest.mark.parametrize("hybridized", [False, True], ids=["imperative", "hybridized"])


def made(case: dict[str, Any]) -> Any:
    with NameManager():
        return eval(case["make"], {"cnn": cnn})


def filled(case: dict[str, Any], hybridized: bool) -> Any:
    """The layer with the recorded values."""
    net = made(case)
    net.initialize()
    net.hybridize(hybridized)
    net(nd.array(case["x"]))
    for name, param in net.collect_params().items():
        param.set_data(nd.array(case["values"][name]))
    return net


@pytest.mark.parametrize("case", CASES)
def test_names_shapes_and_texts(case: dict[str, Any]) -> None:
    net = made(case)
    assert (net.prefix, repr(net)) == (case["prefix"], case["before"])
    shapes = {name: list(param.shape) for name, param in net.collect_params().items()}
    assert list(shapes.items()) == list(case["unknown"].items())
    net.initialize(initializer.Constant(0.5))
    first = net(nd.array(case["x"]))
    np.testing.assert_allclose(first.asnumpy(), case["first"], rtol=1e-5, atol=1e-6)
    for name, param in net.collect_params().items():
        np.testing.assert_array_equal(param.data().asnumpy(), np.float32(case["initial"][name]))
    structure = {name: param.name for name, param in net._collect_params_with_prefix().items()}
    assert list(structure.items()) == list(case["structure"].items())
    assert repr(net) == case["after"]


@BOTH
@pytest.mark.parametrize("case", CASES)
def test_outputs_and_gradients(case: dict[str, Any], hybridized: bool) -> None:
    net, x = filled(case, hybridized), nd.array(case["x"])
    x.attach_grad()
    with autograd.record():
        out = net(x)
    np.testing.assert_allclose(out.asnumpy(), case["out"], rtol=1e-4, atol=1e-5)
    if "head" not in case:
        return
    out.backward(nd.array(case["head"]))
    found = {name: param.grad() for name, param in net.collect_params().items()} | {"x": x.grad}
    assert found.keys() == case["grads"].keys()
    for name, grad in found.items():
        np.testing.assert_allclose(grad.asnumpy(), case["grads"][name], rtol=2e-4, atol=2e-5, err_msg=name)


@pytest.mark.parametrize("case", CASES)
def test_nodes_of_the_graph(case: dict[str, Any]) -> None:
    nodes = json.loads(filled(case, True)._cached_graph[1].tojson())["nodes"]
    assert [[node["name"], node["op"]] for node in nodes if node["op"] != "null"] == case["nodes"]


@BOTH
@pytest.mark.parametrize(
    "case", [case for case in RECORDED if "head" not in case], ids=["one", "padded", "groups"]
)
def test_gradients_by_differences(case: dict[str, Any], hybridized: bool) -> None:
    """MXNet computes these gradients on GPUs alone."""
    net, x = filled(case, hybridized), nd.array(case["x"])
    random = np.random.default_rng(5)
    head = random.normal(size=np.shape(case["out"])).astype(np.float32)
    with autograd.record():
        out = net(x)
    out.backward(nd.array(head))
    step = 1e-3  # samples that move into another pixel have another slope there
    for param in net.collect_params().values():
        value = param.data().copy()
        direction = nd.array(random.normal(size=value.shape)) / 8
        sides = []
        for sign in (1, -1):
            param.set_data(value + direction * (sign * step))
            sides.append((net(x).asnumpy() * head).sum(dtype=np.float64))
        param.set_data(value)
        expected = float((param.grad() * direction).sum().asscalar())
        assert (sides[0] - sides[1]) / (2 * step) == pytest.approx(expected, rel=0.01, abs=0.005), param.name


@pytest.mark.parametrize("layer", [cnn.DeformableConvolution, cnn.ModulatedDeformableConvolution])
def test_mistakes_are_told(layer: Any) -> None:
    with pytest.raises(RefusedError, match="layout: expected 'NCHW', got 'NHWC'"):
        layer(2, layout="NHWC")
    with pytest.raises(RefusedError, match="kernel_size: expected an integer or 2 of them"):
        layer(2, kernel_size=(1, 2, 3))
    with pytest.raises(RefusedError, match="adj: expected None"):
        layer(2, adj=(1, 1))
