# SPDX-License-Identifier: Apache-2.0
"""SimpleOp: an elementwise operator from one traced expression, its gradient from another.

Source: MXNet's SimpleOp design note, which names the gradient forms T0 (out-gradient),
T1 (out-gradient, output) and T2 (out-gradient, input).
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

from mx_core.errors import PluginError
from mx_core.expression.derivative import differentiate
from mx_core.expression.evaluate import evaluate
from mx_core.expression.ir import Expression
from mx_core.expression.trace import Builder, Traced
from mx_core.operator.params import Params
from mx_core.operator.property import OperatorProperty, ReferenceContext

if TYPE_CHECKING:
    from mx_core.operator.gradient import Entry, GradientBuilder
    from mx_core.operator.infer import Shapes, Types


class Elementwise(OperatorProperty):
    """Every operator that is an expression: has `expression(p)`, needs no kernel of its own."""

    broadcast: ClassVar[bool] = False

    def expression(self, p: Params) -> Expression:
        """Inputs in order, the run-time parameters as scalars, one output per output."""
        raise NotImplementedError(f"[{self.name}] no expression")

    def infer_shape(self, p: Params, s: Shapes) -> None:
        """All shapes equal, or broadcast as NumPy does."""
        if not self.broadcast:
            s.unify([*self.inputs(p), *self.outputs(p)])
            return
        shape = broadcast_shapes([s.get(name) for name in self.inputs(p)], s)
        for name in self.outputs(p):
            s.assign(name, shape)

    def inplace(self, p: Params) -> tuple[tuple[int, int], ...]:
        """Any input, with any output."""
        n = len(self.inputs(p))
        return tuple((i, o) for o in range(len(self.outputs(p))) for i in range(n))

    def output_types(self, p: Params, input_types: Sequence[int]) -> tuple[int, ...]:
        """Type codes the expression's outputs are stored in."""
        from mx_core.operator.infer import infer_types

        _, types = infer_types(self, p, input_types)
        return tuple(input_types[0] if t is None else t for t in types)

    def reference(self, p: Params, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """The expression, evaluated with NumPy."""
        from mx_core import dtypes

        types = self.output_types(p, [dtypes.code(x.dtype) for x in inputs])
        return evaluate(self.expression(p), inputs, p.scalars, output_dtypes=types)


def broadcast_shapes(shapes: Sequence[tuple[int, ...] | None], s: Shapes) -> tuple[int, ...] | None:
    """NumPy's broadcast of partial shapes; None while a rank is unknown."""
    if any(shape is None for shape in shapes):
        return None
    known = [shape for shape in shapes if shape is not None]
    rank = max((len(shape) for shape in known), default=0)
    result = []
    for axis in range(-rank, 0):
        sizes = {shape[axis] for shape in known if -axis <= len(shape)} - {1}
        fixed = sizes - {-1}
        if len(fixed) > 1:
            shown = " ".join(str(list(shape)).replace(" ", "") for shape in known)
            raise s.error(f"operands could not be broadcast together with shapes {shown}")
        result.append(fixed.pop() if fixed else (-1 if sizes else 1))
    return tuple(result)


class SimpleOp(Elementwise):
    """Derive, name it, write `function`; optionally `gradient_function`.

    `function(p, *inputs)` works on traced values with operators and the functions of
    `mx_core.expression`; run-time parameters of `p` are traced too. `gradient_function(p,
    out_grad, …)` returns one gradient per input; the names of its arguments (`output`, names of
    inputs) say what backward keeps. Without it the gradient is derived, keeping the inputs that
    it needs.

    Examples
    --------
    >>> class Quadratic(SimpleOp):
    ...     name = "quadratic"
    ...     Param = QuadraticParam
    ...
    ...     def function(self, p, data):
    ...         return (p.a * data + p.b) * data + p.c
    ...
    ...     def gradient_function(self, p, out_grad, data):
    ...         return out_grad * (2 * p.a * data + p.b)
    """

    #: False for a function with zero gradient everywhere (comparisons, rounding)
    differentiable: ClassVar[bool] = True

    def __init__(self) -> None:
        given = list(inspect.signature(self.function).parameters)
        if "arguments" not in type(self).__dict__ and type(self).arguments == ("data",):
            type(self).arguments = tuple(given[1:])
        if tuple(given[1:]) != self.arguments:
            raise PluginError(
                f"[{self.name}] function takes {given[1:]}, the operator's inputs are {self.arguments}"
            )

    def function(self, p: Any, data: Any) -> Any:
        """The elementwise function."""
        raise NotImplementedError

    gradient_function: Any = None

    def expression(self, p: Params) -> Expression:
        """The traced function; traced once per set of fixed parameters."""
        return _forward_expression(self, p.key, _Frozen(p))

    def backward_arguments(self, p: Params) -> tuple[str, ...]:
        """What the backward operator takes: out_grad, then output and inputs that are kept."""
        return _backward(self, p.key, _Frozen(p))[0]

    def backward_expression(self, p: Params) -> Expression:
        """From `backward_arguments` to one gradient per input."""
        return _backward(self, p.key, _Frozen(p))[1]

    def companions(self) -> tuple[OperatorProperty, ...]:
        """`_backward_NAME`, when there is a gradient."""
        return (_backward_class(self)(),) if self.differentiable else ()

    def gradient(self, p: Params, g: GradientBuilder) -> Sequence[Entry | None] | None:
        """One application of `_backward_NAME`, summed back where inputs were broadcast.

        Where every input's gradient is the out-gradient itself, as those of a sum, it is passed on.
        """
        if not self.differentiable:
            return None
        entries = {"out_grad": g.out_grad(0), "output": g.output(0)}
        entries |= {name: g.input(i) for i, name in enumerate(self.arguments)}
        kept = self.backward_arguments(p)
        grads: Sequence[Entry]
        if set(self.backward_expression(p).outputs) == {kept.index("out_grad")}:
            grads = [g.out_grad(0)] * len(self.arguments)  # passed on unchanged: nothing to compute
        else:
            grads = g.op(f"_backward_{self.name}", [entries[name] for name in kept], params=p)
        if not self.broadcast:
            return grads
        return [g.op("_unbroadcast", (grad, g.input(i)))[0] for i, grad in enumerate(grads)]


class _Frozen:
    """Parameters as a cache argument that does not take part in the key."""

    def __init__(self, p: Params) -> None:
        self.p = p

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Frozen)

    def __hash__(self) -> int:
        return 0


