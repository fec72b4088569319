# SPDX-License-Identifier: Apache-2.0
"""Whatever an operator is given, the error is one of mx and names the operator and its inputs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from mx_core import errors, kernels, operators
from mx_core.context import Context
from mx_core.kernels import KernelSpec, TensorSpec
from mx_core.operator import Array, Operator, Params, ReferenceContext, infer_shapes, infer_types, opt


class HalfParam(Params):
    """What goes wrong."""

    kind: str = opt("none", "name of an exception")


class Half(Operator[HalfParam]):
    """Every other row; rules and reference that trust their input."""

    name = "test_half"

    def infer_shape(self, p: Any, s: Any) -> None:
        data = s.get("data")
        if data is not None:
            s.assign("output", (data[0] // 2, *data[1:]))

    def backward(self, p: HalfParam, out_grad: Array, data: Array) -> Array:
        grad = np.zeros_like(data)
        grad[0::2] = out_grad
        return grad

    def reference(self, p: Any, inputs: Any, ctx: Any) -> Any:
        if p.kind != "none":
            raise {"key": KeyError, "value": ValueError, "memory": MemoryError}[p.kind]("of the reference")
        return (inputs[0][0::2] + np.ones(3),)


@pytest.fixture
def half() -> Iterator[Operator]:
    with operators.temporary(Half) as (op,):
        yield op


def test_what_a_rule_did_not_foresee_is_a_shape_error(half: Operator) -> None:
    with pytest.raises(
        errors.ShapeError,
        match=r"\[test_half 'h'\].*\(\(\),\).*IndexError|\[test_half 'h'\] cannot take inputs",
    ) as e:
        infer_shapes(half, half.Param(), [()], node="h")
    assert isinstance(e.value.__cause__, IndexError)


@pytest.mark.parametrize("shape", [(2, 2**62, 4), (1,) * 33])
def test_shapes_that_no_array_can_have(half: Operator, shape: tuple[int, ...]) -> None:
    with pytest.raises(errors.ShapeError, match=r"\[test_half\] output: .*(2\^63|32 dimensions)"):
        infer_shapes(half, half.Param(), [(2 * shape[0], *shape[1:])])


def test_inputs_of_a_backward_operator_belong_together(half: Operator) -> None:
    backward = operators.get("_backward_test_half")
    assert backward.backward_of is half
    p = half.Param()
    assert infer_shapes(backward, p, [None, (4, 3)]) == (((2, 3), (4, 3)), ((4, 3),))
    with pytest.raises(errors.ShapeError, match=r"\(2, 3\).*\(9, 9\).*one test_half"):
        infer_shapes(backward, p, [(9, 9), (4, 3)])
    with pytest.raises(errors.DTypeError, match=r"\[_backward_test_half\] .*float64.*one test_half"):
        infer_types(backward, p, [1, 0])


def run(op: Operator, shape: tuple[int, ...], **settings: Any) -> Any:
    spec = TensorSpec(shape, 0)
    function = kernels.reference_kernel(
        kernels.KernelCall(op, op.Param(**settings), (spec,), (spec,), Context("cpu"))
    )
    return function(ReferenceContext(), [np.ones(shape, np.float32)])


@pytest.mark.parametrize(
    ("settings", "kind", "cause"),
    [
        ({}, errors.ArgumentError, ValueError),
        ({"kind": "value"}, errors.ArgumentError, ValueError),
        ({"kind": "memory"}, errors.OutOfMemoryError, MemoryError),
    ],
)
def test_what_numpy_says_names_the_operator(
    half: Operator, settings: Any, kind: type[Exception], cause: type[Exception]
) -> None:
    with pytest.raises(kind, match=r"\[test_half\] cannot be computed of \(float32\[4, 2\]\)") as e:
        run(half, (4, 2), **settings)
    assert isinstance(e.value.__cause__, cause)


def test_other_exceptions_of_a_reference_are_its_own(half: Operator) -> None:
    with pytest.raises(KeyError, match="of the reference"):
        run(half, (4, 3), kind="key")


def test_a_kernel_that_cannot_be_prepared_is_named(half: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    def make(call: Any) -> Any:
        return call.inputs[0].shape[7]

    spec = KernelSpec("test_half", "cpu", "fast", make, 10, None, "somebody")
    monkeypatch.setattr(kernels, "_ordered", lambda op, device: (spec,))
    data = TensorSpec((4, 3), 0)
    with pytest.raises(
        errors.NoKernelError, match=r"'test_half'.*float32\[4, 3\].*'fast'.*'somebody'.*IndexError"
    ):
        kernels.prepare(half, half.Param(), [data], [data], Context("cpu"))


def test_an_operator_of_any_number_of_inputs_has_a_limit() -> None:
    class ManyParam(Params):
        """How many."""

        num_args: int = opt(1, "how many")

    class Many(Operator):
        """Takes any number."""

        name = "test_many"
        differentiable = False
        Param = ManyParam
        variadic = "num_args"

    with pytest.raises(
        errors.ArgumentError, match=r"\[test_many\] num_args: expected at most 65536, got 1000000000"
    ):
        Many().inputs(ManyParam(num_args=10**9))
