# SPDX-License-Identifier: Apache-2.0
"""bfloat16: only when asked for; layers and what lies between them; results within one or two percent."""

import numpy as np
import pytest

from mx_core import dtypes
from mx_core.graph import PREPARED
from mx_symbol import sym
from mx_symbol.passes.stages import trace
from testkit.image_networks import bound, residual_network

SHAPE = (2, 3, 32, 32)


def types_of(net, shape, passes):
    """Operator and element type of what runs at each call."""
    graph = list(trace(net, {"data": shape}, passes=passes))[-1].after
    nodes = [n for n in graph.nodes if PREPARED not in n.attrs]
    return [(n.op.name, dtypes.name(graph.specs[graph.outputs_of(n)[0]].dtype)) for n in nodes]


@pytest.fixture(scope="module")
def supported():
    if ("_fused_Convolution", "bfloat16") not in types_of(residual_network(), SHAPE, "+bfloat16"):
        pytest.skip("no bfloat16 convolutions on this CPU")


def test_it_is_off_by_default_and_under_all():
    for passes in (None, "all", "-fuse"):
        assert {kind for _, kind in types_of(residual_network(), SHAPE, passes)} == {"float32"}


def test_one_cast_in_and_one_out(supported):
    found = types_of(residual_network(), SHAPE, "+bfloat16")
    assert [name for name, _ in found].count("Cast") + [n for n, _ in found].count("_fused") == 2
    assert found[-1][1] == "float32"
    for name in ("_fused_Convolution", "Pooling", "FullyConnected"):
        assert {kind for n, kind in found if n == name} == {"bfloat16"}


def test_results_within_two_percent(supported):
    executors = [bound(residual_network(), SHAPE, p, grad_req="null") for p in ("+bfloat16", "none")]
    low, full = (executor.forward()[0].asnumpy() for executor in executors)
    assert low.dtype == np.float32
    np.testing.assert_allclose(low, full, atol=0.02 * np.abs(full).max())


def test_what_needs_precision_stays(supported):
    x = sym.Convolution(sym.Variable("data"), kernel=(3, 3), num_filter=8)
    found = dict(types_of(sym.softmax(sym.exp(x)), SHAPE, "+bfloat16,-fuse"))
    assert found["_fused_Convolution"] == "bfloat16"
    assert found["exp"] == found["softmax"] == "float32"


def test_layer_norms_between_layers_follow_and_others_stay(supported):
    x = sym.FullyConnected(sym.Variable("data"), num_hidden=16, name="one")
    x = sym.FullyConnected(sym.LayerNorm(x, name="inner"), num_hidden=16, name="two")
    net = sym.LayerNorm(x, name="last")
    found = [(name, kind) for name, kind in types_of(net, (8, 16), "+bfloat16") if name == "LayerNorm"]
    assert found == [("LayerNorm", "bfloat16"), ("LayerNorm", "float32")]
    low, full = (
        bound(net, (8, 16), p, grad_req="null").forward()[0].asnumpy() for p in ("+bfloat16", "none")
    )
    np.testing.assert_allclose(low, full, atol=0.05)


def test_training_is_untouched(supported):
    executor = bound(residual_network(), SHAPE, "+bfloat16")
    executor.forward(is_train=True)
    assert "Cast" not in [n.op.name for n in executor.nodes(True)]


def test_a_written_weight_counts(supported):
    executor = bound(residual_network(), SHAPE, "+bfloat16", grad_req="null")
    before = executor.forward()[0].asnumpy()
    executor.arg_dict["fc_weight"][:] = executor.arg_dict["fc_weight"] * 0
    after = executor.forward()[0].asnumpy()
    assert np.ptp(before, axis=0).max() > 0 and np.ptp(after, axis=0).max() == 0