class _TracedParams:
    """Parameters of which the run-time ones are traced scalars."""

    def __init__(self, p: Params, builder: Builder) -> None:
        runtime = [f.name for f in p.fields() if f.runtime]
        for info in p.fields():
            value = getattr(p, info.name)
            traced = builder.scalar(runtime.index(info.name)) if info.runtime else value
            setattr(self, info.name, traced)


def _as_sequence(result: Any) -> Sequence[Any]:
    return result if isinstance(result, (tuple, list)) else (result,)


@lru_cache(maxsize=2048)
def _forward_expression(op: SimpleOp, key: tuple[Any, ...], frozen: _Frozen) -> Expression:
    p = frozen.p
    builder = Builder(len(op.arguments), len(p.scalars))
    inputs = [builder.input(i) for i in range(len(op.arguments))]
    return builder.finish(_as_sequence(op.function(_TracedParams(p, builder), *inputs)))


@lru_cache(maxsize=2048)
def _backward(op: SimpleOp, key: tuple[Any, ...], frozen: _Frozen) -> tuple[tuple[str, ...], Expression]:
    p = frozen.p
    if op.gradient_function is None:
        return _derived(op, differentiate(op.expression(p)))
    names = tuple(inspect.signature(op.gradient_function).parameters)[1:]
    allowed = {"out_grad", "output", *op.arguments}
    if not names or names[0] != "out_grad" or not set(names) <= allowed:
        raise PluginError(
            f"[{op.name}] gradient_function takes {names}; expected out_grad first, then any of "
            f"{sorted(allowed - {'out_grad'})}"
        )
    builder = Builder(len(names), len(p.scalars))
    traced: list[Traced] = [builder.input(i) for i in range(len(names))]
    grads = _as_sequence(op.gradient_function(_TracedParams(p, builder), *traced))
    if len(grads) != len(op.arguments):
        raise PluginError(f"[{op.name}] {len(grads)} gradients for {len(op.arguments)} inputs")
    return names, builder.finish(grads)


