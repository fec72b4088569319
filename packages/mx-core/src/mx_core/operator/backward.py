# SPDX-License-Identifier: Apache-2.0
"""Backward operators: made of `backward`, inferred through the operator they belong to.

A backward operator reads out-gradients, inputs and outputs of its forward operator. It is known
which is which, so the forward operator's own inference tells which shapes and types belong
together: kernels of backward operators may rely on it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, cast

from mx_core import dtypes
from mx_core.errors import DTypeError, MXNetError, OperatorError
from mx_core.operator import kept_values
from mx_core.operator.declaration import Operator, P, ReferenceContext
from mx_core.operator.gradient import GradientBuilder, Gradients, gradient_of
from mx_core.operator.knowledge import Shapes, State, Types

if TYPE_CHECKING:
    from mx_core.operator.arrays import Array
    from mx_core.operator.params import Params

_NARROW = (dtypes.code("float16"), dtypes.code("bfloat16"))


class BackwardOperator(Operator[P]):
    """The backward operator of an operator that has `backward`.

    It takes what `backward` keeps and gives a gradient per input that has one, of that input's shape and type.
    """

    forward: ClassVar[Operator[Any]]

    def __init__(self) -> None:
        self.backward_of = self.forward

    def inputs(self, p: P) -> tuple[str, ...]:
        """What is kept."""
        return tuple(tensor.name for tensor in kept_values.tensors(self.forward, p))

    def outputs(self, p: P) -> tuple[str, ...]:
        """NAME_grad for each input that has a gradient."""
        return tuple(f"{name}_grad" for name in self.forward.differentiable_inputs(p))

    def shape_only_inputs(self, p: P) -> frozenset[int]:
        """Of arguments annotated `ShapeOnly`."""
        return frozenset(i for i, t in enumerate(kept_values.tensors(self.forward, p)) if t.shape_only)

    def infer_shape(self, p: P, s: Shapes) -> None:
        """Nothing of its own: see `infer_through_forward`."""

    def infer_type(self, p: P, t: Types) -> None:
        """Nothing of its own: see `infer_through_forward`."""

    def settle_types(self, p: P, t: Types) -> None:
        """Where nothing determines the type of a gradient, because its input is not kept, it is that of `_typical`."""
        tensors = kept_values.tensors(self.forward, p)
        for name in self.forward.differentiable_inputs(p):
            if tensors and t.get(f"{name}_grad") is None and all(tensor.like != name for tensor in tensors):
                t.assign(f"{name}_grad", t.get(_typical(tensors).name))

    def gradient(self, p: P, g: GradientBuilder) -> Gradients:
        """What the forward operator's `backward_gradient` says."""
        return self.forward.backward_gradient(p, g)

    def inplace(self, p: P) -> tuple[tuple[int, int], ...]:
        """What the forward operator's `backward_inplace` says."""
        return self.forward.backward_inplace(p)

    def reference(self, p: P, inputs: Sequence[Array], ctx: ReferenceContext) -> Sequence[Array]:
        """`backward`, computed of 16-bit floating point in float32, its results as the gradients' types."""
        import numpy as np

        from mx_core.operator.infer import infer_types

        given: dict[str, Any] = {name: [] for name in self.forward.kept(p) if name in kept_values.SEVERAL}
        for tensor, array in zip(kept_values.tensors(self.forward, p), inputs, strict=True):
            value = array if tensor.shape_only else _widened(array)
            if tensor.argument in given:
                given[tensor.argument].append(value)
            else:
                given[tensor.argument] = value
        if kept_values.takes_context(self.forward):
            given["ctx"] = ctx
        made = cast("Callable[..., Any]", self.forward.backward)(p, **given)
        grads = made if isinstance(made, (tuple, list)) else (made,)
        names = self.outputs(p)
        if len(grads) != len(names):
            raise MXNetError(
                f"[{self.forward.name}] backward gives {len(grads)} arrays for {', '.join(names)}"
            )
        for grad, name in zip(grads, names, strict=True):
            if grad is None:
                raise MXNetError(f"[{self.forward.name}] backward gives None for {name}; expected an array")
        try:
            types = infer_types(self, p, [dtypes.code(x.dtype) for x in inputs])[1]
        except DTypeError:  # computed in higher precision than the operator has, as checks of gradients do
            types = (None,) * len(names)
        return tuple(
            np.asarray(grad).astype(grad.dtype if code is None else dtypes.numpy_dtype(code), copy=False)
            for grad, code in zip(grads, types, strict=True)
        )


