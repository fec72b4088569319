# SPDX-License-Identifier: Apache-2.0
"""The pass `amp`: products in bfloat16, sums of many and parameters in float32, gradients in the types of their values."""

import numpy as np
import pytest

from mx_core import dtypes
from mx_core.graph import PREPARED
from mx_ndarray import autograd, nd
from mx_symbol import CachedOp, sym
from mx_symbol.passes import Passes
from mx_symbol.passes.stages import trace
from testkit.image_networks import bound, residual_network, step

SHAPE = (2, 3, 32, 32)


def classifier():
    """Two layers, a norm that needs precision, a loss."""
    x = sym.relu(sym.FullyConnected(sym.Variable("data"), num_hidden=16, name="one"))
    x = sym.FullyConnected(x + 1, num_hidden=4, name="two")
    return sym.SoftmaxOutput(sym.LayerNorm(x), sym.Variable("label"), name="loss")


def types_of(graph, *names):
    """Element types of the first outputs of the nodes of some operators."""
    return {n.op.name: dtypes.name(graph.specs[graph.outputs_of(n)[0]].dtype) for n in graph.find(*names)}


def test_the_graph_before_and_after():
    (found,) = [s for s in trace(classifier(), {"data": (8, 6)}, passes="amp") if s.name == "amp"]
    assert not list(found.before.find("amp_cast"))
    after = [
        (n.op.name, dtypes.name(found.after.specs[found.after.outputs_of(n)[0]].dtype))
        for n in found.after.nodes
    ]
    kept = [(name, kind) for name, kind in after if name != "amp_cast"]
    assert kept == [
        ("FullyConnected", "bfloat16"), ("relu", "bfloat16"), ("_plus_scalar", "bfloat16"),
        ("FullyConnected", "bfloat16"), ("LayerNorm", "float32"), ("SoftmaxOutput", "float32"),
    ]  # fmt: skip
    # data, two weights, two biases; and back in front of LayerNorm
    assert [kind for name, kind in after if name == "amp_cast"].count("bfloat16") == 5
    assert [kind for name, kind in after if name == "amp_cast"].count("float32") == 1


def test_it_runs_only_when_named():
    for passes in (None, "all", "-fuse"):
        assert "amp" not in [s.name for s in trace(classifier(), {"data": (8, 6)}, passes=passes)]


def test_gradients_are_computed_in_the_types_of_their_values():
    *_, last = trace(residual_network(), {"data": SHAPE}, True, passes="+amp")
    graph = last.after
    found = types_of(graph, "Convolution", "_backward_Convolution", "BatchNorm", "_backward_BatchNorm")
    assert set(found.values()) == {"bfloat16"}
    assert {dtypes.name(graph.specs[e].dtype) for e in graph.heads} == {"float32"}


def test_a_step_is_near_that_in_float32():
    low, full = (step(bound(residual_network(), SHAPE, p)) for p in ("+amp", "none"))
    for name, value in full.items():
        assert low[name].dtype == np.float32
        error = np.linalg.norm(low[name] - value) / (np.linalg.norm(value) + 0.1)
        assert error < 0.4, name  # a few activations fall on the other side of zero


def test_inference_keeps_cast_weights_until_they_are_written():
    executor = bound(residual_network(), SHAPE, "+amp", grad_req="null")
    before = executor.forward()[0].asnumpy()
    casts = [n for n in executor.nodes(False) if n.op.name in ("Cast", "amp_cast")]
    assert any(PREPARED in n.attrs for n in casts)
    executor.arg_dict["fc_weight"][:] = executor.arg_dict["fc_weight"] * 0
    assert np.ptp(before, axis=0).max() > 0 and np.ptp(executor.forward()[0].asnumpy(), axis=0).max() == 0


@pytest.mark.parametrize("optional", ["+amp", "+amp,+bfloat16"])
def test_inference_is_near_that_in_float32(optional):
    low, full = (
        bound(residual_network(), SHAPE, p, grad_req="null").forward()[0].asnumpy()
        for p in (optional, "none")
    )
    np.testing.assert_allclose(low, full, atol=0.04 * np.abs(full).max())


def test_float64_and_whole_numbers_stay():
    x = sym.FullyConnected(sym.Variable("data"), num_hidden=3, name="fc")
    executor = x.simple_bind(passes="+amp", data=(2, 4), type_dict={"data": "float64"})
    assert executor.forward()[0].dtype == np.float64
    words = sym.FullyConnected(sym.Embedding(sym.Variable("data"), input_dim=5, output_dim=4), num_hidden=3)
    executor = words.simple_bind(passes="+amp", data=(2, 4), type_dict={"data": "int32"})
    assert executor.forward()[0].dtype == np.float32


def test_a_cached_op_takes_it():
    net = sym.FullyConnected(sym.Variable("x"), sym.Variable("w"), no_bias=True, num_hidden=3)
    x, w = nd.ones((2, 4)), nd.full((3, 4), 1.001953125)  # 1 + 2**-9, which bfloat16 cannot hold
    w.attach_grad()
    with autograd.record():
        y = CachedOp(net, passes=Passes.parse("+amp"))(x, w)
    y.backward()
    assert (y.asnumpy() == 4).all() and (CachedOp(net)(x, w).asnumpy() > 4).all()
    assert w.grad.dtype == np.float32 and (w.grad.asnumpy() == 2).all()


def _trained(passes):
    """Losses of gradient descent on a small problem."""
    rng = np.random.default_rng(1)
    data = rng.standard_normal((64, 6)).astype(np.float32)
    label = (data[:, 0] > 0) + 2 * (data[:, 1] * data[:, 2] > 0)
    net = classifier()
    requests = {n: "null" if n in ("data", "label") else "write" for n in net.list_arguments()}
    executor = net.simple_bind(grad_req=requests, passes=passes, data=data.shape)
    for name, array in executor.arg_dict.items():
        fan = 1 if len(array.shape) == 1 else array.shape[-1]
        array[:] = 1 if name.endswith("gamma") else rng.standard_normal(array.shape) / fan**0.5
    executor.arg_dict["data"][:], executor.arg_dict["label"][:] = data, label
    losses = []
    for _ in range(300):
        chances = executor.forward(is_train=True)[0].asnumpy()
        losses.append(-np.log(chances[np.arange(64), label.astype(int)]).mean())
        executor.backward()
        for name, grad in executor.grad_dict.items():
            if grad is not None:
                executor.arg_dict[name][:] = executor.arg_dict[name] - 0.0008 * grad
    return losses


def test_training_converges_as_in_float32():
    low, full = _trained("+amp"), _trained(None)
    assert low != full
    assert full[-1] < 0.5 * full[0]
    np.testing.assert_allclose(low[:50], full[:50], rtol=0.02)
    assert np.mean(low[-50:]) == pytest.approx(np.mean(full[-50:]), rel=0.1)