def _derived(op: SimpleOp, full: Expression) -> tuple[tuple[str, ...], Expression]:
    """The derived gradient, without the inputs it does not read."""
    names = ("out_grad", *op.arguments)
    read = {v for step in full.instructions for v in step.operands} | set(full.outputs)
    kept = [i for i in range(full.n_inputs) if i == 0 or i in read]
    builder = Builder(len(kept), full.n_scalars)
    unused = builder.constant(0.0)
    inputs = [builder.input(kept.index(i)) if i in kept else unused for i in range(full.n_inputs)]
    from mx_core.expression.derivative import replay

    values = replay(builder, full, inputs)
    return tuple(names[i] for i in kept), builder.finish([values[v] for v in full.outputs])


class Derivative(Elementwise):
    """An elementwise derivative, whose own derivative is `_backward` + its name; declared on demand."""

    def gradient(self, p: Params, g: GradientBuilder) -> Sequence[Entry | None] | None:
        """Through the derived expression of this operator."""
        n_out, n_in = len(self.outputs(p)), len(self.inputs(p))
        entries = [g.out_grad(i) for i in range(n_out)] + [g.input(i) for i in range(n_in)]
        grads = g.op(f"_backward{self.name}", entries, params=p)
        if not self.broadcast:
            return grads
        return [g.op("_unbroadcast", (grad, g.input(i)))[0] for i, grad in enumerate(grads)]

    def derivative(self) -> Derivative:
        """The operator `_backward` + name."""
        return _higher_class(self)()


class BackwardOp(Derivative):
    """The backward operator of a SimpleOp; an expression too, so it has a gradient in turn."""

    forward: ClassVar[SimpleOp]

    def inputs(self, p: Params) -> tuple[str, ...]:
        """out_grad, then what the forward operator's gradient keeps."""
        return self.forward.backward_arguments(p)

    def outputs(self, p: Params) -> tuple[str, ...]:
        """One gradient per input of the forward operator."""
        return tuple(f"{name}_grad" for name in self.forward.arguments)

    def expression(self, p: Params) -> Expression:
        """The traced or derived gradient."""
        return self.forward.backward_expression(p)

    def infer_type(self, p: Params, t: Types) -> None:
        """Everything in the type of the out-gradient."""
        t.unify([*self.inputs(p), *self.outputs(p)])

    def companions(self) -> tuple[OperatorProperty, ...]:
        """The second-order backward operator."""
        return (self.derivative(),)


class HigherOrderOp(Derivative):
    """The derivative of a derivative."""

    below: ClassVar[Derivative]
    #: ending of the names of its heads, which tells them from those of the orders below
    head: ClassVar[str]

    def inputs(self, p: Params) -> tuple[str, ...]:
        """Out-gradients of the outputs of the order below, then its inputs."""
        return (*(n + self.head for n in self.below.outputs(p)), *self.below.inputs(p))

    def outputs(self, p: Params) -> tuple[str, ...]:
        """One gradient per input of the order below."""
        return tuple(f"{n}_grad" for n in self.below.inputs(p))

    def expression(self, p: Params) -> Expression:
        """Derived."""
        return _derivative(self.below.expression(p))


_derivative = lru_cache(maxsize=1024)(differentiate)


def _backward_class(op: SimpleOp) -> type[BackwardOp]:
    members = {
        "name": f"_backward_{op.name}", "Param": op.Param, "forward": op, "broadcast": op.broadcast,
        "arguments": ("out_grad", *op.arguments, "output"),
        "results": tuple(f"{name}_grad" for name in op.arguments),
        "__doc__": f"Gradient of {op.name}.", "__module__": type(op).__module__,
    }  # fmt: skip
    return type(f"Backward{type(op).__name__}", (BackwardOp,), members)


def _higher_class(op: Derivative) -> type[HigherOrderOp]:
    order = op.name.count("_backward") + 1
    head = "_head" if order == 2 else f"_head{order}"
    members = {
        "name": f"_backward{op.name}", "Param": op.Param, "below": op, "head": head,
        "broadcast": op.broadcast, "arguments": (*(name + head for name in op.results), *op.arguments),
        "results": tuple(f"{name}_grad" for name in op.arguments),
        "__doc__": f"Gradient of {op.name}.", "__module__": type(op).__module__,
    }  # fmt: skip
    return type(f"Backward{type(op).__name__}", (HigherOrderOp,), members)
