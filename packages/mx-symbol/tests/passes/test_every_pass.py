# SPDX-License-Identifier: Apache-2.0
"""Every pass that ships: the graph before and after it alone, and that it does not run when it is left out."""

import pytest

from mx_core import plugins
from mx_core.testing.graph_pass import changes_samples
from mx_symbol import sym
from mx_symbol.graph.ir import counting_kernels
from mx_symbol.passes.stages import trace

IMAGE, ROWS = {"data": (2, 16, 9, 9)}, {"data": (32, 64)}


def dense(x):
    return sym.FullyConnected(x, num_hidden=64, name="fc")


def convolved(x, kernel=3, stride=1, name="conv"):
    return sym.Convolution(x, kernel=(kernel, kernel), stride=(stride, stride), num_filter=16, name=name)


def low_dense(x):
    weight = sym.amp_cast(sym.Variable("w"), dtype="bfloat16", name="cast")
    return sym.FullyConnected(sym.amp_cast(x, dtype="bfloat16"), weight, no_bias=True, num_hidden=8)


def recurrent(x):
    made = sym.RNN(x, sym.Variable("p"), sym.Variable("h"), state_size=4, num_layers=1, mode="gru")
    return sym.sum(made)


def attention(x):
    query, key, value = (sym.FullyConnected(x, num_hidden=8, flatten=False, no_bias=True) for _ in range(3))
    scores = sym.softmax(sym.batch_dot(query, key, transpose_b=True))
    return sym.MakeLoss(sym.batch_dot(scores, value))


def twice(x):
    return sym.exp(x) * sym.exp(x)


#: by pass: a graph, the shape of its data, whether in a training step, and what runs before and after
CASES = {
    "simplify": (lambda x: sym.exp(sym.identity(x)), ROWS, False, "_copy exp", "exp"),
    "cse": (twice, ROWS, False, "exp exp elemwise_mul", "exp elemwise_mul"),
    "constants": (
        lambda x: sym.broadcast_add(x, sym.exp(sym.arange(64))), ROWS, False,
        "_arange exp broadcast_add", "_arange* exp* broadcast_add",
    ),
    "amp": (
        lambda x: sym.softmax(sym.FullyConnected(x, no_bias=True, num_hidden=8)), ROWS, False,
        "FullyConnected softmax", "amp_cast amp_cast FullyConnected amp_cast softmax",
    ),
    "no-gradients": (lambda x: sym.exp(sym.BlockGrad(x)), ROWS, False, "BlockGrad exp", "exp"),
    "prepare-casts": (
        low_dense, ROWS, False, "amp_cast amp_cast FullyConnected", "amp_cast* amp_cast FullyConnected",
    ),
    "strides": (
        lambda x: convolved(convolved(x), 1, 2, "thin"), IMAGE, False,
        "Convolution(1, 1) Convolution(2, 2)", "Convolution(2, 2) Convolution()",
    ),
    "channels-last": (
        convolved, IMAGE, False, "Convolution(1, 1)", "transpose* transpose Convolution(1, 1) transpose",
    ),
    "batch-norm": (
        lambda x: sym.BatchNorm(sym.tanh(x), axis=1), ROWS, False, "tanh BatchNorm",
        "Reshape* _batch_norm_affine* Reshape* Reshape* tanh broadcast_sub broadcast_mul broadcast_add",
    ),
    "channels-last-training": (
        lambda x: sym.MakeLoss(convolved(x)), IMAGE, True, "Convolution(1, 1) MakeLoss _backward_MakeLoss _backward_Convolution(1, 1)",
        "transpose transpose Convolution(1, 1) transpose MakeLoss _backward_MakeLoss transpose _backward_Convolution(1, 1) transpose",
    ),
    "cse-program": (twice, ROWS, False, "exp exp elemwise_mul", "exp elemwise_mul"),
    "fuse": (lambda x: sym.exp(sym.tanh(x)), ROWS, False, "tanh exp", "_fused"),
    "layers": (
        lambda x: sym.relu(dense(x)), ROWS, False, "FullyConnected relu", "_fused_FullyConnected",
    ),
    "bfloat16": (
        lambda x: sym.exp(dense(x)), ROWS, False, "FullyConnected exp", "Cast* Cast* Cast FullyConnected Cast exp",
    ),
    "picked-softmax": (
        lambda x: sym.pick(sym.log_softmax(x), sym.Variable("label")), ROWS, False,
        "log_softmax pick", "_fused_log_softmax_pick",
    ),
    "attention": (
        lambda x: sym.batch_dot(sym.softmax(sym.batch_dot(x, x, transpose_b=True)), x), {"data": (2, 8, 16)}, False,
        "batch_dot softmax batch_dot", "_fused_attention",
    ),
    "attention-training": (
        attention, {"data": (2, 8, 16)}, True,
        "FullyConnected FullyConnected batch_dot softmax FullyConnected batch_dot MakeLoss _backward_MakeLoss "
        "batch_dot batch_dot _backward_FullyConnected _backward_softmax batch_dot batch_dot "
        "_backward_FullyConnected _backward_FullyConnected",
        "FullyConnected FullyConnected FullyConnected _fused_attention_training MakeLoss _backward_MakeLoss "
        "_fused_attention_gradient _backward_FullyConnected _backward_FullyConnected _backward_FullyConnected",
    ),
    "pack-weights": (
        dense, ROWS, False, "_fused_FullyConnected", "_onednn_pack_weight* _fused_FullyConnected",
    ),
    "pack-recurrent": (
        recurrent, {"data": (5, 2, 8)}, False, "RNN sum", "_onednn_pack_RNN* _onednn_RNN sum",
    ),
}  # fmt: skip
#: what must run before
NEEDED = {"pack-weights": "layers,"}
#: passes that make what only some processors, or other packages, have kernels for
OF_KERNELS = ("attention", "attention-training", "layers", "bfloat16", "pack-weights", "pack-recurrent")
#: of which devices it takes the kernels, where it is not the processor
DEVICES = {"attention-training": ("gpu",)}


