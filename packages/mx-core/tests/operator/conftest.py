# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest

from mx_core import expression as X
from mx_core.operator import Operator, Params, SimpleOp, opt


class QuadraticParam(Params):
    """Coefficients."""

    a: float = opt(0.0, "of the square", runtime=True)
    b: float = opt(0.0, "of the linear term", runtime=True)
    c: float = opt(0.0, "constant", runtime=True)


class Quadratic(SimpleOp):
    """y = a·x² + b·x + c, elementwise."""

    name = "test_quadratic"
    aliases = ("test_q",)
    Param = QuadraticParam

    def function(self, p: Any, data: Any) -> Any:
        return (p.a * data + p.b) * data + p.c

    def gradient_function(self, p: Any, out_grad: Any, data: Any) -> Any:
        return out_grad * (2 * p.a * data + p.b)


class TanhLike(SimpleOp):
    """Gradient from the output only."""

    name = "test_tanh"

    def function(self, p: Any, data: Any) -> Any:
        return X.tanh(data)

    def gradient_function(self, p: Any, out_grad: Any, output: Any) -> Any:
        return out_grad * (1 - X.square(output))


class Product(SimpleOp):
    """Broadcasting product, derived gradient."""

    name = "test_product"
    broadcast = True

    def function(self, p: Any, lhs: Any, rhs: Any) -> Any:
        return lhs * rhs


class Halves(Operator):
    """Reverse inference: the output has half the columns."""

    name = "test_halves"
    differentiable = False

    def infer_shape(self, p: Any, s: Any) -> None:
        data, output = s.get("data"), s.get("output")
        if data is not None:
            s.assign("output", (data[0], data[1] // 2 if data[1] >= 0 else -1))
        if output is not None:
            s.assign("data", (output[0], output[1] * 2 if output[1] >= 0 else -1))


class Unbroadcast(Operator):
    """Stands for the summing operator that broadcasting gradients name."""

    name = "_unbroadcast"
    differentiable = False
    arguments = ("data", "like")

    def shape_only_inputs(self, p: Any) -> frozenset[int]:
        return frozenset((1,))

    def infer_shape(self, p: Any, s: Any) -> None:
        s.unify(["like", "output"])


@pytest.fixture
def ops() -> Any:
    from mx_core import operators

    classes = [Quadratic, TanhLike, Product, Halves]
    if operators.find("_unbroadcast") is None:
        classes.append(Unbroadcast)  # type: ignore[arg-type]
    with operators.temporary(*classes) as made:
        yield {op.name: op for op in made}
