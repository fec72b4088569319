# SPDX-License-Identifier: Apache-2.0
"""Declarations of a wrong form are refused where their class is made."""

import pytest

from mx_core.errors import PluginError
from mx_core.operator import Operator


class Steepness:
    """No parameters of an operator."""

    gamma: float = 1.0


def test_parameters_are_a_class_of_params():
    with pytest.raises(PluginError, match=r"\[Rbf\] parameters: Steepness does not derive from Params"):

        class Rbf(Operator[Steepness]):
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
