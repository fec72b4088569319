# SPDX-License-Identifier: Apache-2.0
"""The slow path of invocation: what happens once per call site and once per signature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from mx_core import dtypes, kernels
from mx_core.context import Context
from mx_core.errors import ArgumentError, NoKernelError, ShapeError
from mx_core.kernels import TensorSpec
from mx_core.operator import Operator, Params, infer_shapes, infer_types
from mx_core.operator.infer import Tensors, infer_outputs, tensors_of
from mx_ndarray import _core

Spec = tuple[tuple[int, ...], int]
Bounds = tuple[int | None, ...]

_CURE = "; to compute it in main memory, bring its inputs there with as_in_context(cpu())"
_CURE_WITHOUT_INPUTS = "; to make it in main memory, give ctx=cpu()"


class Binding(NamedTuple):
    """How the arguments of a call map to an operator.

    Arguments are numbered: positional ones first, then keywords in the order given.
    """

    params: Params
    #: argument number of each input, auxiliary states last
    inputs: tuple[int, ...]
    #: argument number of `out`, or −1
    out: int
    #: per argument, the index of the run-time scalar it sets, or −1
    runtime: tuple[int, ...]
    #: where to run when there is no input; None: the current context
    context: Context | None


def bind(op: Operator, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Binding:
    """Sorts the arguments of a generated function into inputs and parameters.

    Raises
    ------
    ArgumentError  unknown or missing argument; the message lists the possible ones
    TypeError      an input is not an NDArray, or an argument is given twice
    """
    values = [*args, *kwargs.values()]
    if op.variadic is not None:
        names, given = _bind_variadic(op, args, kwargs)
    else:
        names, given = _bind_positional(op, args, kwargs)
    arrays: dict[str, int] = {}
    attributes: dict[str, int] = {}
    out = -1
    context: Context | None = None
    fields = {info.name: info for info in op.Param.fields()}
    for name, number in given.items():
        value = values[number]
        if name in names:
            if value is not None:
                arrays[name] = number
                _expect_array(op, name, value)
        elif name == "out" and name not in fields:
            out = number
        elif name == "ctx" and value is not None:
            context = as_context(value)
            if name in fields:
                attributes[name] = number
        elif name != "ctx" and (name != "name" or name in fields):
            attributes[name] = number
    settings = {n: (str(context) if n == "ctx" else values[i]) for n, i in attributes.items()}
    if op.variadic is not None:
        settings[op.variadic] = len(arrays)
    params = op.Param.parse(settings, op=op.name)
    inputs = _order(op, params, names, arrays, len(args))
    scalars = [info.name for info in op.Param.fields() if info.runtime]
    runtime = [-1] * len(values)
    for name, number in attributes.items():
        info = fields.get(name)  # None: one that the parameter class takes beyond its fields
        if (
            info is not None
            and info.runtime
            and info.lower is None
            and info.upper is None
            and info.choices is None
        ):
            runtime[number] = scalars.index(name)
    return Binding(params, inputs, out, tuple(runtime), context)


def _bind_positional(
    op: Operator, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[tuple[str, ...], dict[str, int]]:
    names = (*op.arguments, *op.auxiliaries)
    order = [*names, *(i.name for i in op.Param.fields() if i.name not in names), "out", "name"]
    if len(args) > len(order):
        raise TypeError(f"[{op.name}] takes at most {len(order)} positional arguments, got {len(args)}")
    given = {order[i]: i for i in range(len(args))}
    for number, name in enumerate(kwargs, len(args)):
        if name in given:
            raise TypeError(f"[{op.name}] got multiple values for argument {name!r}")
        given[name] = number
        if isinstance(kwargs[name], _core.NDArrayBase) and name not in names and name != "out":
            possible = ", ".join(names)
            raise ArgumentError(f"[{op.name}] cannot find input {name!r}, possible inputs: {possible}")
    return names, given


def _bind_variadic(
    op: Operator, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[tuple[str, ...], dict[str, int]]:
    names = tuple(f"arg{i}" for i in range(len(args)))
    given = {name: i for i, name in enumerate(names)}
    extra = []
    for number, name in enumerate(kwargs, len(args)):
        given[name] = number
        if isinstance(kwargs[name], _core.NDArrayBase) and name != "out":
            extra.append(name)
    return (*names, *extra), given


def _expect_array(op: Operator, name: str, value: Any) -> None:
    if not isinstance(value, _core.NDArrayBase):
        kind = type(value).__name__
        cure = "convert with nd.array(...)"
        if kind == "Symbol":
            cure = "functions of nd have arrays only; in hybrid_forward(self, F, ...) call the one of F"
        raise TypeError(f"[{op.name}] {name}: expected an NDArray, got {kind}; {cure}")


def _order(
    op: Operator, params: Params, names: Sequence[str], arrays: Mapping[str, int], positional: int
) -> tuple[int, ...]:
    if op.variadic is not None:
        return tuple(arrays[name] for name in names)
    wanted = (*op.inputs(params), *op.aux(params))
    missing = [name for name in wanted if name not in arrays]
    unused = [name for name in arrays if name not in wanted]
    if len(missing) == len(unused) and all(arrays[name] < positional for name in unused):
        return tuple(sorted(arrays.values()))  # an input before them is left out with these parameters
    if missing:
        without = f"no_{missing[0]}"
        hint = f"; {without}=True does without it" if without in {f.name for f in op.Param.fields()} else ""
        raise ArgumentError(
            f"[{op.name}] input {missing[0]!r} is not given; expected inputs: {', '.join(wanted)}{hint}"
        )
    if unused:
        raise ArgumentError(
            f"[{op.name}] input {unused[0]!r} is not used with these parameters; expected inputs: "
            f"{', '.join(wanted)}"
        )
    return tuple(arrays[name] for name in wanted)


def as_context(value: Any) -> Context:
    """A context from one, or from its text `cpu(0)`."""
    if isinstance(value, Context):
        return value
    kind, _, rest = str(value).partition("(")
    number = rest.rstrip(")")
    if number and not number.isdecimal():
        raise ArgumentError(f"[Context] expected a context such as cpu(0), got {value!r}")
    return Context(kind, int(number) if number else 0)


@lru_cache(maxsize=256)
def make_context(type_id: int, device_id: int) -> Context:
    """The context of native type and id."""
    return Context(Context.devtype2str[type_id], device_id)


def scalar_params(op: Operator, value: Any) -> Params:
    """Parameters of a scalar operator (`_plus_scalar`)."""
    params: Params = op.Param.parse({"scalar": float(value)}, op=op.name)
    return params


#: member of parameters: others that differ from them in the shape of the result alone
_ALIKE = "_alike"


@lru_cache(maxsize=512)
def _unshaped(op: Operator, dtype: int) -> dict[str, Any]:
    """The members of the parameters of an operator without inputs, but for their shape."""
    settings: dict[str, Any] = {"shape": ()}
    if dtype >= 0:
        settings["dtype"] = dtypes.name(dtype)
    if op.name == "_full":
        settings["value"] = 0.0  # given as a run-time scalar by every call
    params: Params = op.Param.parse(settings, op=op.name)
    return vars(params) | {_ALIKE: params}


def shaped_params(op: Operator, shape: tuple[int, ...], dtype: int) -> Params:
    """Parameters of an operator without inputs; the type code -1 is the operator's own type.

    Native code has checked the shape, so that it is not parsed again.
    """
    params: Params = op.Param.__new__(op.Param)
    vars(params).update(_unshaped(op, dtype), shape=shape)
    return params


@lru_cache(maxsize=64)
def _progression(op: Operator, dtype: int) -> dict[str, Any]:
    """The members of the parameters of `_arange`, but for its numbers."""
    settings = {"start": 0.0, "stop": 0.0, "step": 1.0, "repeat": 1, "dtype": dtypes.name(dtype)}
    params: Params = op.Param.parse(settings, op=op.name)
    return vars(params) | {_ALIKE: params}


def progression_params(
    op: Operator, start: float, stop: float, step: float, repeat: int, dtype: int
) -> Params:
    """Parameters of `_arange`. Native code has checked the numbers, so that they are not parsed again."""
    params: Params = op.Param.__new__(op.Param)
    vars(params).update(_progression(op, dtype), start=start, stop=stop, step=step, repeat=repeat)
    return params


def part_params(op: Operator, begin: Bounds, end: Bounds, step: Bounds) -> Params:
    """Parameters of an operator on a part of an array; `step` is () where all are 1."""
    settings = {"begin": begin, "end": end} | ({"step": step} if step else {})
    params: Params = op.Param.parse(settings, op=op.name)
    return params


def dtype_codes() -> dict[Any, int]:
    """Type codes by name and, of the types that NumPy itself has, by type."""
    codes: dict[Any, int] = {name: code for code, name in enumerate(dtypes.NAMES)}
    own = [name for name in codes if name != "bfloat16"]
    return codes | {np.dtype(name).type: codes[name] for name in own}


class _Rule(NamedTuple):
    """What preparing a call needs and no shape changes."""

    tensors: Tensors
    #: of each output; 0 where the rule cannot tell
    types: tuple[int, ...]
    #: whether it takes random numbers
    draws: bool
    context: Context
    facts: _core.CallFacts


@lru_cache(maxsize=4096)
def _rule(
    op: Operator,
    params: Params,
    inputs: tuple[int, ...],
    outputs: tuple[int | None, ...] | None,
    context: tuple[int, int],
) -> _Rule:
    """The same for all calls with inputs, and given outputs, of these types."""
    tensors = tensors_of(op, params, len(inputs))
    given = (outputs or ())[: len(tensors.outputs)]
    given += (None,) * (len(tensors.outputs) - len(given))
    types = tuple([dtype or 0 for dtype in infer_types(op, params, inputs, given)[1]])
    draws = type(op).random_blocks is not Operator.random_blocks
    return _Rule(tensors, types, draws, make_context(*context), _facts(op, params))


def prepare(
    op: Operator,
    params: Params,
    inputs: tuple[tuple[int, ...], ...],
    types: tuple[int, ...],
    outputs: Sequence[Spec] | None,
    context: tuple[int, int],
    is_train: bool,
) -> tuple[_core.CallFacts, list[Spec], str, int, object, kernels.PythonKernel | None]:
    """Infers outputs and prepares the kernel of a new signature; native code calls this and makes the call.

    Parameters
    ----------
    inputs, types : shape and type code of each input
    outputs : shape and type code of the given visible ones, or None

    Returns
    -------
    What no shape changes, shape and type code of each output, what messages call the kernel, how many random blocks a
    run takes, and the kernel: a plan, or a Python function.
    """
    given = None if outputs is None else tuple([dtype for _, dtype in outputs])
    rule = _rule(op, vars(params).get(_ALIKE, params), types, given, context)
    shapes: Sequence[tuple[int, ...] | None]
    if outputs is None:
        shapes = infer_outputs(op, params, rule.tensors, inputs)
    elif rule.tensors.alike and len(outputs) == len(rule.types) and _all_of(inputs[0], inputs, outputs):
        shapes = [inputs[0]] * len(outputs)
    else:
        known: list[tuple[int, ...] | None] = [None] * len(rule.types)
        if not op.dynamic_output:
            known[: len(outputs)] = [shape for shape, _ in outputs][: len(known)]
        shapes = infer_shapes(op, params, inputs, known)[1]
    whole: Sequence[tuple[int, ...]] = [shape for shape in shapes if shape is not None and -1 not in shape]
    if len(whole) < len(shapes):
        whole = [_complete(op, *each) for each in zip(rule.tensors.outputs, shapes, strict=True)]
    made = list(zip(whole, rule.types, strict=True))
    given_specs = tuple(map(TensorSpec, inputs, types))
    made_specs = tuple(map(TensorSpec, whole, rule.types))
    prepared = _prepared(op, params, given_specs, made_specs, rule.context, is_train)
    blocks = op.random_blocks(params, [shape for shape, _ in made]) if rule.draws else 0
    kernel = _title(prepared.variant, prepared.plugin)
    return rule.facts, made, kernel, blocks, prepared.plan, prepared.function


def _complete(op: Operator, name: str, shape: tuple[int, ...] | None) -> tuple[int, ...]:
    """An inferred shape, () for one that the operator decides when it runs."""
    if shape is None or -1 in shape:
        if not op.dynamic_output:
            raise ShapeError(f"[{op.name}] {name}: the shape cannot be inferred, got {shape}")
        return ()
    return shape


def _all_of(shape: tuple[int, ...], inputs: Sequence[tuple[int, ...]], outputs: Sequence[Spec]) -> bool:
    """Whether all of them have a shape."""
    return all([each == shape for each in inputs]) and all([each == shape for each, _ in outputs])


@lru_cache(maxsize=4096)
def _facts(op: Operator, params: Params) -> _core.CallFacts:
    """What native code needs to know of a call and does not depend on shapes."""
    n_inputs = len(op.inputs(params))
    auxiliary = range(n_inputs, n_inputs + len(op.aux(params)))
    return _core.CallFacts(
        name=op.name,
        visible_outputs=op.num_visible_outputs(params),
        mutated=[*auxiliary, *op.mutated_inputs(params)],
        inplace=list(op.inplace(params)),
        n_scalars=len(params.scalars),
        dynamic_output=op.dynamic_output,
        shape_only=sorted(op.shape_only_inputs(params)),
    )


def prepare_call(
    op: Operator,
    params: Params,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    ctx: Context,
    is_train: bool = False,
    prepared: kernels.Prepared | None = None,
) -> object:
    """An operator call for one signature, as capsule `mx.call.v1`: what executors run.

    Parameters
    ----------
    inputs : auxiliary states last
    outputs : hidden ones last
    prepared : the kernel of this signature, where it has been prepared already

    Raises
    ------
    NoKernelError  nothing computes it on this device
    """
    prepared = _prepared(op, params, inputs, outputs, ctx, is_train, prepared)
    place = (ctx.device_typeid, ctx.device_id)
    given = [(spec.shape, spec.dtype) for spec in inputs]
    made = [(spec.shape, spec.dtype) for spec in outputs]
    blocks = op.random_blocks(params, [shape for shape, _ in made])
    kernel = _title(prepared.variant, prepared.plugin)
    plan, function = prepared.plan, prepared.function
    return _core.make_call(_facts(op, params), place, given, made, kernel, blocks, plan, function)


def _prepared(
    op: Operator,
    params: Params,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    ctx: Context,
    is_train: bool,
    prepared: kernels.Prepared | None = None,
) -> kernels.Prepared:
    """The kernel of a signature: `prepared`, or the one that is chosen."""
    try:
        if prepared is None:
            prepared = kernels.prepare(op, params, inputs, outputs, ctx, is_train)
    except NoKernelError as error:
        if _on_host(ctx):
            raise
        cure = _CURE if inputs else _CURE_WITHOUT_INPUTS
        raise NoKernelError(f"{str(error).rstrip('.')}{cure}") from None
    return prepared


@lru_cache(maxsize=4096)
def _title(variant: str, plugin: str) -> str:
    return f"kernel {variant!r} of plug-in {plugin!r}"


def _on_host(context: Context) -> bool:
    return context.device_type.startswith("cpu")


def device_name(type_id: int) -> str:
    """Name of a native device type."""
    return Context.devtype2str.get(type_id, f"type {type_id}")
