# SPDX-License-Identifier: Apache-2.0
"""SimpleOp: an elementwise operator from one traced expression, its gradient from another.

Source: MXNet's SimpleOp design note, which names the gradient forms T0 (out-gradient),
T1 (out-gradient, output) and T2 (out-gradient, input).
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from mx_core.errors import PluginError
from mx_core.expression.derivative import differentiate
from mx_core.expression.evaluate import evaluate
from mx_core.expression.ir import Expression
from mx_core.expression.trace import Builder, Traced
from mx_core.operator.declaration import Operator, P, ReferenceContext
from mx_core.operator.knowledge import keeping_shape
from mx_core.operator.tracing import expression_of, traced

if TYPE_CHECKING:
    from mx_core.operator.arrays import Array
    from mx_core.operator.gradient import Entry, GradientBuilder, Gradients
    from mx_core.operator.knowledge import Shapes


class Elementwise(Operator[P]):
    """Every operator that is an expression: has `expression(p)`, needs no kernel of its own."""

    broadcast: ClassVar[bool] = False

    def expression(self, p: P) -> Expression | None:
        """Inputs in order, the run-time parameters as scalars, one output per output.

        None where the operator is not elementwise with these parameters; then it has a `reference` of its own.
        """
        raise NotImplementedError(f"[{self.name}] no expression")

    @keeping_shape
    def infer_shape(self, p: P, s: Shapes) -> None:
        """All shapes equal, or broadcast as NumPy does."""
        if not self.broadcast:
            s.unify([*self.inputs(p), *self.outputs(p)])
            return
        shape = broadcast_shapes([s.get(name) for name in self.inputs(p)], s)
        for name in self.outputs(p):
            s.assign(name, shape)

    def inplace(self, p: P) -> tuple[tuple[int, int], ...]:
        """Any input, with any output."""
        n = len(self.inputs(p))
        return tuple((i, o) for o in range(len(self.outputs(p))) for i in range(n))

    def output_types(self, p: P, input_types: Sequence[int]) -> tuple[int, ...]:
        """Type codes the expression's outputs are stored in."""
        from mx_core.operator.infer import infer_types

        _, types = infer_types(self, p, input_types)
        return tuple(input_types[0] if t is None else t for t in types)

    def reference(self, p: P, inputs: Sequence[Array], ctx: ReferenceContext) -> Sequence[Array]:
        """The expression, evaluated with NumPy."""
        from mx_core import dtypes

        expression = expression_of(self, p)
        if expression is None:
            raise NotImplementedError(f"[{self.name}] neither expression nor reference with {p.attrs()}")
        types = self.output_types(p, [dtypes.code(x.dtype) for x in inputs])
        return evaluate(expression, inputs, p.scalars, output_dtypes=types)


def broadcast_shapes(shapes: Sequence[tuple[int, ...] | None], s: Shapes) -> tuple[int, ...] | None:
    """NumPy's broadcast of partial shapes; None while a rank is unknown."""
    if any(shape is None for shape in shapes):
        return None
    known = [shape for shape in shapes if shape is not None]
    rank = max([len(shape) for shape in known], default=0)
    result = []
    for axis in range(-rank, 0):
        size, otherwise = 1, 1
        for shape in known:
            extent = shape[axis] if -axis <= len(shape) else 1
            if extent == -1:
                otherwise = -1
            elif extent not in (1, size):
                if size != 1:
                    shown = " ".join(str(list(shape)).replace(" ", "") for shape in known)
                    raise s.error(f"operands could not be broadcast together with shapes {shown}")
                size = extent
        result.append(size if size != 1 else otherwise)
    return tuple(result)


