# SPDX-License-Identifier: Apache-2.0
"""Composing symbols: variables, automatic inputs, substitution, groups, outputs."""

import copy
import pickle

import pytest

from mx_core.errors import ArgumentError, MXNetError
from mx_symbol import sym


def mlp(prefix="", label=True):
    net = sym.FullyConnected(sym.Variable("data"), num_hidden=8, name=f"{prefix}fc1")
    net = sym.Activation(net, act_type="relu", name=f"{prefix}relu")
    net = sym.FullyConnected(net, num_hidden=3, name=f"{prefix}fc2")
    return sym.SoftmaxOutput(net, name="softmax") if label else net


def test_missing_inputs_become_variables():
    assert mlp().list_arguments() == [
        "data", "fc1_weight", "fc1_bias", "fc2_weight", "fc2_bias", "softmax_label",
    ]  # fmt: skip
    assert mlp().list_outputs() == ["softmax_output"]


def test_parameters_decide_which_inputs_there_are():
    net = sym.FullyConnected(sym.Variable("data"), num_hidden=8, no_bias=True, name="fc")
    assert net.list_arguments() == ["data", "fc_weight"]


def test_auxiliary_states_are_listed_apart():
    net = sym.BatchNorm(sym.Variable("data"), name="bn")
    assert net.list_arguments() == ["data", "bn_gamma", "bn_beta"]
    assert net.list_auxiliary_states() == ["bn_moving_mean", "bn_moving_var"]
    assert net.list_inputs() == ["data", "bn_gamma", "bn_beta", "bn_moving_mean", "bn_moving_var"]
    assert net.list_outputs() == ["bn_output"]


def test_inputs_by_position_by_name_and_parameters_by_position():
    a, w = sym.Variable("a"), sym.Variable("w")
    by_name = sym.FullyConnected(weight=w, data=a, num_hidden=2, name="fc")
    by_position = sym.FullyConnected(a, w, None, 2, name="fc")
    assert by_name.tojson() == by_position.tojson()


def test_variadic_operators_count_their_inputs():
    a, b = sym.Variable("a"), sym.Variable("b")
    joined = sym.Concat(a, b, dim=0, name="c")
    assert joined.list_arguments() == ["a", "b"]
    assert joined.attr("num_args") == "2"


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda a: sym.FullyConnected(a, num_hiden=3), "num_hid"),
        (lambda a: sym.FullyConnected(a), "num_hidden"),
        (lambda a: sym.FullyConnected(a, data=a, num_hidden=3), "by position and by name"),
        (lambda a: sym.FullyConnected(a, wait=a, num_hidden=3), "wait"),
        (lambda a: sym.FullyConnected(a, num_hidden=3, no_bias=True, bias=a), "bias"),
    ],
)
def test_wrong_arguments_are_named(build, message):
    with pytest.raises(ArgumentError, match=message):
        build(sym.Variable("a"))


def test_an_input_that_is_no_symbol_is_refused():
    with pytest.raises(TypeError, match="data.*Symbol.*int"):
        sym.relu(3)


def test_unknown_operator_is_an_attribute_error():
    with pytest.raises(AttributeError, match="Convolutionn"):
        sym.Convolutionn
    assert not hasattr(sym, "no_such_operator")


def test_substituting_a_variable_by_name_leaves_the_original_alone():
    first = mlp("a_", label=False)
    second = sym.Activation(sym.Variable("x"), act_type="tanh", name="tanh")
    joined = second(x=first, name="joined")
    assert second.list_arguments() == ["x"]
    assert joined.list_arguments()[0] == "data"
    assert joined.list_outputs() == ["joined_output"]


def test_substituting_by_position_follows_the_arguments():
    a, b, c = (sym.Variable(n) for n in "abc")
    total = a + b
    assert total(c).list_arguments() == ["c", "b"]


def test_substitution_refuses_unknown_names_and_mixtures():
    a, b = sym.Variable("a"), sym.Variable("b")
    with pytest.raises(ArgumentError, match="nope"):
        (a + b)(nope=a)
    with pytest.raises(ArgumentError, match="not both"):
        (a + b)(a, b=a)
    with pytest.raises(MXNetError, match="variable"):
        a(b)


