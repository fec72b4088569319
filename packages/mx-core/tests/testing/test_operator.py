# SPDX-License-Identifier: Apache-2.0
"""check_operator accepts a right declaration and finds each kind of mistake."""

import numpy as np
import pytest

from mx_core import expression as X
from mx_core import operators
from mx_core.operator import Operator, Params, SimpleOp, opt
from mx_core.testing import check_operator


class Factor(Params):
    """A factor."""

    factor: float = opt(2.0, "of the square")


class Square(SimpleOp):
    """factor·x²."""

    name = "check_square"
    Param = Factor

    def function(self, p, data):
        return p.factor * data * data

    def gradient_function(self, p, out_grad, data):
        return 2 * p.factor * data * out_grad


class WrongGradient(Square):
    name = "check_wrong_gradient"

    def gradient_function(self, p, out_grad, data):
        return p.factor * data * out_grad


class Rows(Operator):
    """Sum over the last axis; counts calls in an auxiliary state."""

    name = "check_rows"
    differentiable = False
    custom_gradient = True
    auxiliaries = ("count",)

    def infer_shape(self, p, s):
        data = s.get("data")
        if data is not None:
            s.assign("output", data[:-1])
        s.assign("count", (1,))

    def reference(self, p, inputs, ctx):
        data, count = inputs
        return data.sum(-1), count + 1


class WrongShape(Rows):
    name = "check_wrong_shape"

    def reference(self, p, inputs, ctx):
        return inputs[0].sum(-1, keepdims=True), inputs[1]


class WrongType(Rows):
    name = "check_wrong_type"

    def reference(self, p, inputs, ctx):
        return inputs[0].sum(-1).astype(np.float32), inputs[1]


class Meddling(Rows):
    name = "check_meddling"

    def reference(self, p, inputs, ctx):
        inputs[1][...] += 1
        return inputs[0].sum(-1), inputs[1]


class NoAux(Rows):
    name = "check_no_aux"

    def reference(self, p, inputs, ctx):
        return (inputs[0].sum(-1),)


@pytest.fixture(autouse=True)
def declared(site):
    with operators.temporary(Square, WrongGradient, Rows, WrongShape, WrongType, Meddling, NoAux):
        yield


def test_right_declarations_pass():
    check_operator("check_square")
    check_operator("check_square", {"factor": "0.5"}, [np.linspace(-2, 2, 7)])
    check_operator("check_rows", inputs=[(3, 4)])


def test_a_wrong_gradient_is_shown_with_both_values():
    with pytest.raises(AssertionError, match=r"gradient of data\[0, 0\] is .*numerically"):
        check_operator("check_wrong_gradient")
    check_operator("check_wrong_gradient", numeric_gradient=False)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("check_wrong_shape", "inferred"),
        ("check_wrong_type", "'float32'"),
        ("check_meddling", "the reference changes count"),
        ("check_no_aux", "1 results, not 2"),
    ],
)
def test_wrong_references_are_found(name, message):
    with pytest.raises(AssertionError, match=message):
        check_operator(name, inputs=[(3, 4)])


def test_shapes_are_needed_where_they_cannot_be_made_up():
    with pytest.raises(AssertionError, match="say the shapes"):
        check_operator("check_rows")


class Doubled(SimpleOp):
    """2·x, which has a gradient."""

    name = "check_doubled"
    differentiable = False

    def function(self, p, data):
        return 2 * data


class Rounded(Doubled):
    name = "check_rounded"

    def function(self, p, data):
        return X.round(3 * data)


class Stopped(Doubled):
    name = "check_stopped"
    custom_gradient = True


class Weighted(Operator):
    """lhs + 3·rhs, of which one gradient was forgotten."""

    name = "check_weighted"
    arguments = ("lhs", "rhs")

    def gradient(self, p, g):
        return {"lhs": g.out_grad()}

    def reference(self, p, inputs, ctx):
        return [inputs[0] + 3 * inputs[1]]


def test_a_gradient_that_is_not_zero_is_found():
    with operators.temporary(Doubled, Rounded, Stopped, Weighted):
        with pytest.raises(
            AssertionError, match=r"says that the gradient of data is zero, .* at \[0, 0\]; write"
        ):
            check_operator("check_doubled")
        with pytest.raises(AssertionError, match="the declaration says that the gradient of rhs is zero"):
            check_operator("check_weighted", inputs=[(2, 3), (2, 3)])
        check_operator("check_doubled", numeric_gradient=False)
        check_operator("check_rounded")
        check_operator("check_stopped")
