# SPDX-License-Identifier: Apache-2.0
"""Operator: what an operator means, declared once.

Source: MXNet's OperatorProperty (operator interface notes); kernels live elsewhere.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, get_origin

from mx_core.errors import ArgumentError, MXNetError, PluginError
from mx_core.operator import kept_values, validation
from mx_core.operator.knowledge import keeping_shape
from mx_core.operator.params import NoParams, Params
from mx_core.operator.signature import docstring_of, signature_of

if TYPE_CHECKING:
    from mx_core.operator.arrays import Array
    from mx_core.operator.gradient import GradientBuilder, Gradients
    from mx_core.operator.knowledge import Shapes, Types
    from mx_core.plugins.registries import Entry

P = TypeVar("P", bound=Params)

#: inputs or outputs of one operator application
MAX_TENSORS = 65_536


@dataclass(frozen=True)
class ReferenceContext:
    """What a reference (or any kernel written in Python) gets besides arrays."""

    is_train: bool = False
    scalars: tuple[float, ...] = ()
    random_key: int = 0
    random_offset: int = 0


class Operator(Generic[P]):
    """Semantics of one operator; registered as a class, used through one shared instance.

    `Operator[LayerNormParam]` says of which class the parameters `p` are that every method gets,
    since names and rules may depend on them; plain `Operator` has no parameters. Inputs, auxiliary
    states and outputs have names in the rules and in `backward`, positions in `reference`.

    `arguments` names all inputs there can be, `auxiliaries` all auxiliary states, `results` all outputs,
    and `hidden` the outputs that callers do not see. Where parameters decide, `inputs(p)`, `aux(p)` and
    `outputs(p)` return the part that there is. The defaults are one input `data` and one output `output`.

    An operator says what its gradient is in one of three ways: it has `backward`, or `gradient`, or
    `differentiable = False`. A class with a name and none of them is a PluginError.
    """

    name: ClassVar[str]
    aliases: ClassVar[tuple[str, ...]] = ()
    #: the class of the parameters; the type argument sets it
    Param: ClassVar[Any] = NoParams
    #: every input there can be, in order
    arguments: ClassVar[tuple[str, ...]] = ("data",)
    #: every auxiliary state there can be, in order: arrays that follow the inputs and are written
    auxiliaries: ClassVar[tuple[str, ...]] = ()
    #: every output there can be, in order, hidden ones last
    results: ClassVar[tuple[str, ...]] = ("output",)
    #: results that callers do not see: they are kept for backward
    hidden: ClassVar[tuple[str, ...]] = ()
    #: per input, attributes of the variable that a symbol makes when it is not given (`__init__`)
    input_attrs: ClassVar[Mapping[str, Mapping[str, str]]] = {}
    #: the parameter that counts the inputs of an operator that takes any number
    variadic: ClassVar[str | None] = None
    #: inputs of which only shape and type are read
    shape_only: ClassVar[tuple[str, ...]] = ()
    #: pairs (input index, output index) that may share memory
    inplace_pairs: ClassVar[tuple[tuple[int, int], ...]] = ()
    #: tensors that always have the same element type, with that type
    fixed_types: ClassVar[Mapping[str, str]] = {}
    #: inputs of any element type, with a default: an element type, or the tensor whose type is used
    free_types: ClassVar[Mapping[str, str | None]] = {}
    is_random: ClassVar[bool] = False
    dynamic_output: ClassVar[bool] = False
    #: a run leaves in its kernel what the run of its backward operator needs
    keeps_state: ClassVar[bool] = False
    #: tensors that are of a floating-point type, by name; True: all are. Its backward operator's are, too
    floating_only: ClassVar[bool | tuple[str, ...]] = False
    #: the kernel behaves differently in training
    needs_train_flag: ClassVar[bool] = False
    #: a loss: backward starts here and out-gradients are not read
    is_loss: ClassVar[bool] = False

    #: False: the gradient is zero everywhere (comparisons, indices, random numbers)
    differentiable: ClassVar[bool] = True
    #: inputs whose gradient is on purpose not the derivative of the outputs, by name; True: all. As with `BlockGrad`,
    #: straight-through estimators and updates of weights
    custom_gradient: ClassVar[bool | tuple[str, ...]] = False
    #: inputs whose gradient is zero, such as labels and indices
    without_gradient: ClassVar[tuple[str, ...]] = ()
    #: the output is linear in the inputs that have a gradient, so the operator itself is its backward
    #: operator's gradient with respect to the out-gradient
    linear: ClassVar[bool] = False
    #: the gradients, in NumPy: `backward(self, p, out_grad, data, ...)`. The names of the arguments say
    #: what is kept, see `mx_core.operator.kept_values`
    backward: ClassVar[Callable[..., Array | Sequence[Array]] | None] = None
    #: the arguments of `backward`
    kept_arguments: ClassVar[tuple[kept_values.Argument, ...]] = ()
    #: the operator whose gradients this one computes; the operator table sets it
    backward_of: Operator[Any] | None = None
    #: who registered it, or what it is the gradient of, if that is not a distribution of the project; the operator
    #: table sets it
    brought_by: Entry | None = None

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        for base in cls.__dict__.get("__orig_bases__", ()):
            if issubclass(get_origin(base) or object, Operator):
                cls.Param = validation.params_of(cls, base) or cls.Param
        validation.check_names(cls)
        cls._derive()
        validation.check_tensors(cls, Operator)
        if cls.backward is not None:
            cls.kept_arguments = kept_values.arguments(cls.backward)
        if isinstance(getattr(cls, "name", None), str):
            cls._check_gradient()

    @classmethod
    def _derive(cls) -> None:
        """Sets the attributes that follow from others of the class."""

    @classmethod
    def _check_gradient(cls) -> None:
        if cls.backward is not None:
            kept_values.check(cls)
        elif cls.differentiable and cls.gradient is Operator.gradient:
            raise PluginError(
                f"[{cls.name}] {cls.__qualname__} does not say what its gradient is: write `backward` or "
                "`gradient`, or set `differentiable = False` if it is zero"
            )

    # ---- structure ----

    def inputs(self, p: P) -> tuple[str, ...]:
        """Names of the inputs."""
        if self.variadic is not None:
            n = getattr(p, self.variadic)
            if n > MAX_TENSORS:
                raise ArgumentError(f"[{self.name}] {self.variadic}: expected at most {MAX_TENSORS}, got {n}")
            return tuple(f"arg{i}" for i in range(n))
        return self.arguments

    def aux(self, p: P) -> tuple[str, ...]:
        """Names of the auxiliary states, which follow the inputs and are mutated."""
        return self.auxiliaries

    def outputs(self, p: P) -> tuple[str, ...]:
        """Names of the outputs, hidden ones last."""
        return self.results

    def num_visible_outputs(self, p: P) -> int:
        """How many outputs a caller sees; the rest is kept for backward."""
        return sum(name not in self.hidden for name in self.outputs(p))

    def mutated_inputs(self, p: P) -> tuple[int, ...]:
        """Indices of inputs that are written as well (optimizer states)."""
        return ()

    def shape_only_inputs(self, p: P) -> frozenset[int]:
        """Indices of inputs of which only shape and type are read."""
        if not self.shape_only:
            return frozenset()
        return frozenset(i for i, name in enumerate(self.inputs(p)) if name in self.shape_only)

    # ---- inference ----

    @keeping_shape
    def infer_shape(self, p: P, s: Shapes) -> None:
        """Mutual rule, called until nothing changes; by default all shapes are equal."""
        s.unify([*self.inputs(p), *self.aux(p), *self.outputs(p)])

    def infer_type(self, p: P, t: Types) -> None:
        """Mutual rule, called until nothing changes.

        By default all types are equal, except those in `fixed_types` and `free_types`.
        """
        tensors = [*self.inputs(p), *self.aux(p), *self.outputs(p)]
        fixed, free = self.fixed_types, self.free_types
        if not fixed and not free:
            t.unify(tensors)
            return
        t.unify([name for name in tensors if name not in fixed and name not in free])
        for name in tensors:
            if name in fixed:
                t.assign(name, fixed[name])
            elif name in free and t.get(name) is None:
                like = free[name]
                t.assign(name, t.get(like) if like in tensors else like)

    # ---- gradient ----

    def gradient(self, p: P, g: GradientBuilder) -> Gradients:
        """Entries by name of the input they are the gradient of; inputs that are left out have none.

        By default one application of the backward operator that is made of `backward`.
        """
        return g.backward() if self.backward is not None else {}

    def kept(self, p: P) -> tuple[str, ...]:
        """Which arguments of `backward` are kept with these parameters.

        By default all, but for those with a default that have no tensor of their name.
        """
        return kept_values.present(self, p)

    def differentiable_inputs(self, p: P) -> tuple[str, ...]:
        """Inputs whose gradients `backward` returns, in order; by default all but `without_gradient`."""
        return tuple(name for name in self.inputs(p) if name not in self.without_gradient)

    def backward_gradient(self, p: P, g: GradientBuilder) -> Gradients:
        """The gradient of the backward operator, as `gradient`; asking is an error where this is not written."""
        return g.linear() if self.linear else g.not_differentiable()

    def backward_inplace(self, p: P) -> tuple[tuple[int, int], ...]:
        """`inplace` of the backward operator."""
        return ()

    @property
    def backward_name(self) -> str:
        """Name of the backward operator."""
        return f"_backward_{self.name.lstrip('_')}"

    def backward_operator(self) -> Operator[Any] | None:
        """The operator that computes the gradients: the one made of `backward`, or None."""
        from mx_core.operator.backward import backward_class

        return backward_class(self)() if self.backward is not None else None

    # ---- memory ----

    def inplace(self, p: P) -> tuple[tuple[int, int], ...]:
        """Pairs (input index, output index) that may share memory; by default `inplace_pairs`."""
        return self.inplace_pairs

    def random_blocks(self, p: P, output_shapes: Sequence[tuple[int, ...]]) -> int:
        """Philox counters one run takes (each four 32-bit words)."""
        return 0

    # ---- computation ----

    def reference(self, p: P, inputs: Sequence[Array], ctx: ReferenceContext) -> Sequence[Array]:
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
        return signature_of(self)

    def doc(self) -> str:
        """Docstring of the generated Python function (NumPy sections)."""
        return docstring_of(self)

    def __repr__(self) -> str:
        return f"<operator {self.name}>"


def check_name(cls: type[Operator[Any]]) -> None:
    """Raises unless an operator class has a name.

    Raises
    ------
    PluginError  it has none, or one that is no text
    """
    name = getattr(cls, "name", None)
    if not isinstance(name, str) or not name:
        raise PluginError(
            f"operators: {cls.__module__}.{cls.__qualname__} has no name, got {name!r}; expected a text in the class, "
            f"such as name = {cls.__name__.lower()!r}"
        )
