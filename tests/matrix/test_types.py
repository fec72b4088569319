# SPDX-License-Identifier: Apache-2.0
"""Operators that compute with fractions refuse integers when types are inferred, as MXNet 1.9.1 refuses them when it runs."""

from __future__ import annotations

import numpy as np
import pytest

import mx
from mx_core import dtypes, operators
from mx_core.errors import DTypeError
from mx_core.operator import infer_types
from testkit.applications import all_operators, make

FLOATING_ONLY = [name for name in all_operators() if operators.get(name).floating_only]
#: with which MXNet computes
ACCEPTED = ("mean", "sum", "norm", "_contrib_hawkesll")


@pytest.mark.parametrize("name", FLOATING_ONLY)
def test_integers_are_refused_by_name_and_allowed_types(name: str) -> None:
    op = operators.get(name)
    case = next((case for number in range(4) if (case := make(op, number, "float32")) is not None), None)
    if case is None:  # of double precision
        case = make(op, 0, "float64")
    assert case is not None
    given = [dtypes.code(x.dtype.name) for x in case.inputs]
    infer_types(op, case.params, given)
    wrong = [dtypes.code("int32") if dtypes.name(code) in dtypes.FLOATING else code for code in given]
    with pytest.raises(
        DTypeError, match=rf"\[{name}\] \w+: expected .*float.*int32|expected .*int32, got float"
    ):
        infer_types(op, case.params, wrong)


def test_calls_graphs_and_backward_operators_refuse_them() -> None:
    with pytest.raises(DTypeError, match=r"\[Pooling\] data: expected one of .*, got int32"):
        mx.nd.Pooling(mx.nd.ones((1, 1, 4, 4), dtype="int32"), kernel=(2, 2))
    with pytest.raises(DTypeError, match="got int32"):
        mx.sym.Pooling(mx.sym.Variable("data"), kernel=(2, 2)).infer_type(data="int32")
    op = operators.get("_backward_BatchNorm")
    case = make(op, 0, "float32")
    assert case is not None
    with pytest.raises(DTypeError, match=r"\[_backward_BatchNorm\] \w+: expected one of .*, got uint8"):
        infer_types(op, case.params, [dtypes.code("uint8")] * len(case.inputs))


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8", "int8"])
@pytest.mark.parametrize("name", ACCEPTED)
def test_what_mxnet_computes_of_integers_is_computed(name: str, dtype: str) -> None:
    op = operators.get(name)
    assert not op.floating_only and any(make(op, number, dtype) is not None for number in range(4))


def test_means_of_integers_and_truth_values() -> None:
    for dtype in ("int32", "int64", "uint8", "int8"):
        data = mx.nd.array([[1, 2, 5], [4, 5, 9]], dtype=dtype)
        assert mx.nd.mean(data).asnumpy().tolist() == [4]
        assert mx.nd.mean(data, axis=1).asnumpy().tolist() == [2, 6]
    assert mx.nd.mean(mx.nd.array([-1, -2, -5], dtype="int32")).asnumpy().tolist() == [-2]
    truth = mx.nd.array([[True, False], [False, False]], dtype="bool")
    assert mx.nd.mean(truth, axis=1).asnumpy().tolist() == [True, False]


def test_an_axis_that_is_named_twice_is_reversed_twice() -> None:
    data = np.arange(6.0).reshape(2, 3)
    for axis, expected in (((0, 0), data), ((1, 0, 1), data[::-1]), ((0, 1), data[::-1, ::-1])):
        assert np.array_equal(mx.nd.reverse(mx.nd.array(data), axis=axis).asnumpy(), expected)
