# SPDX-License-Identifier: Apache-2.0
"""Declarations that backward operators share."""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

from mx_core.operator import GradientBuilder, Gradients, Operator, OperatorProperty, Params

P = TypeVar("P", bound=Params)


class BackwardOperator(OperatorProperty):
    """A backward operator: each output has the shape and type of the input it is a gradient of."""

    #: output name -> input name
    gradient_of: ClassVar[dict[str, str]] = {}

    def infer_shape(self, p: Any, s: Any) -> None:
        """Gradients have the shapes of what they belong to."""
        for output in self.outputs(p):
            s.unify([self.gradient_of[output], output])

    def infer_type(self, p: Any, t: Any) -> None:
        """Gradients have the types of what they belong to."""
        for output in self.outputs(p):
            t.unify([self.gradient_of[output], output])


class BackwardOfData(OperatorProperty):
    """From out_grad to the gradient of data, of which only the shape is read."""

    arguments: ClassVar[tuple[str, ...]] = ("out_grad", "data")
    results: ClassVar[tuple[str, ...]] = ("data_grad",)
    shape_only_inputs = frozenset((1,))

    def infer_shape(self, p: Any, s: Any) -> None:
        """As data."""
        s.unify(["data", "data_grad"])


class BackwardProduct(OperatorProperty):
    """Gradients of an operator of data, weight and (unless no_bias) bias, all of one type."""

    arguments: ClassVar[tuple[str, ...]] = ("out_grad", "data", "weight")

    def bias_size(self, p: Any) -> int:
        """Elements of bias."""
        raise NotImplementedError

    def outputs(self, p: Any) -> tuple[str, ...]:
        """bias_grad unless no_bias."""
        return ("data_grad", "weight_grad", *(() if p.no_bias else ("bias_grad",)))

    def infer_shape(self, p: Any, s: Any) -> None:
        """As the forward inputs."""
        s.unify(["data", "data_grad"])
        s.unify(["weight", "weight_grad"])
        if not p.no_bias:
            s.assign("bias_grad", (self.bias_size(p),))

    def infer_type(self, p: Any, t: Any) -> None:
        """Everything in the type of data."""
        t.unify([*self.inputs(p), *self.outputs(p)])

    def gradient(self, p: Any, g: Any) -> Any:
        """The forward operator is linear in data and in weight, so either may stand for its own change."""
        return bilinear_gradient(self, p, g, p if p.no_bias else p.replace(no_bias=True))


def bilinear_gradient(op: Operator[P], p: P, g: GradientBuilder, plain: P) -> Gradients:
    """The gradient of the backward operator (out_grad, a, b) of `op`, which is linear in a and in b.

    Parameters
    ----------
    plain : Params
        As `p`, without what the operator adds to the product.
    """
    first, second, *_ = op.inputs(p)
    out_grad, a, b = g.input("out_grad"), g.input(first), g.input(second)
    by_a, by_b, *further = (g.out_grad(f"{name}_grad") for name in op.differentiable_inputs(p))
    (left,) = g.op(op.name, (by_a, b), params=plain)
    (right,) = g.op(op.name, (a, by_b, *further), params=p)
    (by_out_grad,) = g.op("elemwise_add", (left, right))
    grad_a = g.op(op.backward_name, (out_grad, a, by_b), params=plain)[0]
    grad_b = g.op(op.backward_name, (out_grad, by_a, b), params=plain)[1]
    return {"out_grad": by_out_grad, first: grad_a, second: grad_b}


def linear_gradient(op: OperatorProperty, p: Any, g: Any) -> Any:
    """The gradient of the backward operator of an operator that is linear in its one input: forward again."""
    (by_out_grad,) = g.op(op.name.removeprefix("_backward_"), (g.out_grad(),), params=p)
    return by_out_grad, *([None] * (len(op.inputs(p)) - 1))
