# SPDX-License-Identifier: Apache-2.0
"""Convolutions take in bias, residual and activation; weights are packed when they were written, not at each run."""

import math

import numpy as np
import pytest

from mx_core import operators
from mx_core.graph import PREPARED
from mx_core.operator.declaration import ReferenceContext
from mx_symbol import sym
from mx_symbol.passes.fused_layers import FUSED_CONVOLUTION
from testkit.image_networks import assert_same, bound, operators_after, residual_network, unit

SHAPE = (2, 3, 32, 32)


def test_a_residual_network_is_convolutions_and_poolings():
    names = operators_after(residual_network(), "layers", {"data": SHAPE})
    running = [n for n in names if n not in ("transpose", "Reshape", "_batch_norm_affine", "broadcast_mul")]
    assert set(running) == {
        "_fused_Convolution", "Pooling", "Concat", "Flatten", "FullyConnected"
    }  # fmt: skip
    assert running.count("_fused_Convolution") == 6


def test_what_runs_at_each_call():
    executor = bound(residual_network(), SHAPE, "all")
    running = [n.op.name for n in executor.nodes(False) if PREPARED not in n.attrs]
    assert sorted(running) == sorted(
        ["transpose"] * 2
        + ["_fused_Convolution"] * 6
        + ["Pooling"] * 2
        + ["Concat", "Flatten", "FullyConnected"]
    )


ACTIVATIONS = {
    "relu": sym.relu, "sigmoid": sym.sigmoid, "tanh": sym.tanh,
    "softrelu": lambda x: sym.Activation(x, act_type="softrelu"),
    "leaky": lambda x: sym.LeakyReLU(x, act_type="leaky", slope=0.1),
    "clip": lambda x: sym.clip(x, 0.0, 6.0),
    "gelu": lambda x: sym.LeakyReLU(x, act_type="gelu"),
}  # fmt: skip


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("residual", [False, True])
def test_every_activation(name, residual):
    x = sym.tanh(sym.Variable("data"))
    y = unit(x, 3, "unit")
    net = ACTIVATIONS[name](y + x if residual else y)
    names = operators_after(net, "layers", {"data": (2, 3, 8, 8)})
    assert names.count("_fused_Convolution") == 1 and "Convolution" not in names
    assert_same(net, (2, 3, 8, 8), "all")


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("residual", [False, True])
def test_many_channels(name, residual):
    """Where kernels for the CPU may compute a layer in another way than one of three channels."""
    shape = (2, 64, 14, 13)
    x = sym.tanh(sym.Variable("data"))
    y = unit(x, 64, "unit")
    net = ACTIVATIONS[name](y + x if residual else y)
    assert operators_after(net, "layers", {"data": shape}).count("_fused_Convolution") == 1
    assert_same(net, shape, "all")


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("bias", [False, True])
def test_fully_connected_layers_too(name, bias):
    x = sym.tanh(sym.Variable("data"))
    y = sym.FullyConnected(x, num_hidden=6, no_bias=not bias, flatten=False, name="fc")
    for net in (ACTIVATIONS[name](y), ACTIVATIONS[name](y + x), y + x):
        names = operators_after(net, "layers", {"data": (3, 5, 6)})
        assert names == ["tanh", "_fused_FullyConnected"]
        assert_same(net, (3, 5, 6), "all")


def test_a_result_that_is_read_twice_is_not_taken_in():
    x = sym.Convolution(sym.Variable("data"), kernel=(1, 1), num_filter=3, no_bias=True)
    net = sym.Group([sym.relu(x), x])
    assert "relu" in operators_after(net, "layers", {"data": SHAPE})
    assert_same(net, SHAPE, "all")


def normalized(layer):
    return sym.BatchNorm(layer, fix_gamma=False, name="norm")


