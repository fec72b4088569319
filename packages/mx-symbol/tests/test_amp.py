# SPDX-License-Identifier: Apache-2.0
"""Converting symbols and models to mixed precision, and switching it on for every graph."""

import numpy as np
import pytest

from mx_core.errors import ArgumentError, DTypeError, UnknownOperatorError
from mx_ndarray import autograd, nd
from mx_symbol import amp, passes, sym
from mx_symbol.graph import Entry
from mx_symbol.passes import cast_rules


def network():
    """A layer, an activation, a layer, a loss."""
    x = sym.Activation(
        sym.FullyConnected(sym.Variable("data"), num_hidden=8, name="one"), act_type="relu", name="act"
    )
    return sym.softmax(sym.FullyConnected(x, num_hidden=3, name="two"), name="out")


def types(symbol):
    """Element types of the outputs inside, by name."""
    inside = symbol.get_internals()
    known = dict.fromkeys(symbol.list_arguments(), "float32")
    return dict(zip(inside.list_outputs(), inside.infer_type(**known)[1], strict=True))


@pytest.fixture
def everywhere():
    """Mixed precision for every graph until the end of the test."""
    amp.init()
    yield
    passes.always("amp", False)
    cast_rules.use(cast_rules.Lists())


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_converted_symbol_computes_in_it_between_float32(dtype):
    found = {name: np.dtype(kind).name for name, kind in types(amp.convert_symbol(network(), dtype)).items()}
    assert {found[f"{name}_output"] for name in ("one", "act", "two")} == {dtype}
    assert {found[name] for name in ("data", "one_weight", "two_bias", "out_output")} == {"float32"}


def test_operators_and_nodes_can_be_left_out():
    for options in (
        {"excluded_sym_names": ["two"]},
        {"conditional_fp32_ops": [("FullyConnected", "num_hidden", ["3"])]},
    ):
        found = types(amp.convert_symbol(network(), **options))
        assert found["two_output"] == np.float32 and found["one_output"] != np.float32
    assert types(amp.convert_symbol(network(), fp32_ops=["FullyConnected"]))["one_output"] == np.float32
    assert types(amp.convert_symbol(network(), target_dtype_ops=["softmax"]))["out_output"] != np.float32


def test_files_leave_the_casts_out_unless_asked():
    made = amp.convert_symbol(network())
    assert "amp_cast" not in made.tojson()
    assert made.tojson() == network().tojson()
    assert "amp_cast" in made.tojson(remove_amp_cast=False)


def test_a_converted_model_has_its_weights_in_it_and_runs():
    net, rng = network(), np.random.default_rng(0)
    shapes = dict(zip(net.list_arguments(), net.infer_shape(data=(4, 5))[0], strict=True))
    params = {n: nd.array(rng.standard_normal(s)) for n, s in shapes.items() if n != "data"}
    data = nd.array(rng.standard_normal((4, 5)))
    expected = net.bind(None, {**params, "data": data}, grad_req="null").forward()[0].asnumpy()
    for cast in (False, True):
        made, args, aux = amp.convert_model(net, params, {}, cast_optional_params=cast)
        kinds = {np.dtype(array.dtype).name for array in args.values()}
        assert kinds == {"bfloat16" if cast else "float32"} and aux == {}
        got = made.bind(None, {**args, "data": data}, grad_req="null").forward()[0]
        assert got.dtype == np.float32
        np.testing.assert_allclose(got.asnumpy(), expected, atol=0.02)
    assert {np.dtype(array.dtype).name for array in params.values()} == {"float32"}


def test_every_graph_after_init_unless_it_says_no(everywhere):
    def ran(**options):
        executor = network().simple_bind(data=(4, 5), **options)
        return "bfloat16" in {np.dtype(kind).name for kind in map(_dtype, executor._graph.specs.values())}

    assert ran() and not ran(passes="-amp") and not ran(passes="none")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_a_graph_of_another_type_stays_as_it_is(dtype):
    def nodes(given, **options):
        executor = network().simple_bind(data=(4, 5), type_dict={"data": given}, **options)
        assert np.dtype(executor.forward()[0].dtype).name == given
        return [node.op.name for node in executor.nodes(is_train=True)]

    usual = nodes("float32", passes="+amp")
    assert nodes(dtype, passes="+amp") == nodes(dtype)
    assert nodes("float32", passes="+amp") == usual and "amp_cast" in usual


def test_a_part_of_another_type_stays_as_it_is():
    inner = sym.FullyConnected(sym.Cast(network(), dtype="float16"), num_hidden=4, name="half")
    symbol = sym.FullyConnected(sym.Cast(inner, dtype="float32"), num_hidden=2, name="last")
    executor = symbol.simple_bind(data=(4, 5), passes="+amp")
    bound = executor._graph
    found = {
        node.name: _dtype(bound.specs[Entry(node)]).name
        for node in bound.schedule
        if node.op.name == "FullyConnected"
    }
    assert found == {"one": "bfloat16", "two": "bfloat16", "half": "float16", "last": "bfloat16"}
    assert np.dtype(executor.forward()[0].dtype).name == "float32"


def _dtype(spec):
    from mx_core import dtypes

    return dtypes.numpy_dtype(spec.dtype)


