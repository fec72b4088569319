# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
import inspect
import pickle
from typing import Any

import pytest

from mx_core import operators
from mx_core.errors import ArgumentError, UnknownOperatorError
from mx_core.operator import Operator
from mx_ndarray import nd
from mx_ndarray.operator_functions import function


class Newcomer(Operator):
    """Returns its input; declared by a plug-in that comes and goes."""

    name = "_contrib_newcomer"
    differentiable = False
    aliases = ("newcomer",)

    def reference(self, p: Any, inputs: Any, ctx: Any) -> Any:
        return (inputs[0],)


def test_functions_appear_and_vanish_with_their_operator() -> None:
    assert not hasattr(nd, "newcomer")
    with operators.temporary(Newcomer):
        assert nd.newcomer(nd.ones((2,))).shape == (2,)
        assert nd.contrib.newcomer(nd.ones((2,))).shape == (2,)
        assert "newcomer" in dir(nd)
        assert "newcomer" in dir(nd.contrib)
    assert not hasattr(nd, "newcomer")
    assert "newcomer" not in dir(nd)


def test_import_star_brings_the_functions() -> None:
    found: dict[str, Any] = {}
    with operators.temporary(Newcomer):
        exec("from mx_ndarray.nd import *", found)
        exec("from mx_ndarray.nd.contrib import *", found)
    assert (
        found["Convolution"] is nd.Convolution and found["zeros"] is nd.zeros and found["linalg"] is nd.linalg
    )
    assert found["box_nms"] is nd.contrib.box_nms and found["newcomer"].__name__ == "_contrib_newcomer"
    assert not [name for name in found if name.startswith("_") and name != "__builtins__"]


def test_copies_of_functions_are_the_functions() -> None:
    for each in (nd.Convolution, nd.contrib.box_nms, nd.random.uniform):
        assert copy.copy(each) is each and copy.deepcopy([each])[0] is each
    for each in (nd.Convolution, nd.random.uniform):
        assert pickle.loads(pickle.dumps(each)) is each


def test_functions_document_themselves() -> None:
    assert list(inspect.signature(nd.FullyConnected).parameters)[:3] == ["data", "weight", "bias"]
    assert "num_hidden" in (nd.FullyConnected.__doc__ or "")
    assert nd.FullyConnected.__name__ == "FullyConnected"
    assert "FullyConnected" in repr(nd.FullyConnected)


def test_names_have_their_namespace() -> None:
    assert nd.op.relu is nd.relu is function("relu")
    assert nd._internal._plus_scalar(nd.ones((1,)), scalar=2).asscalar() == 3
    assert not hasattr(nd.op, "_plus_scalar")
    assert not hasattr(nd._internal, "relu")
    with pytest.raises(AttributeError, match="no_such_operator"):
        nd.no_such_operator
    with pytest.raises(UnknownOperatorError, match="Did you mean"):
        nd.FullyConected


@pytest.mark.parametrize("name", ["convolution", "_backward_Convolutio", "backward_FullyConnected"])
def test_hints_are_of_names_that_users_call(name: str) -> None:
    with pytest.raises(
        UnknownOperatorError, match="is not registered. Did you mean '(Conv|Deconv|Fully)"
    ) as caught:
        operators.get(name)
    assert "Did you mean '_backward" not in str(caught.value) and ", '_backward" not in str(caught.value)
    assert name != "convolution" or "mean 'Convolution'" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "params"),
    [("Convolution", {"kernel": (1, 1), "num_filter": 1}), ("FullyConnected", {"num_hidden": 1})],
)
def test_a_layer_without_its_bias_says_how_to_do_without(name: str, params: dict[str, Any]) -> None:
    data, weight = nd.ones((1, 1, 1, 1)), nd.ones((1, 1, 1, 1)[: 4 if "kernel" in params else 2])
    with pytest.raises(ArgumentError, match="'bias' is not given; .*; no_bias=True does without it$"):
        function(name)(data, weight, **params)
    with pytest.raises(ArgumentError, match="'weight' is not given; expected inputs: data, weight, bias$"):
        function(name)(data, **params)


def test_sparse_arrays_are_said_to_be_absent() -> None:
    with pytest.raises(AttributeError, match="'sparse': sparse arrays are not implemented; see the guide"):
        nd.sparse
    assert not hasattr(nd, "sparse")


def test_the_function_of_an_alias_is_the_same_operator() -> None:
    assert function("Concat").__wrapped_operator__ is function("concat").__wrapped_operator__
