# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers: parameters packed once in inference, and both kinds of lower precision."""

import numpy as np
import pytest

from mx_core import cpu, dtypes, operators
from mx_core.graph import PREPARED
from mx_core.kernels import TensorSpec, prepare
from mx_ndarray import autograd, nd
from mx_symbol import sym
from mx_symbol.passes.stages import trace

STEPS, BATCH, UNITS, WORDS = 9, 6, 24, 40
VARIABLES = ("data", "h", "c", "lengths")


def language_model(mode="lstm", bidirectional=False, lengths=False, p=0.0):
    """Words, two recurrent layers, a linear layer; the last states."""
    words = sym.Embedding(sym.Variable("data"), input_dim=WORDS, output_dim=16)
    more = {"state_cell": sym.Variable("c")} if mode == "lstm" else {}
    more |= {"sequence_length": sym.Variable("lengths")} if lengths else {}
    made = sym.RNN(
        words, sym.Variable("parameters"), sym.Variable("h"), **more, state_size=UNITS, num_layers=2, mode=mode, bidirectional=bidirectional, state_outputs=True,
        use_sequence_length=lengths, p=p, name="rnn",
    )  # fmt: skip
    width = UNITS * (1 + bidirectional)
    y = sym.FullyConnected(sym.reshape(made[0], shape=(-1, width)), num_hidden=WORDS, name="fc")
    return sym.Group([y, made[1]])


def bound(net, passes, train=False, steps=STEPS):
    """An executor with drawn values, the same for every choice of passes."""
    requests = {n: "write" if train and n not in VARIABLES else "null" for n in net.list_arguments()}
    executor = net.simple_bind(grad_req=requests, passes=passes, data=(steps, BATCH))
    rng = np.random.default_rng(3)
    for name, array in sorted(executor.arg_dict.items()):
        drawn = 0.3 * rng.standard_normal(array.shape)
        limit = {"data": WORDS, "lengths": steps + 1}.get(name)
        array[:] = drawn if limit is None else rng.integers(0, limit, array.shape)
    return executor


def results(executor):
    return [y.asnumpy() for y in executor.forward()]


def names(executor, train=False):
    return [node.op.name for node in executor.nodes(train)]


def near(got, expected, tolerance):
    """Apart by less than a part of the expected array's length."""
    assert np.linalg.norm(got - expected) < tolerance * np.linalg.norm(expected)


@pytest.mark.parametrize("mode", ["rnn_relu", "rnn_tanh", "lstm", "gru"])
@pytest.mark.parametrize(("bidirectional", "lengths", "p"), [(False, False, 0.5), (True, True, 0.0)])
def test_packed_parameters_give_the_same(mode, bidirectional, lengths, p):
    net = language_model(mode, bidirectional, lengths, p)
    packed, plain = bound(net, None), bound(net, "-pack-recurrent")
    assert "_onednn_RNN" in names(packed) and "RNN" not in names(packed)
    assert "RNN" in names(plain)
    for got, expected in zip(results(packed), results(plain), strict=True):
        np.testing.assert_array_equal(got, expected)


def test_packing_is_prepared_and_written_parameters_count():
    executor = bound(language_model(), None)
    (packing,) = [n for n in executor.nodes(False) if n.op.name == "_onednn_pack_RNN"]
    assert PREPARED in packing.attrs
    before = results(executor)
    executor.arg_dict["parameters"][:] = 0
    assert not np.array_equal(results(executor)[1], before[1])


def test_training_and_computed_parameters_are_not_packed():
    assert "_onednn_RNN" not in names(bound(language_model(), None, train=True), True)
    data = sym.Variable("data")
    parameters = sym.broadcast_mul(sym.Variable("parameters"), sym.sum(data))
    net = sym.RNN(data, parameters, sym.Variable("h"), state_size=4, num_layers=1, mode="gru")
    shapes = {"data": (3, 2, 5), "parameters": (3 * 4 * (5 + 4 + 2),)}
    assert "RNN" in names(net.simple_bind(grad_req="null", **shapes))