#: layers that a normalization follows, and their shapes: packed in blocks of filters, in groups, by Winograd's
#: algorithm, with channels last, and a product
SCALED = {
    "filters in blocks": (lambda x: sym.Convolution(x, kernel=(1, 1), num_filter=24), (2, 16, 9, 9)),
    "filters that fill no block": (lambda x: sym.Convolution(x, kernel=(3, 3), num_filter=13), (2, 3, 9, 9)),
    "groups": (lambda x: sym.Convolution(x, kernel=(3, 3), num_filter=32, num_group=2), (2, 32, 9, 9)),
    "a filter per channel": (lambda x: sym.Convolution(x, kernel=(3, 3), num_filter=16, num_group=16), (2, 16, 9, 9)),
    "Winograd": (lambda x: sym.Convolution(x, kernel=(3, 3), pad=(1, 1), num_filter=64), (2, 64, 56, 56)),
    "one dimension": (lambda x: sym.Convolution(x, kernel=(3,), num_filter=24), (2, 16, 9)),
    "product": (lambda x: sym.FullyConnected(x, num_hidden=32), (16, 24)),
}  # fmt: skip


@pytest.mark.parametrize(("make", "shape"), SCALED.values(), ids=SCALED)
def test_packing_applies_the_scale_of_a_normalization(make, shape):
    net = normalized(make(sym.Variable("data")))
    optimised, plain = (bound(net, shape, passes, grad_req="null") for passes in ("all", "none"))
    prepared = [node.op.name for node in optimised.nodes(False) if PREPARED in node.attrs]
    assert prepared == ["_batch_norm_affine", "_onednn_pack_weight"]
    for factor in (1.0, -2.0):
        for executor in (optimised, plain):
            executor.arg_dict["norm_gamma"][:] = executor.arg_dict["norm_gamma"] * factor
            executor.forward()
        expected = plain.outputs[0].asnumpy()
        np.testing.assert_allclose(
            optimised.outputs[0].asnumpy(), expected, atol=2e-4 * np.abs(expected).max()
        )


def rows(x, **kwargs):
    return sym.FullyConnected(x, num_hidden=32, flatten=False, name="unit_conv", **kwargs)


NETWORKS = {
    "convolution": lambda x: sym.relu(unit(x, 32, "unit")),
    "product": rows,
    "product with activation": lambda x: sym.sigmoid(rows(x, no_bias=True)),
    "product with residual": lambda x: sym.relu(rows(x) + x),
}


@pytest.mark.parametrize("shape", [SHAPE, (2, 64, 14, 32)])
@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_a_written_weight_is_packed_again(network, shape):
    net = network(sym.Variable("data"))
    optimised, plain = (bound(net, shape, passes, grad_req="null") for passes in ("all", "none"))
    assert [node.op.name for node in optimised.nodes(False)].count("_onednn_pack_weight") == 1
    for factor in (1.0, 2.0, -1.0):
        for executor in (optimised, plain):
            executor.arg_dict["unit_conv_weight"][:] = executor.arg_dict["unit_conv_weight"] * factor
            executor.forward()
        np.testing.assert_allclose(
            optimised.outputs[0].asnumpy(), plain.outputs[0].asnumpy(), rtol=1e-4, atol=1e-4
        )


@pytest.mark.parametrize("activation", [None, *ACTIVATIONS])
def test_the_reference_is_the_composition(activation):
    rng = np.random.default_rng(0)
    values = {
        "kernel": (3, 3),
        "num_filter": 4,
        "activation": activation,
        "alpha": 0.1,
        "beta": 6.0,
        "residual": True,
    }
    p = FUSED_CONVOLUTION.Param.parse(values)
    shapes = (1, 2, 6, 6), (4, 2, 3, 3), (4,), (1, 4, 4, 4)
    x, w, b, r = (rng.standard_normal(s).astype("float32") for s in shapes)
    context = ReferenceContext()
    (found,) = FUSED_CONVOLUTION.reference(p, [x, w, b, r], context)
    convolution = operators.get("Convolution")
    (y,) = convolution.reference(FUSED_CONVOLUTION.layer_params(p), [x, w, b], context)
    y = y + r
    expected = {
        None: lambda v: v, "relu": lambda v: np.maximum(v, 0), "tanh": np.tanh,
        "sigmoid": lambda v: 1 / (1 + np.exp(-v)), "softrelu": lambda v: np.log1p(np.exp(v)),
        "leaky": lambda v: np.where(v > 0, v, 0.1 * v), "clip": lambda v: np.clip(v, 0.1, 6),
        "gelu": np.vectorize(lambda v: 0.5 * v * (1 + math.erf(v / 2**0.5))),
    }[activation](y)  # fmt: skip
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
