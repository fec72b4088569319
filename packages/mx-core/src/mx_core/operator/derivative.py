# SPDX-License-Identifier: Apache-2.0
"""Derivatives of elementwise operators: backward operators that are expressions, of any order."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

from mx_core.expression.derivative import differentiate
from mx_core.expression.ir import Expression
from mx_core.operator.declaration import Operator, P
from mx_core.operator.simple import Elementwise, SimpleOp

if TYPE_CHECKING:
    from mx_core.operator.gradient import GradientBuilder, Gradients
    from mx_core.operator.knowledge import Types


class Derivative(Elementwise[P]):
    """An elementwise derivative, whose own derivative is `_backward` + its name; declared on demand."""

    def gradient(self, p: P, g: GradientBuilder) -> Gradients:
        """Through the derived expression of this operator."""
        grads = g.op(self.backward_name, (*g.out_grads, *g.inputs), params=p)
        if not self.broadcast:
            return grads
        return [g.op("_unbroadcast", pair)[0] for pair in zip(grads, g.inputs, strict=True)]

    @property
    def backward_name(self) -> str:
        """Name of the derivative."""
        return f"_backward{self.name}"

    def derivative(self) -> Derivative[Any]:
        """The operator `_backward` + name."""
        return _higher_class(self)()


class BackwardOp(Derivative[P]):
    """The backward operator of a SimpleOp; an expression too, so it has a gradient in turn."""

    forward: ClassVar[SimpleOp[Any]]

    def inputs(self, p: P) -> tuple[str, ...]:
        """out_grad, then what the forward operator's gradient keeps."""
        return self.forward.backward_arguments(p)

    def outputs(self, p: P) -> tuple[str, ...]:
        """One gradient per input of the forward operator."""
        return tuple(f"{name}_grad" for name in self.forward.arguments)

    def expression(self, p: P) -> Expression:
        """The traced or derived gradient."""
        return self.forward.backward_expression(p)

    def infer_type(self, p: P, t: Types) -> None:
        """Everything in the type of the out-gradient."""
        t.unify([*self.inputs(p), *self.outputs(p)])

    def backward_operator(self) -> Operator[Any] | None:
        """The second-order backward operator."""
        return self.derivative()


class HigherOrderOp(Derivative[P]):
    """The derivative of a derivative."""

    below: ClassVar[Derivative[Any]]
    #: ending of the names of its heads, which tells them from those of the orders below
    head: ClassVar[str]

    def inputs(self, p: P) -> tuple[str, ...]:
        """Out-gradients of the outputs of the order below, then its inputs."""
        return (*(n + self.head for n in self.below.outputs(p)), *self.below.inputs(p))

    def outputs(self, p: P) -> tuple[str, ...]:
        """One gradient per input of the order below."""
        return tuple(f"{n}_grad" for n in self.below.inputs(p))

    def expression(self, p: P) -> Expression:
        """Derived."""
        return _derivative(self.below.expression(p))


_derivative = lru_cache(maxsize=1024)(differentiate)


def backward_class(op: SimpleOp[Any]) -> type[BackwardOp[Any]]:
    members = {
        "name": f"_backward_{op.name}", "Param": op.Param, "forward": op, "broadcast": op.broadcast,
        "arguments": ("out_grad", *op.arguments, "output"),
        "results": tuple(f"{name}_grad" for name in op.arguments),
        "__doc__": f"Gradient of {op.name}.", "__module__": type(op).__module__,
    }  # fmt: skip
    return type(f"Backward{type(op).__name__}", (BackwardOp,), members)


def _higher_class(op: Derivative[Any]) -> type[HigherOrderOp[Any]]:
    order = op.name.count("_backward") + 1
    head = "_head" if order == 2 else f"_head{order}"
    members = {
        "name": f"_backward{op.name}", "Param": op.Param, "below": op, "head": head,
        "broadcast": op.broadcast, "arguments": (*(name + head for name in op.results), *op.arguments),
        "results": tuple(f"{name}_grad" for name in op.arguments),
        "__doc__": f"Gradient of {op.name}.", "__module__": type(op).__module__,
    }  # fmt: skip
    return type(f"Backward{type(op).__name__}", (HigherOrderOp,), members)
