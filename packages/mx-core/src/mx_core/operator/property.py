# SPDX-License-Identifier: Apache-2.0
"""OperatorProperty: what an operator means, declared once.

Source: MXNet's OperatorProperty (operator interface notes); kernels live elsewhere.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from mx_core.errors import ArgumentError, MXNetError
from mx_core.operator.params import NoParams, Params

if TYPE_CHECKING:
    from mx_core.context import Context
    from mx_core.operator.gradient import Entry, GradientBuilder
    from mx_core.operator.infer import Shapes, Types

#: inputs or outputs of one operator application
MAX_TENSORS = 65_536


@dataclass(frozen=True)
class ReferenceContext:
    """What a reference (or any kernel written in Python) is told besides arrays."""

    is_train: bool = False
    scalars: tuple[float, ...] = ()
    random_key: int = 0
    random_offset: int = 0


class OperatorProperty:
    """Semantics of one operator; registered as a class, used through one shared instance.

    Methods get the parameters `p` since names and rules may depend on them. Inputs, auxiliary
    states and outputs are known by name in the inference rules, by position elsewhere.
    """

    name: ClassVar[str]
    aliases: ClassVar[tuple[str, ...]] = ()
    #: a class made with `@param`
    Param: ClassVar[Any] = NoParams
    #: every input there can be, in order
    arguments: ClassVar[tuple[str, ...]] = ("data",)
    auxiliaries: ClassVar[tuple[str, ...]] = ()
    results: ClassVar[tuple[str, ...]] = ("output",)
    #: per input, attributes of the variable that a symbol makes when it is not given (`__init__`)
    input_attrs: ClassVar[Mapping[str, Mapping[str, str]]] = {}
    #: the parameter that counts the inputs of an operator that takes any number
    variadic: ClassVar[str | None] = None
    #: inputs of which only shape and type are read
    shape_only_inputs: ClassVar[frozenset[int]] = frozenset()
    is_random: ClassVar[bool] = False
    dynamic_output: ClassVar[bool] = False
    #: every tensor is of a floating-point type
    floating_only: ClassVar[bool] = False
    #: the kernel behaves differently in training
    needs_train_flag: ClassVar[bool] = False
    #: a loss: backward starts here and out-gradients are not read
    is_loss: ClassVar[bool] = False
    #: the operator that brought this one with it (see `companions`); the operator table sets it
    companion_of: OperatorProperty | None = None

    # ---- structure ----

    def inputs(self, p: Params) -> tuple[str, ...]:
        """Names of the inputs."""
        if self.variadic is not None:
            n = getattr(p, self.variadic)
            if n > MAX_TENSORS:
                raise ArgumentError(f"[{self.name}] {self.variadic}: expected at most {MAX_TENSORS}, got {n}")
            return tuple(f"arg{i}" for i in range(n))
        return self.arguments

    def aux(self, p: Params) -> tuple[str, ...]:
        """Names of the auxiliary states, which follow the inputs and are mutated."""
        return self.auxiliaries

    def outputs(self, p: Params) -> tuple[str, ...]:
        """Names of the outputs, hidden ones last."""
        return self.results

    def num_visible_outputs(self, p: Params) -> int:
        """How many outputs a caller sees; the rest is kept for backward."""
        return len(self.outputs(p))

    def mutated_inputs(self, p: Params) -> tuple[int, ...]:
        """Indices of inputs that are written as well (optimizer states)."""
        return ()

    def companions(self) -> tuple[OperatorProperty, ...]:
        """Operators that come with this one (its backward operator)."""
        return ()

    # ---- inference ----

    def infer_shape(self, p: Params, s: Shapes) -> None:
        """Mutual rule, called until nothing changes; by default all shapes are equal."""
        s.unify([*self.inputs(p), *self.aux(p), *self.outputs(p)])

    def infer_type(self, p: Params, t: Types) -> None:
        """Mutual rule, called until nothing changes; by default all types are equal."""
        t.unify([*self.inputs(p), *self.aux(p), *self.outputs(p)])

    # ---- gradient and memory ----

    def gradient(self, p: Params, g: GradientBuilder) -> Sequence[Entry | None] | None:
        """Per input (auxiliary states excluded) an entry or None for zero."""
        return None

    def inplace(self, p: Params) -> tuple[tuple[int, int], ...]:
        """Pairs (input, output) that may share memory."""
        return ()

    def random_blocks(self, p: Params, output_shapes: Sequence[tuple[int, ...]]) -> int:
        """Philox counters one run takes (each four 32-bit words)."""
        return 0

    # ---- computation ----

    def in_main_memory(self, p: Params, context: Context) -> Params | None:
        """Parameters with which a node on a device is computed in main memory; None: it is computed on the device.

        Graphs then copy what it reads and writes. For operators whose code runs on the processor wherever their
        arrays lie.
        """
        return None

    def reference(self, p: Params, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """The operator in readable NumPy.

        Parameters
        ----------
        inputs : sequence of ndarray
            Auxiliary states last. Read only.

        Returns
        -------
        sequence of ndarray
            Outputs, then new values of auxiliary states, then of `mutated_inputs`.
        """
        raise MXNetError(f"[{self.name}] has no reference implementation")

    # ---- generated ----

    def signature(self) -> inspect.Signature:
        """Signature of the generated Python function: inputs, then parameters."""
        return _signature(self)

    def doc(self) -> str:
        """Docstring of the generated Python function (NumPy sections)."""
        return _doc(self)

    def __repr__(self) -> str:
        return f"<operator {self.name}>"


def _signature(op: OperatorProperty) -> inspect.Signature:
    kinds = inspect.Parameter
    parameters = []
    if op.variadic is not None:
        parameters.append(kinds("data", kinds.VAR_POSITIONAL))
        after: Any = kinds.KEYWORD_ONLY
    else:
        names = [*op.arguments, *op.auxiliaries]
        parameters += [kinds(n, kinds.POSITIONAL_OR_KEYWORD, default=None) for n in names]
        after = kinds.POSITIONAL_OR_KEYWORD
    taken = {parameter.name for parameter in parameters}
    for info in op.Param.fields():
        if info.name not in taken:
            default = None if info.required else info.default
            parameters.append(kinds(info.name, after, default=default))
    for name in ("out", "name"):
        if name not in taken | {f.name for f in op.Param.fields()}:
            parameters.append(kinds(name, after, default=None))
    parameters.append(kinds("kwargs", kinds.VAR_KEYWORD))
    return inspect.Signature(parameters)


def _doc(op: OperatorProperty) -> str:
    lines = [inspect.getdoc(type(op)) or f"The operator {op.name}.", "", "Parameters", "----------"]
    if op.variadic is not None:
        lines += ["*data : arrays", "    The inputs."]
    else:
        lines += [f"{name} : array" for name in (*op.arguments, *op.auxiliaries)]
    for info in op.Param.fields():
        tail = "required" if info.required else f"default {info.default!r}"
        lines += [f"{info.name} : {info.type_name}, {tail}", f"    {info.doc}"]
    lines += ["out : array or list of arrays, optional", "    Where to put the result."]
    lines += ["", "Returns", "-------", ", ".join(op.results)]
    if op.aliases:
        lines += ["", "Also known as " + ", ".join(op.aliases) + "."]
    return "\n".join(lines)