def test_groups_outputs_and_slices():
    a = sym.Variable("a")
    group = sym.Group([a + 1, a * 2, a])
    assert len(group) == 3
    assert group[0].list_outputs() == group.list_outputs()[:1]
    assert group[-1].name == "a"
    assert group[1:].list_outputs() == group.list_outputs()[1:]
    assert [s.name for s in group] == [group[i].name for i in range(3)]
    assert group.name is None
    with pytest.raises(IndexError):
        group[3]
    with pytest.raises(ValueError, match="zzz"):
        group["zzz"]
    with pytest.raises(TypeError):
        sym.Group([])


def test_operators_with_several_outputs():
    parts = sym.SliceChannel(sym.Variable("a"), num_outputs=3, name="s")
    assert parts.list_outputs() == ["s_output0", "s_output1", "s_output2"]
    assert parts["s_output1"].list_outputs() == ["s_output1"]
    with pytest.raises(ArgumentError, match="one output"):
        sym.relu(parts)


def test_internals_and_children():
    net = mlp()
    internals = net.get_internals()
    assert "fc1_output" in internals.list_outputs()
    cut = internals["relu_output"]
    assert cut.list_arguments() == ["data", "fc1_weight", "fc1_bias"]
    assert net.get_children().list_outputs() == ["fc2_output", "softmax_label"]
    assert sym.Variable("x").get_children() is None
    hidden = sym.BatchNorm(sym.Variable("data"), name="bn").get_internals()
    assert [n for n in hidden.list_outputs() if n.startswith("bn_out")] == ["bn_output"]


