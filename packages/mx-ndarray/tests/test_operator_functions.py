# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import inspect
from typing import Any

import pytest

from mx_core import operators
from mx_core.errors import UnknownOperatorError
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


def test_sparse_arrays_are_said_to_be_absent() -> None:
    with pytest.raises(AttributeError, match="'sparse': sparse arrays are not implemented; see the guide"):
        nd.sparse
    assert not hasattr(nd, "sparse")


def test_the_function_of_an_alias_is_the_same_operator() -> None:
    assert function("Concat").__wrapped_operator__ is function("concat").__wrapped_operator__
