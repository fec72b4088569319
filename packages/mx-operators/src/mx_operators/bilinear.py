# SPDX-License-Identifier: Apache-2.0
"""Second derivatives of operators that are linear in each of two inputs."""

from __future__ import annotations

from typing import TypeVar

from mx_core.operator import GradientBuilder, Gradients, Operator, Params

P = TypeVar("P", bound=Params)


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


class BiasedParam(Params):
    """Parameters of which `no_bias` is one."""

    @property
    def no_bias(self) -> bool:
        """Whether there is no bias."""
        raise NotImplementedError


B = TypeVar("B", bound=BiasedParam)


class Biased(Operator[B]):
    """data multiplied by weight in some way, and a bias added unless no_bias."""

    arguments = ("data", "weight", "bias")

    def inputs(self, p: B) -> tuple[str, ...]:
        return self.arguments[:-1] if p.no_bias else self.arguments

    def backward_gradient(self, p: B, g: GradientBuilder) -> Gradients:
        """Linear in data and in weight, so either may stand for its own change."""
        return bilinear_gradient(self, p, g, p if p.no_bias else p.replace(no_bias=True))