def _typical(tensors: Sequence[kept_values.Tensor]) -> kept_values.Tensor:
    """The first tensor that is an output or its gradient, else the first tensor."""
    return next((tensor for tensor in tensors if tensor.entry.kind != "input"), tensors[0])


def _widened(x: Array) -> Array:
    return x.astype("float32") if dtypes.code(x.dtype) in _NARROW else x


def backward_class(op: Operator[P]) -> type[BackwardOperator[P]]:
    """The class of the backward operator of `op`."""
    cls = type(op)
    names: list[str] = []
    several = {
        "inputs": cls.arguments, "outputs": cls.results, "out_grads": tuple(f"{n}_grad" for n in cls.results)
    }  # fmt: skip
    for argument in cls.kept_arguments:
        names += [] if argument.name == "ctx" else several.get(argument.name, (argument.name,))
    members = {
        "name": op.backward_name, "Param": cls.Param, "forward": op, "arguments": tuple(names),
        "results": tuple(f"{name}_grad" for name in cls.arguments if name not in cls.without_gradient),
        "needs_train_flag": cls.needs_train_flag and kept_values.takes_context(op),
        "__doc__": f"Gradient of {cls.name}.", "__module__": cls.__module__,
    }  # fmt: skip
    return type(f"Backward{cls.__name__.lstrip('_')}", (BackwardOperator,), members)


def infer_through_forward(op: Operator[Any], p: Params, state: State) -> None:
    """Runs the forward operator's rule for shapes or types on a backward operator's tensors.

    Raises
    ------
    ShapeError, DTypeError  they do not belong to one application of the forward operator
    """
    pairs = _pairs(op, p)
    if op.backward_of is None or pairs is None:
        return
    forward: Operator[Any] = op.backward_of
    tensors = [*forward.inputs(p), *forward.aux(p), *forward.outputs(p)]
    whole = type(state)(state.where, tensors, [None] * len(tensors))
    try:
        for mine, tensor in pairs:
            whole.assign(tensor, state.get(mine))
        while whole.changed:
            whole.changed = False
            whole.run(forward, p)
        for mine, tensor in pairs:
            state.assign(mine, whole.get(tensor))
        if isinstance(state, Types) and isinstance(op, BackwardOperator):
            op.settle_types(p, state)
    except OperatorError:
        raise
    except MXNetError as error:
        given = ", ".join(f"{mine} {state.get(mine)}" for mine, _ in pairs)
        raise type(error)(f"{error}; {given} do not belong to one {forward.name}") from error
    if isinstance(whole, Types):
        whole.refuse_integers(forward)


def _pairs(op: Operator[Any], p: Params) -> list[tuple[str, str]] | None:
    """Tensors of a backward operator, and those of its forward operator that have their shape and type."""
    if isinstance(op, BackwardOperator):
        pairs = [(tensor.name, tensor.like) for tensor in kept_values.tensors(op.forward, p)]
        return pairs + [(f"{name}_grad", name) for name in op.forward.differentiable_inputs(p)]
    return _pairs_by_gradient(op, p)


def _pairs_by_gradient(op: Operator[Any], p: Params) -> list[tuple[str, str]] | None:
    """The same for a backward operator written by hand, taken from the gradient of its forward operator."""
    from mx_core.operator.simple import Elementwise

    forward = op.backward_of
    if forward is None or type(p) is not forward.Param or isinstance(op, Elementwise):
        return None
    entries = next(
        (n.inputs for n in gradient_of(forward, p).nodes if n.op == op.name and n.params == p), None
    )
    if entries is None:
        return None
    outputs = forward.outputs(p)
    tensors = (*forward.inputs(p), *forward.aux(p), *outputs)
    names = {"input": tensors, "output": outputs, "out_grad": outputs}
    return [
        (mine, names[entry.kind][entry.index])
        for mine, entry in zip([*op.inputs(p), *op.aux(p)], entries, strict=True)
        if entry.kind != "node"
    ]
