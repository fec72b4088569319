# SPDX-License-Identifier: Apache-2.0
"""`backward` written once: what is kept, the backward operator, inference, entries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from mx_core import dtypes, operators
from mx_core.errors import MXNetError, PluginError, ShapeError
from mx_core.operator import (
    Array,
    Arrays,
    Entry,
    GradientBuilder,
    Gradients,
    NoParams,
    Operator,
    Params,
    ReferenceContext,
    ShapeOnly,
    Shapes,
    gradient_of,
    infer_shapes,
    infer_types,
    opt,
)


class ScaleParam(Params):
    """Whether there is a shift."""

    shifted: bool = opt(False, "a third input is added")


class Scale(Operator[ScaleParam]):
    """data · factor (+ shift) of rows, keeping the mean: optional input, hidden output, label."""

    name = "test_scale"
    arguments = ("data", "factor", "label", "shift")
    results = ("output", "mean")
    hidden = ("mean",)
    without_gradient = ("label",)

    def inputs(self, p: ScaleParam) -> tuple[str, ...]:
        return self.arguments if p.shifted else self.arguments[:-1]

    def infer_shape(self, p: ScaleParam, s: Shapes) -> None:
        s.unify(["data", "output", *(["shift"] if p.shifted else [])])
        data = s.get("data")
        if data is not None:
            s.assign("factor", data[1:])
            s.assign("label", data[:1])
            s.assign("mean", data[:1])

    def reference(self, p: ScaleParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        y = inputs[0] * inputs[1] + (inputs[3] if p.shifted else 0)
        return y.astype(inputs[0].dtype), y.mean(1).astype(inputs[0].dtype)

    def backward(
        self,
        p: ScaleParam,
        ctx: ReferenceContext,
        out_grad: Array,
        data: Array,
        factor: Array,
        mean: Array,
        shift: ShapeOnly | None = None,
    ) -> Arrays:
        assert isinstance(ctx, ReferenceContext) and mean.shape == data.shape[:1]
        grads = [out_grad * factor, (out_grad * data).sum(0)]
        return grads if shift is None else [*grads, out_grad]


class Halve(Operator):
    """Linear, so it is its own second derivative."""

    name = "test_halve"
    linear = True

    def reference(self, p: NoParams, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        return (inputs[0] / 2,)

    def backward(self, p: NoParams, out_grad: Array) -> Array:
        return out_grad / 2


class CountParam(Params):
    """How many."""

    num_args: int = opt(2, "how many")


class Split(Operator[CountParam]):
    """Several outputs: every out-gradient, the shapes of all inputs."""

    name = "test_split"
    arguments = ("data",)
    results = ("first", "second")

    def reference(self, p: CountParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        return (inputs[0], 2 * inputs[0])

    def backward(self, p: CountParam, out_grads: Arrays, inputs: Sequence[ShapeOnly]) -> Array:
        first, second = out_grads
        assert len(inputs) == 1
        return first + 2 * second


@pytest.fixture(autouse=True)
def declared() -> Iterator[None]:
    with operators.temporary(Scale, Halve, Split):
        yield


def test_the_backward_operator_takes_what_the_arguments_name() -> None:
    op, backward = operators.get("test_scale"), operators.get("_backward_test_scale")
    p = op.Param()
    assert backward.inputs(p) == ("out_grad", "data", "factor", "mean")
    assert backward.outputs(p) == ("data_grad", "factor_grad")
    assert backward.backward_of is op
    shifted = op.Param(shifted=True)
    assert backward.inputs(shifted)[-1] == "shift" and backward.outputs(shifted)[-1] == "shift_grad"
    assert backward.shape_only_inputs(shifted) == {4}


def test_gradient_entries_follow() -> None:
    op = operators.get("test_scale")
    gradient = gradient_of(op, op.Param(shifted=True))
    (node,) = gradient.nodes
    assert node.op == "_backward_test_scale"
    assert node.inputs == (
        Entry("out_grad", 0), Entry("input", 0), Entry("input", 1), Entry("output", 1), Entry("input", 3),
    )  # fmt: skip
    assert gradient.grads == (Entry("node", 0, 0), Entry("node", 0, 1), None, Entry("node", 0, 2))
    assert gradient.shape_reads == {Entry("input", 3)}


def test_inference_goes_through_the_forward_operator() -> None:
    backward = operators.get("_backward_test_scale")
    p = backward.Param()
    inputs, outputs = infer_shapes(backward, p, [None, (2, 3), None, None])
    assert inputs == ((2, 3), (2, 3), (3,), (2,)) and outputs == ((2, 3), (3,))
    with pytest.raises(ShapeError, match="do not belong to one test_scale"):
        infer_shapes(backward, p, [(2, 3), (2, 4), None, None])
    assert infer_types(backward, p, [2, None, None, None])[1] == (2, 2)


def test_16_bit_arrays_are_computed_in_float32_and_rounded_once() -> None:
    backward = operators.get("_backward_test_scale")
    ones = np.ones((5000, 1), np.float16)
    made = backward.reference(
        backward.Param(), [ones, ones, np.ones(1, np.float16), np.ones(5000, np.float16)], ReferenceContext()
    )
    assert [x.dtype for x in made] == [np.float16, np.float16]
    assert made[1].tolist() == [5000.0]  # float16 would stop counting at 2048


def test_sequences_of_tensors() -> None:
    backward = operators.get("_backward_test_split")
    p = backward.Param()
    assert backward.inputs(p) == ("first_grad", "second_grad", "data")
    assert backward.shape_only_inputs(p) == {2}
    ones = np.ones(3, np.float32)
    (grad,) = backward.reference(p, [ones, ones, ones], ReferenceContext())
    assert grad.tolist() == [3, 3, 3]


def test_a_linear_operator_is_its_second_derivative() -> None:
    backward = operators.get("_backward_test_halve")
    gradient = gradient_of(backward, backward.Param())
    assert [(node.op, node.inputs) for node in gradient.nodes] == [("test_halve", (Entry("out_grad", 0),))]


def test_a_second_derivative_that_is_not_written_is_an_error() -> None:
    backward = operators.get("_backward_test_scale")
    p = backward.Param()
    (node,) = gradient_of(backward, p).nodes
    refusal = operators.get(node.op)
    with pytest.raises(MXNetError, match="test_scale.*higher order"):
        infer_shapes(refusal, node.params, [(1,)] * len(node.inputs))


def test_a_gradient_that_is_forgotten_is_an_error() -> None:
    with pytest.raises(PluginError, match=r"\[test_silent\].*Silent.*`backward`.*`differentiable = False`"):

        class Silent(Operator):
            name = "test_silent"


def test_a_name_that_is_no_tensor_is_an_error() -> None:
    with pytest.raises(PluginError, match=r"backward takes dta; .*data.*out_grad"):

        class Misspelt(Operator):
            name = "test_misspelt"

            def backward(self, p: NoParams, out_grad: Array, dta: Array) -> Array:
                return out_grad


def test_entries_have_names() -> None:
    class Named(Operator):
        name = "test_named"
        arguments = ("a", "b")
        asked = "b"

        def gradient(self, p: NoParams, g: GradientBuilder) -> Gradients:
            return {"b": g.input(self.asked)}

    op = Named()
    assert gradient_of(op, NoParams()).grads == (None, Entry("input", 1))
    other = Named()
    other.asked = "c"
    with pytest.raises(MXNetError, match=r"\[test_named\] gradient: expected one of a, b, got 'c'"):
        gradient_of(other, NoParams())


def test_results_have_to_be_as_many_as_inputs_with_a_gradient() -> None:
    class Short(Operator):
        name = "test_short"
        arguments = ("a", "b")

        def backward(self, p: NoParams, out_grad: Array) -> Array:
            return out_grad

    with operators.temporary(Short), pytest.raises(MXNetError, match="1 arrays for a_grad, b_grad"):
        operators.get("_backward_test_short").reference(NoParams(), [np.ones(1)], ReferenceContext())


def test_a_result_of_none_is_named() -> None:
    class Forgets(Operator):
        name = "test_forgets"
        arguments = ("a", "b")

        def backward(self, p: NoParams, out_grad: Array) -> Any:
            return out_grad, None

    with operators.temporary(Forgets), pytest.raises(MXNetError, match="backward gives None for b_grad"):
        operators.get("_backward_test_forgets").reference(NoParams(), [np.ones(1)], ReferenceContext())


def test_gradients_of_inputs_that_are_not_kept_have_a_type() -> None:
    backward = operators.get("_backward_test_halve")
    for name in ("float32", "bfloat16"):
        code = dtypes.code(name)
        assert infer_types(backward, NoParams(), [code]) == ((code,), (code,))


def test_an_unknown_argument_of_backward_names_the_attribute_that_declares_it():
    with pytest.raises(PluginError, match=r"backward takes weight.*`arguments`.*`inputs\(p\)`"):

        class Unnamed(Operator):
            name = "unnamed"

            def inputs(self, p):
                return ("data", "weight")

            def backward(self, p, out_grad, data, weight):
                return out_grad, weight