def written(graph):
    """Operators in order, with their steps; a star for what is prepared."""
    words = []
    for node in graph.nodes:
        steps = getattr(node.params, "stride", "") if "Convolution" in node.op.name else ""
        words.append(f"{node.op.name}{steps}{'*' * ('__prepared__' in node.attrs)}")
    return " ".join(words)


def test_every_pass_has_its_case():
    entries = plugins.registry("graph_passes").items()
    ours = {e.name for e in entries if e.source.distribution in ("mx-symbol", "mx-operators-cpu")}
    assert ours <= set(CASES) and len(ours) >= 14


@pytest.mark.parametrize("name", CASES)
def test_before_and_after(name):
    make, shapes, is_train, before, after = CASES[name]
    net = make(sym.Variable("data"))
    with counting_kernels(*DEVICES.get(name, ())):
        steps = [
            s for s in trace(net, shapes, is_train, passes=NEEDED.get(name, "") + name) if s.name == name
        ]
    if not steps:
        pytest.skip("not installed")
    (step,) = steps
    if not step.changed and name in OF_KERNELS:
        pytest.skip("there is no kernel for what it makes")
    assert (written(step.before), written(step.after)) == (before, after)


@pytest.mark.parametrize("name", CASES)
def test_it_does_not_run_when_it_is_left_out(name):
    make, shapes, is_train, _, _ = CASES[name]
    net = make(sym.Variable("data"))
    for passes in (f"-{name}", "none"):
        assert name not in [s.name for s in trace(net, shapes, is_train, passes=passes)]


def test_a_pass_that_finds_nothing_in_the_samples_is_not_called_checked():
    assert changes_samples("simplify") and changes_samples("cse") and changes_samples("constants")
    assert not changes_samples("prepare-casts")  # the samples have no casts
