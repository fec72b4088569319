# SPDX-License-Identifier: Apache-2.0
"""Layers: names, shapes, texts, outputs and gradients as MXNet 1.9.1 has them (`tests/oracle/gluon`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mx_gluon import nn
from mx_gluon.block import HybridBlock
from mx_ndarray import autograd, nd
from mx_symbol import NameManager
from testkit.gluon_record import arrays, cases, chain

pytestmark = pytest.mark.timeout(60)
CASES = [pytest.param(i, id=case["make"][:60]) for i, case in enumerate(cases("layers"))]
#: the values that MXNet's SELU gives are right, its gradient is that of another function (decision 0008)
WRONG = ("nn.SELU",)


def made(case: dict[str, Any]) -> Any:
    with NameManager():
        return eval(case["make"], {"nn": nn, "chain": chain})


def close(got: Any, expected: Any) -> None:
    assert got.shape == expected.shape
    np.testing.assert_allclose(got, expected, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("number", CASES)
def test_names_shapes_and_texts(number: int) -> None:
    case, data = cases("layers")[number], arrays(f"layers/{number}/")
    net = made(case)
    assert net.prefix == case["prefix"]
    assert repr(net) == case["before"]
    assert {name: list(param.shape) for name, param in net.collect_params().items()} == case["unknown"]
    net.initialize()
    net(nd.array(data["x"]))
    params = net.collect_params()
    assert list(params.keys()) == list(case["shapes"])
    assert {name: list(param.shape) for name, param in params.items()} == case["shapes"]
    assert {name: param.grad_req for name, param in params.items()} == case["requests"]
    assert {k: p.name for k, p in net._collect_params_with_prefix().items()} == case["structure"]
    assert list(net._collect_params_with_prefix()) == list(case["structure"])
    assert repr(net) == case["after"]
    assert repr(params) == case["params"]


@pytest.mark.parametrize("hybridized", [False, True], ids=["imperative", "hybridized"])
@pytest.mark.parametrize("number", CASES)
@pytest.mark.filterwarnings("ignore:.*all blocks of this Sequential are hybrid")
def test_outputs_and_gradients(number: int, hybridized: bool) -> None:
    case, data = cases("layers")[number], arrays(f"layers/{number}/")
    net = made(case)
    net.initialize()
    if hybridized:
        net.hybridize()
    x = nd.array(data["x"])
    net(x)
    params = net.collect_params()
    for name, param in params.items():
        param.set_data(nd.array(data["param/" + name]))
    x.attach_grad()
    close(net(x).asnumpy(), data["predicted"])
    with autograd.record():
        out = net(x)
    out.backward(nd.array(data["head"]))
    close(out.asnumpy(), data["out"])
    for name, expected in data.items():
        kind, _, param_name = name.partition("/")
        if kind == "after":
            close(params[param_name].data().asnumpy(), expected)
        elif kind == "grad" and not case["make"].startswith(WRONG):
            close((params[param_name].grad() if param_name else x.grad).asnumpy(), expected)


def test_every_layer_has_a_case() -> None:
    public = {
        name for name, value in vars(nn).items() if isinstance(value, type) and issubclass(value, HybridBlock)
    }
    told = " ".join(case["make"] for case in cases("layers"))
    assert {name for name in public if f"nn.{name}(" not in told} <= {"HybridBlock", "SymbolBlock"}