def test_copies_share_nothing_mutable():
    net = mlp()
    for twin in (copy.copy(net), copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert twin.tojson() == net.tojson()
        twin._set_attr(mood="good")
        assert net.attr("mood") is None


def test_arithmetic_names_and_operators():
    with manager():
        a, b = sym.Variable("a"), sym.Variable("b")
        made = [a + b, a * 2, a + 1, 2 - a, a**2, a - b, a / b, a > b, -a]
        assert [s.name for s in made] == [
            "_plus0", "_mulscalar0", "_plusscalar0", "_rminusscalar0", "_powerscalar0", "_minus0",
            "_div0", "_greater0", "_mulscalar1",
        ]  # fmt: skip


def manager():
    from mx_symbol import NameManager

    return NameManager()


def test_arithmetic_refuses_what_it_cannot_combine():
    a = sym.Variable("a")
    with pytest.raises(TypeError, match="list"):
        a + [1]
    with pytest.raises(NotImplementedError, match="only for NDArray"):
        bool(a)
    with pytest.raises(NotImplementedError, match="__iadd__"):
        a += 1
    with pytest.raises(NotImplementedError, match="asnumpy"):
        a.asnumpy()


def test_fluent_methods_make_the_same_nodes():
    with manager():
        fluent = sym.Variable("a").reshape((2, 3)).sum(axis=1).tojson()
    with manager():
        plain = sym.sum(sym.reshape(sym.Variable("a"), shape=(2, 3)), axis=1).tojson()
    assert fluent == plain
    assert sym.Variable("a").sum(name="total").list_outputs() == ["total_output"]


def test_inplace_of_fluent_methods_is_that_of_arrays():
    """A block says it for both; a graph plans its memory anyway."""
    for method, axis in (("squeeze", (1,)), ("expand_dims", (1,)), ("flatten", ())):
        a = getattr(sym.Variable("a"), method)(*axis, inplace=True, name="x").tojson()
        assert a == getattr(sym.Variable("a"), method)(*axis, name="x").tojson()
        assert f'"op": "{dict(flatten="Flatten").get(method, method)}"' in a


def test_two_sided_functions_take_symbols_and_numbers():
    a = sym.Variable("a")
    assert sym.maximum(1, 2) == 2
    assert sym.maximum(a, 2).list_arguments() == ["a"]
    assert sym.pow(2, a).list_arguments() == ["a"]
    assert sym.hypot(a, sym.Variable("b")).list_arguments() == ["a", "b"]


def test_namespaces_offer_operators():
    assert "FullyConnected" in dir(sym)
    assert sym.op.FullyConnected(sym.Variable("d"), num_hidden=2).list_arguments()[0] == "d"
    assert sym._internal._plus_scalar(sym.Variable("d"), scalar=1).list_arguments() == ["d"]
    assert sym.contrib.quadratic(sym.Variable("x"), a=1).name.startswith("quadratic")
    assert "num_hidden" in str(sym.FullyConnected.__signature__)
    assert sym.FullyConnected.__doc__


@pytest.mark.long
def test_a_chain_far_deeper_than_the_recursion_limit():
    net = sym.Variable("x")
    for _ in range(20_000):
        net = net + 1
    assert len(net.get_internals()) == 20_001
    twin = pickle.loads(pickle.dumps(net))
    assert twin.list_arguments() == ["x"]
    assert net.infer_shape(x=(2,))[1] == [(2,)]
    del net, twin


def test_none_is_a_value_where_it_may_be_one():
    data = sym.Variable("data")
    assert sym.sort(data, axis=None).infer_shape(data=(3, 4))[1] == [(12,)]
    assert sym.slice_axis(data, axis=0, begin=1, end=None).infer_shape(data=(3, 4))[1] == [(2, 4)]
    assert sym.sort(data, axis=None).list_attr().get("axis") == "None"
    assert sym.softmax(data, axis=-1, temperature=None).infer_shape(data=(3, 4))[1] == [(3, 4)]


def test_values_of_topk_keep_their_name_alone():
    data = sym.Variable("data")
    assert sym.topk(data, ret_typ="value", name="top").list_outputs() == ["top_output0"]
    assert sym.topk(data, ret_typ="mask", name="top").list_outputs() == ["top_output"]
    assert sym.linalg.det(data, name="det").list_outputs() == ["det_output0"]


def test_a_slice_has_outputs():
    partitions = sym.SliceChannel(sym.Variable("a"), num_outputs=3, name="s")
    assert partitions[-2:].list_outputs() == ["s_output1", "s_output2"]
    with pytest.raises(IndexError, match="leaves none of 3 outputs"):
        partitions[3:]


def test_groups_are_of_symbols() -> None:
    with pytest.raises(TypeError, match=r"\[Group\] symbols: expected at least one symbol, got \[\]"):
        sym.Group([])
    with pytest.raises(TypeError, match=r"\[Group\] symbols: expected a list of symbols, got 1 in it"):
        sym.Group([sym.Variable("x"), 1])  # type: ignore[list-item]


def test_an_operator_alone_has_its_parameters_and_variables_as_inputs() -> None:
    layer = sym.RNN(
        sym.var("x") * 2, sym.var("p"), sym.var("h"), sym.var("c"), mode="lstm", state_size=3, num_layers=1,
        state_outputs=True, name="rnn", __lr_mult__="2",
    )  # fmt: skip
    alone = layer[0]._gen_atomic_symbol()
    assert alone.list_outputs() == layer.list_outputs()
    assert alone.list_arguments() == ["rnn_data", "rnn_parameters", "rnn_state", "rnn_state_cell"]
    assert alone.list_attr() == layer.list_attr()
    assert layer.list_arguments() == ["x", "p", "h", "c"]
    with pytest.raises(MXNetError, match="got a variable"):
        sym.var("x")._gen_atomic_symbol()


@pytest.mark.parametrize("name", ["shape", "ndim", "size", "dtype", "context", "ctx", "grad"])
def test_what_only_arrays_have_is_explained(name):
    symbol = sym.Variable("x")
    told = f"^'Symbol' object has no attribute {name!r}: a graph has no values, .*; "
    with pytest.raises(AttributeError, match=told) as caught:
        getattr(symbol, name)
    assert (caught.value.name, caught.value.obj) == (name, symbol)
    assert not hasattr(symbol, name)
    with pytest.raises(AttributeError, match="^'Symbol' object has no attribute 'shpae'$"):
        symbol.shpae
    assert copy.copy(symbol).list_arguments() == pickle.loads(pickle.dumps(symbol)).list_arguments() == ["x"]