def test_executors_for_several_lengths_share_what_is_packed():
    first = bound(language_model(), None)
    other = language_model().simple_bind(grad_req="null", shared_exec=first, data=(STEPS + 5, BATCH))
    packing = [n for e in (first, other) for n in e.nodes(False) if n.op.name == "_onednn_pack_RNN"]
    assert packing[0].params == packing[1].params


def types_of(net, train, passes):
    """Operator, element types of inputs and outputs of everything that runs."""
    graph = list(trace(net, {"data": (STEPS, BATCH)}, train, passes=passes))[-1].after

    def kinds(entries):
        return {dtypes.name(graph.specs[e].dtype) for e in entries if e in graph.specs}

    return {n.op.name: (kinds(n.inputs), kinds(graph.outputs_of(n))) for n in graph.nodes}


def has_bfloat16_products():
    """Whether the library multiplies in bfloat16 on this processor, or layers are computed between casts."""
    op, spec = operators.get("FullyConnected"), TensorSpec((16, 16), dtypes.code("bfloat16"))
    params = op.Param.parse({"num_hidden": 16, "no_bias": True})
    return prepare(op, params, [spec, spec], [spec], cpu()).variant != "upcast"


@pytest.mark.parametrize("mode", ["rnn_tanh", "lstm", "gru"])
@pytest.mark.parametrize("passes", ["+bfloat16", "+amp"])
@pytest.mark.parametrize("lengths", [False, True])
def test_inference_in_bfloat16(mode, passes, lengths):
    net = language_model(mode, lengths=lengths)
    found = types_of(net, False, f"{passes},-pack-recurrent")
    assert found["RNN"] == ({"bfloat16", "float32"} if lengths else {"bfloat16"}, {"bfloat16"})
    executor = bound(net, passes)
    assert ("_onednn_RNN" in names(executor)) == has_bfloat16_products()
    for got, expected in zip(results(executor), results(bound(net, "none")), strict=True):
        assert got.dtype == np.float32
        near(got, expected, 0.01)


@pytest.mark.parametrize("mode", ["lstm", "gru"])
def test_a_training_step_with_mixed_precision(mode):
    net = language_model(mode, lengths=True)
    found = types_of(net, True, "+amp")
    assert found["RNN"] == ({"bfloat16", "float32"}, {"bfloat16"})
    assert found["_backward_RNN"][1] == {"bfloat16"}
    low, full = bound(net, "+amp", True), bound(net, None, True)
    heads = [np.random.default_rng(5).standard_normal(y.shape) for y in full.outputs]
    for executor in (low, full):
        executor.forward(is_train=True)
        executor.backward([nd.array(head) for head in heads])
    for name, expected in full.grad_dict.items():
        if expected is not None:
            assert low.grad_dict[name].dtype == np.float32
            near(low.grad_dict[name].asnumpy(), expected.asnumpy(), 0.02)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("mode", ["rnn_tanh", "lstm", "gru"])
def test_arrays_in_16_bits_with_gradients(mode, dtype):
    rng = np.random.default_rng(7)
    gates = {"rnn_tanh": 1, "lstm": 4, "gru": 3}[mode]
    shapes = [(7, 4, 6), (gates * 5 * (6 + 5 + 2),), (1, 4, 5), (1, 4, 5)][: 4 if mode == "lstm" else 3]
    given = [nd.array(0.5 * rng.standard_normal(shape)).astype(dtype) for shape in shapes]

    def run(arrays):
        for array in arrays:
            array.attach_grad()
        with autograd.record():
            shown = nd.RNN(*arrays, state_size=5, num_layers=1, mode=mode, state_outputs=True)
            loss = (shown[0].astype("float32") ** 2).sum()
        loss.backward()
        assert {y.dtype for y in shown} | {x.grad.dtype for x in arrays} == {arrays[0].dtype}
        return [y.astype("float32").asnumpy() for y in (*shown, *(x.grad for x in arrays))]

    for got, expected in zip(run(given), run([x.astype("float32") for x in given]), strict=True):
        near(got, expected, 0.02)
