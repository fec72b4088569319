# SPDX-License-Identifier: Apache-2.0
"""The optimizer steps that most training runs take, in float32, of one weight or many in one plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from mx_core import dtypes
from mx_core.kernels import KernelCall
from mx_operators_cpu.library import native
from mx_operators_cpu.signature import plain, tensors

#: number, run-time scalar, input, element of the input: one of the first three counts
Setting: TypeAlias = tuple[float, int | None, int | None, int]
_FLOAT = dtypes.code("float32")
_SGD = ("lr", "wd", "rescale_grad", "clip_gradient")
_ADAM = (*_SGD, "beta1", "beta2", "epsilon")
#: update of one weight -> native rule, its settings in order
_RULES = {
    "sgd_update": ("sgd", _SGD), "sgd_mom_update": ("momentum", (*_SGD, "momentum")),
    "adam_update": ("adam", _ADAM), "_adamw_update": ("adamw", (*_ADAM, "eta")),
}  # fmt: skip


def number(value: float) -> Setting:
    """A setting that is fixed."""
    return (float(value), None, None, 0)


def element(source: int, index: int = 0) -> Setting:
    """A setting that is an element of an input."""
    return (0.0, None, source, index)


def scalars(call: KernelCall) -> dict[str, Setting]:
    """The run-time parameters of the operator."""
    own = [info.name for info in call.params.fields() if info.runtime]
    return {name: (0.0, i, None, 0) for i, name in enumerate(own)}


def steps(call: KernelCall, rule: str, width: int, settings: Sequence[Mapping[str, Setting]]) -> object:
    """A step of each weight, which brings `width` arrays; None for other rules and types."""
    specs = (*call.inputs, *call.outputs)
    if rule not in _RULES or not plain(*specs) or any(spec.dtype != _FLOAT for spec in specs):
        return None
    step, names = _RULES[rule]
    updates = [(i * width, i, [given[name] for name in names]) for i, given in enumerate(settings)]
    return native.update_plan(
        tensors(call.inputs), tensors(call.outputs), rule=step, updates=updates,
        n_scalars=len(call.params.scalars),
    )  # fmt: skip


def step(call: KernelCall) -> object:
    """The step of one weight; the scale of AdamW is its last input."""
    given = scalars(call)
    if "rescale_grad" not in given:
        given["rescale_grad"] = element(len(call.inputs) - 1)
    return steps(call, call.op.name, len(call.inputs), [given])
