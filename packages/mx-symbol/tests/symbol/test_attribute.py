# SPDX-License-Identifier: Apache-2.0
"""Attributes of variables and operators, and their scopes."""

import pytest

from mx_core.errors import ArgumentError
from mx_symbol import AttrScope, sym


def test_scopes_nest_and_inner_attributes_win():
    with AttrScope(group="4", data="great"):
        data = sym.Variable("data", attr={"dtype": "data", "group": "1"}, lr_mult=1)
        other = sym.Variable("other")
        with AttrScope(group="5"):
            assert sym.Variable("inner").attr("group") == "5"
    assert other.attr("group") == "4"
    assert data.attr("group") == "1"
    assert data.attr("data") == "great"
    assert sym.Variable("outside").attr("group") is None


def test_hidden_keys_are_shown_in_both_forms():
    data = sym.Variable("data", attr={"force_mirroring": "True"}, lr_mult=1)
    assert data.attr("lr_mult") == data.attr("__lr_mult__") == "1"
    assert data.attr("force_mirroring") == data.attr("__force_mirroring__") == "True"
    assert data.list_attr()["force_mirroring"] == "True"


def test_operator_attributes_pass_to_the_variables_made_for_it():
    data = sym.Variable("data", attr={"mood": "angry"})
    op = sym.Convolution(
        data, name="conv", kernel=(1, 1), num_filter=1, attr={"__mood__": "so so"},
        wd_mult="x",
    )  # fmt: skip
    expected = {
        "kernel": "(1, 1)", "num_filter": "1", "__mood__": "so so", "wd_mult": "x",
        "__wd_mult__": "x",
    }  # fmt: skip
    assert op.attr_dict() == {
        "data": {"mood": "angry"}, "conv": expected, "conv_weight": expected, "conv_bias": expected,
    }  # fmt: skip


def test_an_attribute_for_one_input_goes_there():
    op = sym.FullyConnected(sym.Variable("data"), num_hidden=2, name="fc", weight_lr_mult=1.2)
    assert op.attr_dict()["fc_weight"]["__lr_mult__"] == "1.2"
    assert "__lr_mult__" not in op.attr_dict()["fc"]


def test_an_operator_refuses_attributes_of_ones_own():
    with pytest.raises(ArgumentError, match="mood"):
        sym.relu(sym.Variable("a"), attr={"mood": "good"})
    with pytest.raises(ArgumentError, match="expected text"):
        AttrScope(group=4)
    with pytest.raises(ArgumentError, match="expected text"):
        sym.Variable("a", attr={"x": 1})
    with pytest.raises(ArgumentError, match="mood"):
        sym.Variable("a", mood="good")


def test_variable_attributes():
    v = sym.Variable("v", shape=(2, 0), lr_mult=0.5, wd_mult=2.0, dtype="float16", init="zeros", __mine__="7")
    assert v.list_attr() == {
        "__shape__": "(2, 0)", "__lr_mult__": "0.5", "lr_mult": "0.5", "__wd_mult__": "2.0",
        "wd_mult": "2.0", "__dtype__": "2", "__init__": "zeros", "__mine__": "7",
    }  # fmt: skip
    assert sym.Variable("v", shape=(3,)).attr("__shape__") == "(3,)"
    assert sym.Variable("v", stype="csr").attr("__storage_type__") == "2"
    with pytest.raises(ArgumentError, match="stype"):
        sym.Variable("v", stype="dense")
    with pytest.raises(TypeError, match="name"):
        sym.Variable(3)


def test_setting_attributes_later():
    v = sym.Variable("v")
    v._set_attr(lr_mult="3")
    assert v.attr("__lr_mult__") == "3"
    group = sym.Group([v, sym.Variable("w")])
    with pytest.raises(ArgumentError, match="group"):
        group._set_attr(x="1")
    assert group.attr("lr_mult") is None  # as in MXNet, whose list is that of the first output
    assert group.list_attr() == v.list_attr()
    halves = sym.SliceChannel(v, num_outputs=2)
    assert sym.Group([halves[1], halves[0]]).attr("num_outputs") == "2"
    with pytest.raises(DeprecationWarning, match="attr_dict"):
        v.list_attr(recursive=True)


def test_an_operator_says_how_its_states_start():
    own = sym.Variable("own", init="ones")
    net = sym.BatchNorm(sym.Variable("data"), moving_mean=own, name="bn")
    attrs = net.attr_dict()
    assert attrs["own"]["__init__"] == "ones"
    assert attrs["bn_moving_var"]["__init__"] == '["one", {}]'
    assert "bn_gamma" not in attrs


def test_the_private_mark_of_graph_passes_is_refused():
    x = sym.Variable("x")
    for attempt in (
        lambda: AttrScope(__prepared__="1"),
        lambda: sym.Variable("y", attr={"__prepared__": "1"}),
        lambda: sym.Variable("y", __prepared__="1"),
        lambda: sym.relu(x, name="r", attr={"__prepared__": "1"}),
        lambda: sym.relu(x, name="r", __prepared__="1"),
        lambda: x._set_attr(__prepared__="1"),
    ):
        with pytest.raises(ArgumentError, match="'__prepared__' is private"):
            attempt()
    with pytest.raises(ArgumentError, match="relu 'r'"):
        sym.relu(x, name="r", __prepared__="1")
    assert "__prepared__" not in x.list_attr()


def test_the_name_is_an_attribute():
    x = sym.Variable("x")
    assert x.attr("name") == "x" and "name" not in x.list_attr()
    assert sym.Group([x, sym.Variable("y")]).attr("name") is None
