# SPDX-License-Identifier: Apache-2.0
"""Operators whose gradient is one function: the backward operator is made from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from mx_core.operator import Entry, OperatorProperty
from mx_core.operator.property import ReferenceContext
from mx_operators.backward import BackwardOperator


class Differentiable(OperatorProperty):
    """Write `pull`; say which inputs have a gradient, and of which backward needs the values."""

    #: inputs that have a gradient
    varied: ClassVar[tuple[str, ...]] = ("data",)
    #: inputs whose values backward reads; of the others it reads the shape
    read: ClassVar[tuple[str, ...]] = ()
    #: outputs whose gradients backward reads
    heads: ClassVar[int] = 1
    #: hidden or visible outputs that backward reads, by index
    kept_outputs: ClassVar[tuple[int, ...]] = ()

    def pull(self, p: Any, heads: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any]) -> Any:
        """Gradients of those of `varied` that are there, in order.

        Parameters
        ----------
        heads : out-gradients
        inputs : the inputs; of those not in `read` only shape and type mean anything
        outputs : those in `kept_outputs`
        """
        raise NotImplementedError

    def gradient(self, p: Any, g: Any) -> Sequence[Entry | None]:
        """One operator."""
        names = self.inputs(p)
        kept = [g.out_grad(i) for i in range(self.heads)]
        kept += [g.output(i) for i in self.kept_outputs] + [g.input(i) for i in range(len(names))]
        made = g.op(backward_name(self), kept, params=p)
        found = iter(made)
        return [next(found) if name in self.varied else None for name in names]

    def companions(self) -> tuple[OperatorProperty, ...]:
        """Its backward operator."""
        lead = (
            *("out_grad" if i == 0 else f"out_grad{i}" for i in range(self.heads)),
            *(f"forward_{self.results[i]}" for i in self.kept_outputs),
        )
        members = {
            "name": backward_name(self), "Param": self.Param, "forward": self, "lead": lead,
            "arguments": (*lead, *self.arguments), "needs_train_flag": self.needs_train_flag,
            "results": tuple(f"{name}_grad" for name in self.varied),
            "gradient_of": {f"{name}_grad": name for name in self.varied},
            "shape_only_inputs": frozenset(
                len(lead) + i for i, name in enumerate(self.arguments) if name not in self.read
            ),
            "__doc__": f"Gradient of {self.name}.", "__module__": type(self).__module__,
        }  # fmt: skip
        return (type(f"Backward{type(self).__name__}", (_Backward,), members)(),)


def backward_name(op: OperatorProperty) -> str:
    """The name of an operator's backward operator."""
    return f"_backward_{op.name.lstrip('_')}"


class _Backward(BackwardOperator):
    forward: ClassVar[Differentiable]
    lead: ClassVar[tuple[str, ...]]

    def inputs(self, p: Any) -> tuple[str, ...]:
        """Out-gradients, kept outputs, and what the forward operator takes."""
        return (*self.lead, *self.forward.inputs(p))

    def outputs(self, p: Any) -> tuple[str, ...]:
        """Gradients of the inputs that are there."""
        there = self.forward.inputs(p)
        return tuple(f"{name}_grad" for name in self.forward.varied if name in there)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """By the forward operator's rule."""
        heads, n = self.forward.heads, len(self.lead)
        grads = self.forward.pull(p, inputs[:heads], inputs[n:], inputs[heads:n])
        table = dict(zip(self.forward.inputs(p), inputs[n:], strict=True))
        names = (self.gradient_of[name] for name in self.outputs(p))
        return tuple(grad.astype(table[name].dtype) for grad, name in zip(grads, names, strict=True))
