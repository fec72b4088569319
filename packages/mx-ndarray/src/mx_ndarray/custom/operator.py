# SPDX-License-Identifier: Apache-2.0
"""The declarations of `Custom` and its backward operator: how graphs know custom operators."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from mx_core import dtypes
from mx_core.errors import MXNetError
from mx_core.kernels import KernelCall, PythonKernel
from mx_core.operator import (
    Array,
    GradientBuilder,
    Gradients,
    Operator,
    ReferenceContext,
    Shapes,
    Types,
)
from mx_core.signals import let_pass
from mx_core.weak import WeakTable
from mx_ndarray.creation import array
from mx_ndarray.custom.params import COUNT, CustomParams
from mx_ndarray.custom.property import CustomOp
from mx_ndarray.custom.running import create, run_backward, run_forward

#: operators that programs keep, by the number that their forward node hands to its backward node
_alive: WeakTable[int, CustomOp] = WeakTable()
_numbers = itertools.count(1)
STATE = "__operator_number"


def dependencies(p: CustomParams) -> tuple[list[int], list[int], list[int]]:
    """Positions of the out-gradients, inputs and outputs that backward reads."""
    n_out, n_in = len(p.prop.list_outputs()), len(p.prop.list_arguments())
    ends = (n_out, n_out + n_in, 2 * n_out + n_in)
    numbers = [list(range(a, b)) for a, b in zip((0, *ends), ends, strict=False)]
    declared = set(p.prop.declare_backward_dependency(*numbers))
    if not declared <= set(range(ends[-1])):
        raise MXNetError(
            f"[Custom] {p.op_type!r}: declare_backward_dependency gave {sorted(declared)}; "
            f"expected numbers from {numbers}"
        )
    heads, inputs, outputs = ([k for k, n in enumerate(part) if n in declared] for part in numbers)
    return heads, inputs, outputs


class Custom(Operator[CustomParams]):
    """An operator written in Python, found by its `op_type`.

    Inputs, auxiliary states, outputs, shapes and types are what its property says; other
    arguments go to the property's constructor, as text.
    """

    name = "Custom"
    aliases = ("_npi_Custom",)
    variadic: ClassVar[str | None] = COUNT
    needs_train_flag = True
    keeps_state = True

    def inputs(self, p: CustomParams) -> tuple[str, ...]:
        """As the property lists them."""
        return tuple(p.prop.list_arguments())

    def aux(self, p: CustomParams) -> tuple[str, ...]:
        """As the property lists them."""
        return tuple(p.prop.list_auxiliary_states())

    def outputs(self, p: CustomParams) -> tuple[str, ...]:
        """As the property lists them, and a number by which backward finds the operator."""
        return (*p.prop.list_outputs(), STATE)

    def num_visible_outputs(self, p: CustomParams) -> int:
        """All but the number."""
        return len(p.prop.list_outputs())

    def infer_shape(self, p: CustomParams, s: Shapes) -> None:
        """Asks the property; what it cannot infer yet stays unknown."""
        s.assign(STATE, (1,))
        shapes = [s.get(name) for name in self.inputs(p)]
        known = [[] if shape is None else [max(extent, 0) for extent in shape] for shape in shapes]
        complete = all(s.known(name) is not None for name in self.inputs(p))
        found = _ask(p, "infer_shape", known, complete)
        names = self._parts(p)
        for values, part in zip(found, names, strict=False):
            for name, shape in zip(part, values, strict=True):
                if complete or len(shape) and 0 not in shape:
                    s.assign(name, tuple(shape))

    def infer_type(self, p: CustomParams, t: Types) -> None:
        """Asks the property once the first type is known."""
        t.assign(STATE, np.int64)
        codes = [t.get(name) for name in self.inputs(p)]
        known = [None if code is None else dtypes.numpy_dtype(code).type for code in codes]
        found = _ask(p, "infer_type", known, None not in codes)
        for values, part in zip(found, self._parts(p), strict=False):
            for name, dtype in zip(part, values, strict=True):
                t.assign(name, dtype)

    def _parts(self, p: CustomParams) -> tuple[tuple[str, ...], ...]:
        return self.inputs(p), tuple(p.prop.list_outputs()), self.aux(p)

    def gradient(self, p: CustomParams, g: GradientBuilder) -> Gradients:
        """One operator; of what backward does not read only shapes are used."""
        kept_grads, kept_inputs, kept_outputs = dependencies(p)
        outputs = p.prop.list_outputs()
        data = [x if i in kept_inputs else g.op("zeros_like", (x,))[0] for i, x in enumerate(g.inputs)]
        entries = [g.out_grad(outputs[i]) for i in kept_grads] + data
        entries += [g.output(outputs[i]) for i in kept_outputs]
        entries += [*map(g.input, self.aux(p)), g.output(STATE)]
        return g.op("_backward_Custom", entries, params=p)

    def backward_operator(self) -> BackwardCustom:
        """Written by hand: it runs the operator that the forward node keeps."""
        return BackwardCustom()

    def reference(self, p: CustomParams, inputs: Sequence[Array], ctx: ReferenceContext) -> Sequence[Array]:
        """Never asked: its kernel is `forward_kernel`, which keeps the operator."""
        raise MXNetError("[Custom] runs through its kernel only")


class BackwardCustom(Operator[CustomParams]):
    """Gradients of a custom operator: out-gradients, inputs, outputs, auxiliary states, number."""

    name = "_backward_Custom"
    variadic: ClassVar[str | None] = COUNT
    needs_train_flag = True

    def inputs(self, p: CustomParams) -> tuple[str, ...]:
        """What the gradient of Custom hands over."""
        kept_grads, _, kept_outputs = dependencies(p)
        outputs = p.prop.list_outputs()
        return (
            *(f"{outputs[i]}_grad" for i in kept_grads),
            *(f"{name}_in" for name in p.prop.list_arguments()),
            *(f"{outputs[i]}_out" for i in kept_outputs),
            *(f"{name}_aux" for name in p.prop.list_auxiliary_states()),
            STATE,
        )

    def outputs(self, p: CustomParams) -> tuple[str, ...]:
        """One gradient per input of Custom."""
        return tuple(f"{name}_gradient" for name in p.prop.list_arguments())

    def infer_shape(self, p: CustomParams, s: Shapes) -> None:
        """As the inputs of Custom."""
        for name in p.prop.list_arguments():
            s.unify([f"{name}_in", f"{name}_gradient"])

    def infer_type(self, p: CustomParams, t: Types) -> None:
        """As the inputs of Custom."""
        for name in p.prop.list_arguments():
            t.unify([f"{name}_in", f"{name}_gradient"])

    def gradient(self, p: CustomParams, g: GradientBuilder) -> Gradients:
        """Python code has no derivative."""
        return g.not_differentiable()

    def reference(self, p: CustomParams, inputs: Sequence[Array], ctx: ReferenceContext) -> Sequence[Array]:
        """Never asked: its kernel is `backward_kernel`."""
        raise MXNetError("[_backward_Custom] runs through its kernel only")


def _ask(p: CustomParams, rule: str, known: list[Any], complete: bool) -> Any:
    """The answer of a rule of the property; None if it raises because something is not known yet."""
    try:
        found = getattr(p.prop, rule)(known)
    except Exception as error:
        let_pass(error)
        if complete:
            raise
        return ()
    names = p.prop.list_arguments(), p.prop.list_outputs(), p.prop.list_auxiliary_states()
    expected = [len(part) for part in names]
    got = [len(part) for part in found] if isinstance(found, (tuple, list)) else None
    if got is None or got not in (expected, expected[:2]) or (len(got) == 2 and expected[2]):
        raise MXNetError(
            f"[Custom] {p.op_type!r}: {rule} must give {expected[0]} inputs, {expected[1]} "
            f"outputs and {expected[2]} auxiliary states, got {found!r}"
        )
    return found


def forward_kernel(call: KernelCall) -> PythonKernel:
    """A custom operator for one node of a program, which keeps it."""
    p: Any = call.params
    n_in = len(call.op.inputs(p))
    outputs = [(spec.shape, spec.dtype) for spec in call.outputs[:-1]]
    context = call.context
    op = create(p.prop, context, [(spec.shape, spec.dtype) for spec in call.inputs[:n_in]])
    number = next(_numbers)
    _alive[number] = op
    on_device = not context.device_type.startswith("cpu")

    def run(ctx: ReferenceContext, inputs: Sequence[Any]) -> Sequence[Any]:
        results = run_forward(op, context, inputs[:n_in], inputs[n_in:], outputs, ctx.is_train)
        handle = array([number], ctx=context, dtype="int64") if on_device else np.array([number])
        return [*results[: len(outputs)], handle, *results[len(outputs) :]]

    return run


def backward_kernel(call: KernelCall) -> PythonKernel:
    """The backward side: uses the operator that forward used."""
    p: Any = call.params
    kept_grads, kept_inputs, kept_outputs = dependencies(p)
    n_out, n_in = len(p.prop.list_outputs()), len(p.prop.list_arguments())
    grads = [(spec.shape, spec.dtype) for spec in call.outputs]
    context = call.context

    def run(ctx: ReferenceContext, inputs: Sequence[Any]) -> Sequence[Any]:
        op = _alive.get(int(inputs[-1][0]))
        if op is None:
            raise MXNetError(f"[_backward_Custom] {p.op_type!r}: forward has not run in this program")
        heads: list[Any] = [None] * n_out
        data: list[Any] = [None] * n_in
        results: list[Any] = [None] * n_out
        for k, i in enumerate(kept_grads):
            heads[i] = inputs[k]
        first = len(kept_grads)
        for i in kept_inputs:
            data[i] = inputs[first + i]
        first += n_in
        for k, i in enumerate(kept_outputs):
            results[i] = inputs[first + k]
        aux = inputs[first + len(kept_outputs) : -1]
        given = (heads, data, results)
        made = run_backward(op, context, given, aux, grads, [True] * n_in, ctx.is_train)
        return made[:n_in]

    return run
