# SPDX-License-Identifier: Apache-2.0
"""The values that `backward` keeps, as stated by the names of its arguments.

After `p` an operator's `backward` takes, in the order in which its backward operator has its inputs:

- `out_grad`: the gradient of the first output; `NAME_grad`: that of the output NAME
- the name of an input, an auxiliary state or an output, hidden ones included
- `out_grads`, `outputs`: sequences with an array per visible output; `inputs`: with one per input
- `ctx`: the ReferenceContext, which is no array

An argument with a default is kept where there is a tensor of its name. One annotated `ShapeOnly`, or
`Sequence[ShapeOnly]`, is read for its shape and type alone.
"""

from __future__ import annotations

import inspect
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from mx_core.errors import PluginError
from mx_core.operator.gradient import Entry

if TYPE_CHECKING:
    from collections.abc import Callable

    from mx_core.operator.declaration import Operator
    from mx_core.operator.params import Params

#: arguments that stand for any number of tensors
SEVERAL = ("out_grads", "inputs", "outputs")


class Argument(NamedTuple):
    """An argument of `backward`."""

    name: str
    optional: bool
    shape_only: bool


class Tensor(NamedTuple):
    """An input of a backward operator: its name, the argument it belongs to, and what it is to the forward operator."""

    name: str
    argument: str
    entry: Entry
    #: the forward operator's tensor whose shape and type it has
    like: str
    shape_only: bool


def arguments(backward: Callable[..., Any]) -> tuple[Argument, ...]:
    """What a class's `backward` takes after `self` and `p`."""
    taken = list(inspect.signature(backward).parameters.values())[2:]
    return tuple(
        Argument(
            a.name,
            a.default is not inspect.Parameter.empty,
            re.search(r"\bShapeOnly\b", str(a.annotation)) is not None,
        )
        for a in taken
    )


def check(cls: type[Operator[Any]]) -> None:
    """Raises unless every argument of `backward` has a known name.

    Raises
    ------
    PluginError  the message has the names there are
    """
    allowed = {"ctx", "out_grad", *SEVERAL, *cls.arguments, *cls.auxiliaries, *cls.results}
    allowed |= {f"{name}_grad" for name in cls.results}
    if cls.variadic is not None:
        allowed |= {a.name for a in cls.kept_arguments if re.fullmatch(r"arg\d+", a.name)}
    unknown = [a.name for a in cls.kept_arguments if a.name not in allowed]
    if unknown:
        raise PluginError(
            f"[{cls.name}] backward takes {', '.join(unknown)}; arguments of backward must be among: "
            + ", ".join(sorted(allowed))
            + "; `arguments`, `auxiliaries` and `results` of the class name the tensors, also where "
            "`inputs(p)`, `aux(p)` or `outputs(p)` choose among them"
        )


def takes_context(op: Operator[Any]) -> bool:
    """Whether `backward` asks for the ReferenceContext."""
    return any(a.name == "ctx" for a in op.kept_arguments)


def present(op: Operator[Any], p: Params) -> tuple[str, ...]:
    """Names of the arguments that are kept: all that are not optional, and those there are."""
    there = {*op.inputs(p), *op.aux(p), *op.outputs(p), *SEVERAL}
    there |= {f"{name}_grad" for name in op.outputs(p)}
    return tuple(a.name for a in op.kept_arguments if a.name != "ctx" and (not a.optional or a.name in there))


@lru_cache(maxsize=4096)
def tensors(op: Operator[Any], p: Params) -> tuple[Tensor, ...]:
    """The inputs of the backward operator of `op`, in order."""
    inputs, outputs = op.inputs(p), op.outputs(p)
    visible = outputs[: op.num_visible_outputs(p)]
    entries = {name: Entry("output", i) for i, name in enumerate(outputs)}
    entries |= {name: Entry("input", i) for i, name in enumerate((*inputs, *op.aux(p)))}
    heads = {f"{name}_grad": (Entry("out_grad", i), name) for i, name in enumerate(outputs)}
    known = {name: (entry, name) for name, entry in entries.items()} | heads
    several = {"inputs": inputs, "outputs": visible, "out_grads": tuple(f"{name}_grad" for name in visible)}
    marked = {a.name for a in op.kept_arguments if a.shape_only}
    made = []
    for argument in op.kept(p):
        if argument == "out_grad":
            made.append(Tensor("out_grad", argument, Entry("out_grad", 0), outputs[0], argument in marked))
            continue
        for name in several.get(argument, (argument,)):
            if name not in known:
                raise PluginError(f"[{op.name}] backward keeps {name!r}, which does not exist with {p!r}")
            made.append(Tensor(name, argument, *known[name], argument in marked))
    return tuple(made)