def test_what_cannot_be_is_refused():
    with pytest.raises(ArgumentError, match="expected one of bfloat16, float16, got 'float64'"):
        amp.init("float64")
    with pytest.raises(ArgumentError, match="float64"):
        amp.convert_symbol(network(), "float64")
    with pytest.raises(ArgumentError, match="three"):
        amp.convert_symbol(network(), excluded_sym_names=["three"])
    with pytest.raises(UnknownOperatorError, match="FullyConnected"):
        amp.convert_symbol(network(), fp32_ops=["FullyConnect"])


def test_every_graph_computes_in_the_type_that_was_said():
    assert amp.target() is None
    amp.init("float16")
    try:
        assert amp.target() == "float16"
        executor = network().simple_bind(data=(2, 4))
        kinds = {
            str(node.attributes()["dtype"])
            for node in executor.nodes(is_train=True)
            if node.op.name == "amp_cast"
        }
        assert kinds == {"float16", "float32"}
        assert executor.forward()[0].dtype == np.float32
    finally:
        passes.always("amp", False)
        cast_rules.use(cast_rules.Lists())
    assert amp.target() is None


def test_another_type_later_is_told(everywhere, recwarn):
    amp.init()
    assert not recwarn.list
    told = (
        r"target_dtype: expected bfloat16 again, got float16, which counts from now on: what is bound stays"
    )
    with pytest.warns(UserWarning, match=told):
        amp.init("float16")
    assert amp.target() == "float16"


def rounded(array, dtype):
    return array.astype(dtype).astype("float32").asnumpy()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_products_of_arrays_compute_in_it_and_are_float32(everywhere, dtype):
    passes.always("amp", False)
    amp.init(dtype)
    rng = np.random.default_rng(0)
    x, w = nd.array(rng.standard_normal((4, 6))), nd.array(rng.standard_normal((3, 6)))
    x.attach_grad()
    with autograd.record():
        made = nd.FullyConnected(x, weight=w, num_hidden=3, no_bias=True)
    made.backward()
    exact = rounded(x, dtype) @ rounded(w, dtype).T
    assert made.dtype == x.grad.dtype == np.float32
    np.testing.assert_array_equal(made.asnumpy(), rounded(nd.array(exact), dtype))
    np.testing.assert_array_equal(x.grad.asnumpy()[0], rounded(nd.array(rounded(w, dtype).sum(0)), dtype))
    out = nd.zeros((4, 3))
    nd.dot(x, w.T, out=out)
    np.testing.assert_array_equal(out.asnumpy(), made.asnumpy())
    assert nd.exp(x).asnumpy()[0, 0] == np.exp(x.asnumpy())[0, 0]  # no product


def test_arrays_compute_as_they_are_where_they_are_of_another_type_or_it_is_off(everywhere):
    x = nd.array([[1.0 + 2.0**-9]])
    assert nd.dot(x, x).asnumpy() == 1
    assert nd.dot(x.astype("float64"), x.astype("float64")).dtype == np.float64
    for given in (lambda: nd.dot(x.astype("float64"), x), lambda: nd.dot(x, rhs=x.astype("float64"))):
        with pytest.raises(DTypeError, match=r"float64.*float32|float32.*float64") as caught:
            given()
        assert "bfloat16" not in str(caught.value)
    whole = nd.array([[3]], dtype="int32")
    assert nd.dot(whole, whole).dtype == np.int32
    amp.init(fp32_ops=["dot"])
    assert nd.dot(x, x).asnumpy() > 1
    amp.init(conditional_fp32_ops=[("FullyConnected", "num_hidden", ["1"])])
    assert nd.FullyConnected(x, x, num_hidden=1, no_bias=True).asnumpy() > 1
    assert nd.dot(x, x).asnumpy() == 1
    passes.always("amp", False)
    assert nd.dot(x, x).asnumpy() > 1
    assert nd.dot.__name__ == "dot"


def test_recurrent_layers_of_arrays_keep_the_type_of_lengths(everywhere):
    x, h = nd.array(np.random.default_rng(0).standard_normal((5, 2, 3))), nd.zeros((1, 2, 4))
    parameters = nd.ones((4 * 3 + 4 * 4 + 8,)) * 0.1
    made = nd.RNN(x, parameters, h, mode="rnn_tanh", state_size=4, num_layers=1, state_outputs=True)
    assert [each.dtype for each in made] == [np.float32, np.float32]
    lengths = nd.array([5, 3])
    some = nd.RNN(
        x, parameters, h, sequence_length=lengths, use_sequence_length=True, mode="rnn_tanh", state_size=4,
        num_layers=1,
    )  # fmt: skip
    assert (some.asnumpy()[3:, 1] == 0).all() and some.asnumpy()[:3].all()


def test_types_are_texts_or_numpys() -> None:
    assert amp.list_lp16_ops(np.float16) == amp.list_lp16_ops("bfloat16") == amp.list_lp16_ops()
    for told in (amp.list_lp16_ops, amp.list_widest_type_cast, amp.list_conditional_fp32_ops):
        for wrong in ("float32", np.float32, None, 16):
            with pytest.raises(
                ArgumentError, match=rf"amp\.{told.__name__}\] target_dtype: expected one of bfl"
            ):
                told(wrong)