class SimpleOp(Elementwise[P]):
    """Derive, name it, write `function`; optionally `gradient_function`.

    `function(p, *inputs)` works on traced values with operators and the functions of
    `mx_core.expression`; run-time parameters of `p` are traced too. `gradient_function(p,
    out_grad, …)` returns one gradient per input; the names of its arguments (`output`, names of
    inputs) say what backward keeps. Without it the gradient is derived, keeping the inputs that
    it needs.

    Examples
    --------
    >>> class Quadratic(SimpleOp[QuadraticParam]):
    ...     name = "quadratic"
    ...
    ...     def function(self, p, data):
    ...         return (p.a * data + p.b) * data + p.c
    ...
    ...     def gradient_function(self, p, out_grad, data):
    ...         return out_grad * (2 * p.a * data + p.b)
    """

    #: `function(self, p, *inputs)`
    function: ClassVar[Callable[..., Traced | Sequence[Traced]]]
    #: `gradient_function(self, p, out_grad, ...)`, one gradient per input; None: derived
    gradient_function: ClassVar[Callable[..., Traced | Sequence[Traced]] | None] = None

    @classmethod
    def _derive(cls) -> None:
        """The inputs are the arguments of `function`."""
        if not hasattr(cls, "function"):
            cls._check_expression()
            return
        bound = isinstance(inspect.getattr_static(cls, "function"), staticmethod)
        given = tuple(inspect.signature(cls.function).parameters)[1 if bound else 2 :]
        shown = getattr(cls, "name", cls.__qualname__)
        if not given and cls.arguments == ("data",):
            raise PluginError(
                f"[{shown}] function takes {inspect.signature(cls.function)}; expected (self, p, data, ...): the "
                "parameters, then an argument per input"
            )
        if "arguments" not in cls.__dict__ and cls.arguments == ("data",):
            cls.arguments = given
        if given != cls.arguments:
            raise PluginError(
                f"[{shown}] function takes {list(given)}, the operator's inputs are {cls.arguments}"
            )

    @classmethod
    def _check_expression(cls) -> None:
        if isinstance(getattr(cls, "name", None), str) and cls.expression is SimpleOp.expression:
            near = difflib.get_close_matches(
                "function", [name for name in vars(cls) if name != "gradient_function"], 1
            )
            guess = f"; did you mean it with {near[0]!r}?" if near else ""
            raise PluginError(
                f"[{cls.name}] {cls.__qualname__} has no `function`; write function(self, p, data, ...){guess}"
            )

    def __init__(self) -> None:
        self._traced: dict[tuple[Any, ...], Expression] = {}
        self._backward: dict[tuple[Any, ...], tuple[tuple[str, ...], Expression]] = {}

    def expression(self, p: P) -> Expression:
        """The traced function; traced once per set of fixed parameters."""
        return _remembered(self._traced, p.key, lambda: self._trace(p))

    def _trace(self, p: P) -> Expression:
        return traced(self, p, self.function, self.arguments, self.outputs(p))

    def backward_arguments(self, p: P) -> tuple[str, ...]:
        """What the backward operator takes: out_grad, then output and inputs that are kept."""
        return _remembered(self._backward, p.key, lambda: self._trace_backward(p))[0]

    def backward_expression(self, p: P) -> Expression:
        """From `backward_arguments` to one gradient per input."""
        return _remembered(self._backward, p.key, lambda: self._trace_backward(p))[1]

    def _trace_backward(self, p: P) -> tuple[tuple[str, ...], Expression]:
        if self.gradient_function is None:
            return _derived(self, differentiate(self.expression(p)))
        names = tuple(inspect.signature(self.gradient_function).parameters)[1:]
        allowed = {"out_grad", "output", *self.arguments}
        if not names or names[0] != "out_grad" or not set(names) <= allowed:
            raise PluginError(
                f"[{self.name}] gradient_function takes {names}; expected out_grad first, then any of "
                f"{sorted(allowed - {'out_grad'})}"
            )
        gradients = [f"{name}_grad" for name in self.arguments]
        return names, traced(self, p, self.gradient_function, names, gradients)

    @property
    def backward_name(self) -> str:
        """Name of the backward operator."""
        return f"_backward_{self.name}"

    def backward_operator(self) -> Operator[Any] | None:
        """`_backward_NAME`, when there is a gradient."""
        from mx_core.operator.derivative import backward_class

        return backward_class(self)() if self.differentiable else None

    def gradient(self, p: P, g: GradientBuilder) -> Gradients:
        """One application of `_backward_NAME`, summed back where inputs were broadcast.

        Where every input's gradient is the out-gradient itself, as those of a sum, it is passed on.
        """
        if not self.differentiable:
            return None
        entries = {"out_grad": g.out_grad(), "output": g.output()}
        entries |= dict(zip(self.arguments, g.inputs, strict=True))
        kept = self.backward_arguments(p)
        grads: Sequence[Entry]
        if set(self.backward_expression(p).outputs) == {kept.index("out_grad")}:
            grads = [g.out_grad()] * len(self.arguments)  # passed on unchanged: nothing to compute
        else:
            grads = g.op(self.backward_name, [entries[name] for name in kept], params=p)
        if not self.broadcast:
            return grads
        return [g.op("_unbroadcast", pair)[0] for pair in zip(grads, g.inputs, strict=True)]


T = TypeVar("T")


def _remembered(table: dict[tuple[Any, ...], T], key: tuple[Any, ...], make: Callable[[], T]) -> T:
    found = table.get(key)
    if found is None:
        if len(table) >= 256:  # of operators called with ever new fixed parameters
            table.clear()
        found = table[key] = make()
    return found


def _derived(op: SimpleOp[Any], full: Expression) -> tuple[tuple[str, ...], Expression]:
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
