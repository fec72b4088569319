# SPDX-License-Identifier: Apache-2.0
"""Shapes and types of whole graphs, from whatever is known."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mx_core.context import cpu
from mx_core.errors import ArgumentError, DTypeError, MXNetError, ShapeError
from mx_ndarray import nd
from mx_symbol import sym


def test_a_product_and_a_sum_learn_from_each_other():
    a, b, c = (sym.Variable(n) for n in "abc")
    net = a * b + b * c
    arguments, outputs, aux = net.infer_shape(a=(2, 0), c=(0, 3))
    assert arguments == [(2, 3)] * 3
    assert outputs == [(2, 3)]
    assert aux == []


def test_shapes_flow_back_from_parameters_to_data():
    net = sym.contrib.quadratic(sym.Variable("x"), a=1, name="q")
    assert net.infer_shape(x=(2, 3)) == ([(2, 3)], [(2, 3)], [])
    tied = net + sym.Variable("y")
    assert tied.infer_shape(y=(2, 3))[0] == [(2, 3), (2, 3)]


def test_the_weight_tells_the_one_extent_of_the_data_that_is_unknown():
    net = sym.FullyConnected(sym.Variable("data"), num_hidden=4, name="fc")
    for data, expected in (
        ((2, 0), (2, 12)),
        ((0, 3, 0), (0, 3, 4)),
        ((2, 0, 0), (2, 0, 0)),
        ((2, 5, 0), (2, 5, 0)),
    ):
        arguments, _, _ = net.infer_shape_partial(data=data, fc_weight=(4, 12))
        assert arguments[0] == expected


@pytest.mark.parametrize("shape", [(2.5, 3), ("2", 3), "23", 4])
def test_extents_are_integers(shape):
    with pytest.raises(TypeError, match="expected a tuple of int as shape"):
        sym.exp(sym.Variable("a")).infer_shape(a=shape)


def test_positional_shapes_follow_the_arguments():
    net = sym.FullyConnected(sym.Variable("data"), num_hidden=4, name="fc")
    assert net.infer_shape((2, 5))[0] == [(2, 5), (4, 5), (4,)]


def test_stated_shapes_count_unless_given():
    net = sym.Variable("a", shape=(2, 0)) + sym.Variable("b")
    assert net.infer_shape(b=(0, 3))[1] == [(2, 3)]
    assert net.infer_shape(a=(4, 3))[1] == [(4, 3)]


def test_incomplete_inference_warns_and_names_what_is_unknown():
    net = sym.FullyConnected(sym.Variable("data"), num_hidden=4, name="fc")
    with pytest.warns(UserWarning, match="data: \\(\\)"):
        assert net.infer_shape() == (None, None, None)
    arguments, outputs, _ = net.infer_shape_partial()
    assert arguments[0] == ()
    assert net.infer_shape_partial(data=(0, 5))[0] == [(0, 5), (4, 5), (4,)]
    assert outputs in ([()], [(0, 4)])


def test_a_contradiction_names_node_argument_and_both_shapes():
    net = sym.FullyConnected(sym.Variable("data"), num_hidden=4, name="fc")
    with pytest.raises(ShapeError, match=r"FullyConnected 'fc'.*weight.*\(4, 5\).*\(4, 6\)"):
        net.infer_shape(data=(2, 5), fc_weight=(4, 6))


def test_unknown_names_are_refused():
    with pytest.raises(ArgumentError, match="dta.*data"):
        sym.relu(sym.Variable("data")).infer_shape(dta=(1,))
    with pytest.raises(ArgumentError, match="not both"):
        (sym.Variable("a") + sym.Variable("b")).infer_shape((1,), b=(1,))
    with pytest.raises(TypeError, match="tuple"):
        sym.relu(sym.Variable("data")).infer_shape(data=3)


def test_unknown_types_are_refused_where_they_are_given():
    x = sym.var("x")
    for name, call in {
        r"\[Cast 'cast\d+'\] dtype": lambda: x.astype("foo"),
        r"\[Variable\] dtype": lambda: sym.var("y", dtype="foo"),
        r"\[infer_type\] x": lambda: x.infer_type(x="foo"),
        r"\[simple_bind\] type_dict x": lambda: x.simple_bind(cpu(), x=(2,), type_dict={"x": "foo"}),
    }.items():
        with pytest.raises(DTypeError, match=f"^{name}: unknown element type 'foo'; known: "):
            call()
    for shape in ("x", (1.5,), 2.5):
        with pytest.raises(ArgumentError, match=r"\[Variable\] shape: expected integers, got "):
            sym.var("y", shape=shape)


def test_types_flow_both_ways():
    net = sym.FullyConnected(sym.Variable("data"), num_hidden=4, name="fc")
    assert net.infer_type(data="float64") == ([np.float64] * 3, [np.float64], [])
    assert net.infer_type(fc_weight="float16")[0] == [np.float16] * 3
    assert net.infer_type() == (None, None, None)
    assert net.infer_type_partial()[0] == [None] * 3
    assert (sym.Variable("a", dtype="int32") + sym.Variable("b")).infer_type()[1] == [np.int32]
    with pytest.raises(DTypeError, match="fc.*float"):
        net.infer_type(data="float64", fc_weight="float32")


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_whatever_subset_is_given_the_known_part_is_true(data):
    """Elementwise trees over variables of one shape: any complete variable settles everything."""
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    names = [f"v{i}" for i in range(data.draw(st.integers(2, 6)))]
    terms = [sym.Variable(name) for name in names]
    while len(terms) > 1:
        right, left = terms.pop(), terms.pop(data.draw(st.integers(0, len(terms) - 1)))
        terms.append(left * right if data.draw(st.booleans()) else sym.relu(left) + right)
    hidden = {}
    for axis in range(len(shape)):
        owner = data.draw(st.sampled_from(names))
        hidden.setdefault(owner, [0] * len(shape))[axis] = shape[axis]
    arguments, outputs, _ = terms[0].infer_shape(**{k: tuple(v) for k, v in hidden.items()})
    assert set(arguments) == {shape}
    assert outputs == [shape]


def test_the_use_of_zeros_tells_their_unknown_dimensions():
    state = sym.zeros((0, 3), name="state")
    net = sym.Variable("data") + state
    assert net.infer_shape(data=(2, 3))[1] == [(2, 3)]
    assert net.simple_bind(data=(2, 3)).forward(data=nd.ones((2, 3)))[0].shape == (2, 3)
    assert state.bind(None, {}).forward()[0].shape == (0, 3)  # nothing tells: it is empty
    assert state.infer_shape_partial()[1] == [(0, 3)]


def test_a_shape_that_is_none_is_refused():
    with pytest.raises(TypeError, match="simple_bind data.*tuple"):
        sym.Variable("data").simple_bind(data=5)


def test_every_storage_type_is_dense():
    net = sym.BatchNorm(sym.Variable("data"), name="bn")
    assert net.infer_storage_type(data="default") == (["default"] * 3, ["default"], ["default"] * 2)
    with pytest.raises(MXNetError, match="data.*row_sparse"):
        net.infer_storage_type(data="row_sparse")
    with pytest.raises(MXNetError, match="w"):
        sym.Variable("w", stype="csr").infer_storage_type()


def test_only_a_single_output_is_open_where_its_shape_says_0() -> None:
    drawn = sym._internal._sample_unique_zipfian(range_max=3, shape=(2, 0))
    assert drawn.infer_shape()[1] == [(2, 0), (2,)]


@pytest.mark.parametrize(
    ("operator", "attrs", "data", "label"),
    [
        ("LinearRegressionOutput", {}, (5, 1), (5,)),
        ("LogisticRegressionOutput", {}, (5, 1), (5,)),
        ("MAERegressionOutput", {}, (5, 2), (5, 2)),
        ("SoftmaxOutput", {}, (5, 2), (5,)),
        ("SoftmaxOutput", {"multi_output": True}, (2, 3, 4, 5), (2, 20)),
        ("SoftmaxOutput", {"multi_output": True}, (2, 3, 0, 5), (2, 0)),
        ("SoftmaxOutput", {"multi_output": True}, (5, 2), (5, 1)),
        ("SoftmaxOutput", {"preserve_shape": True}, (2, 3, 4), (2, 3)),
    ],
)
def test_the_label_that_nothing_is_told_of(operator, attrs, data, label):
    net = getattr(sym, operator)(sym.Variable("data"), sym.Variable("label"), **attrs)
    assert net.infer_shape_partial(data=data)[0] == [data, label]
    if 0 not in data:
        assert net.infer_shape(data=data, label=label)[1] == [data]


@pytest.mark.parametrize("label", [(2, 20), (2, 4, 5), (2, 1, 4, 5)])
def test_labels_of_positions_in_any_of_three_shapes(label):
    net = sym.SoftmaxOutput(sym.Variable("data"), sym.Variable("label"), multi_output=True)
    assert net.infer_shape(data=(2, 3, 4, 5), label=label)[0] == [(2, 3, 4, 5), label]


@pytest.mark.parametrize(
    ("codes", "data", "known", "expected"),
    [
        ((0, -1), (0, 3, 4), (0, 3, 4), (0, 0)),
        ((6,), (0, 3), (2, 3), (6,)),
        ((0, 2, -1), (5, 0, 4), (5, 0, 4), (5, 2, 0)),
        ((-3, 0), (2, 0, 4), (2, 0, 4), ()),
    ],
)
def test_reshape_of_what_is_partly_known(codes, data, known, expected):
    net = sym.Reshape(sym.Variable("data"), shape=codes)
    assert net.infer_shape_partial(data=data) == ([known], [expected], [])


def test_a_misspelt_argument_among_many_is_found() -> None:
    net = sym.Variable("data")
    for i in range(20):
        net = sym.FullyConnected(net, num_hidden=2, name=f"layer{i}")
    with pytest.raises(ArgumentError) as caught:
        net.infer_shape(dat=(1, 2))
    assert "'dat'; did you mean 'data'?; arguments: data, layer0_weight" in str(caught.value)
    assert str(caught.value).endswith("… (41 in all)")


def test_a_condition_may_be_one_per_row_so_its_shape_is_not_taken_from_the_data() -> None:
    chosen = sym.where(sym.var("condition"), sym.var("x"), sym.var("y"))
    assert chosen.infer_shape_partial(x=(2, 3)) == ([(), (2, 3), (2, 3)], [(2, 3)], [])
    for condition in ((2,), (2, 3)):
        assert chosen.infer_shape(condition=condition, y=(2, 3))[0] == [condition, (2, 3), (2, 3)]
