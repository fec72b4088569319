# SPDX-License-Identifier: Apache-2.0
"""Declarations of a wrong form are refused where their class is made."""

import pytest

from mx_core.errors import PluginError
from mx_core.operator import Operator, SimpleOp


class Steepness:
    """No parameters of an operator."""

    gamma: float = 1.0


def test_parameters_are_a_class_of_params():
    with pytest.raises(PluginError, match=r"\[Rbf\] parameters: Steepness does not derive from Params"):

        class Rbf(Operator[Steepness]):
            name = "rbf"
            differentiable = False


@pytest.mark.parametrize("base", [Operator, SimpleOp])
def test_parameters_are_no_name_of_a_class(base):
    with pytest.raises(
        PluginError, match=r"\[Rbf\] parameters: expected a class .* got ForwardRef\('Later'\)"
    ):

        class Rbf(base["Later"]):
            name = "rbf"
            differentiable = False


@pytest.mark.parametrize("attribute", ["arguments", "results", "hidden", "without_gradient", "floating_only"])
@pytest.mark.parametrize("value", ["data centers", ("data", 1), None])
def test_lists_of_names_are_tuples(attribute, value):
    with pytest.raises(PluginError, match=rf"\[rbf\] {attribute}: expected a tuple of names, got"):
        type("Rbf", (Operator,), {"name": "rbf", "differentiable": False, attribute: value})


def test_a_truth_value_stands_for_all_names_only_where_it_may():
    type("Rbf", (Operator,), {"name": "rbf", "differentiable": False, "floating_only": True})
    with pytest.raises(PluginError, match=r"\[rbf\] hidden: expected a tuple of names, got True"):
        type("Rbf", (Operator,), {"name": "rbf", "differentiable": False, "hidden": True})


@pytest.mark.parametrize("names", [{"name": "acme-rbf"}, {"name": "rbf", "aliases": ("acme.rbf",)}])
def test_names_are_identifiers(names):
    with pytest.raises(PluginError, match=r"expected a name that is an identifier of Python, got 'acme"):
        type("Rbf", (Operator,), {"differentiable": False, **names})


def declared(**attributes):
    given = {
        "name": "rbf",
        "differentiable": False,
        "arguments": ("data", "label"),
        "results": ("output", "kept"),
    }
    return type("Rbf", (Operator,), given | attributes)


@pytest.mark.parametrize(
    ("attribute", "value", "there"),
    [
        ("without_gradient", ("lable",), "data, label; did you mean 'label'"),
        ("shape_only", ("output",), "data, label"),
        ("custom_gradient", ("q",), "data, label"),
        ("hidden", ("q",), "output, kept"),
        ("input_attrs", {"dat": {}}, "data, label; did you mean 'data'"),
        ("floating_only", ("q",), "data, label, output, kept"),
        ("fixed_types", {"outpt": "int64"}, "data, label, output, kept; did you mean 'output'"),
        ("free_types", {"q": None}, "data, label, output, kept"),
    ],
)
def test_attributes_name_declared_tensors(attribute, value, there):
    with pytest.raises(PluginError, match=rf"^\[rbf\] {attribute}: no tensor '\w+'; there are {there}"):
        declared(**{attribute: value})


def test_what_inputs_of_its_own_return_is_not_known():
    declared(variadic="num_args", without_gradient=("arg1",))
    plain = {"name": "rbf", "differentiable": False, "without_gradient": ("centers",)}
    type("Rbf", (Operator,), plain | {"inputs": lambda self, p: ("data", "centers")})
    with pytest.raises(PluginError, match=r"without_gradient: no tensor 'centers'; there are data$"):
        type("Rbf", (Operator,), plain)


def test_what_is_inherited_may_name_more():
    base = declared(without_gradient=("label",), hidden=("kept",))
    type("Own", (base,), {"name": "own", "arguments": ("data",), "results": ("output",)})
    type("Base", (Operator,), {"without_gradient": ("label",)})


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"arguments": ("data", "data")}, "'data' is declared twice: data, data, output, kept"),
        ({"auxiliaries": ("label",)}, "'label' is declared twice: data, label, label, output, kept"),
        ({"fixed_types": {"output": "int46"}}, "fixed_types of 'output': unknown element type 'int46'"),
        ({"free_types": {"label": "dta"}}, "free_types of 'label': unknown element type 'dta'"),
        ({"fixed_types": ("output",)}, "fixed_types: expected a mapping of tensors"),
    ],
)
def test_tensors_and_types_are_told_apart(attributes, message):
    with pytest.raises(PluginError, match=message):
        declared(**attributes)


def test_a_free_type_may_be_that_of_a_tensor():
    declared(free_types={"label": "data", "output": None, "data": "float32"})


@pytest.mark.parametrize("pairs", [(0, 0), ((0, 0, 0),), ((2, 0),), ((0, 2),), ((-1, 0),), ((0.0, 0),), None])
def test_inplace_pairs_are_pairs_of_indices(pairs):
    with pytest.raises(
        PluginError, match=r"\[rbf\] inplace_pairs: expected pairs .* of 2 inputs and 2 outputs; got"
    ):
        declared(inplace_pairs=pairs)
    declared(inplace_pairs=((1, 1), [0, 0]))


def test_an_elementwise_operator_has_a_function():
    with pytest.raises(
        PluginError, match=r"\[l\] .*L has no `function`; .*; did you mean it with 'funtion'\?"
    ):

        class L(SimpleOp):
            name = "l"

            def funtion(self, p, data):
                return data

    class Base(SimpleOp):
        def function(self, p, data):
            return data

    class Own(Base):
        name = "own"

    assert Own.arguments == ("data",)
