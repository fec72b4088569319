# SPDX-License-Identifier: Apache-2.0
"""Random numbers by rejection, of parameters in arrays, and classes by weight."""

from __future__ import annotations

from math import prod
from typing import Any

from mx_core import dtypes
from mx_core.kernels import KernelCall
from mx_operators_cpu.library import native
from mx_operators_cpu.signature import plain, tensors

_DOUBLE = dtypes.code("float64")


def _variate(call: KernelCall) -> str:
    for lead in ("_random_", "_sample_"):
        if call.op.name.startswith(lead):
            return call.op.name.removeprefix(lead).removesuffix("_like")
    raise ValueError(f"[{call.op.name}] not a random operator")


def draw(call: KernelCall) -> object:
    """Numbers of one distribution."""
    if not plain(*call.inputs, *call.outputs):
        return None
    return native.variate_plan(
        tensors(call.inputs),
        tensors(call.outputs),
        op=call.op.name,
        variate=_variate(call),
        arrays=False,
        each=1,
    )


def sample(call: KernelCall) -> object:
    """`shape` numbers for every element of the parameters."""
    p: Any = call.params
    if not plain(*call.inputs, *call.outputs):
        return None
    return native.variate_plan(
        tensors(call.inputs), tensors(call.outputs), op=call.op.name, variate=_variate(call), arrays=True,
        each=prod(p.shape),
    )  # fmt: skip


def multinomial(call: KernelCall) -> object:
    """Classes by weight."""
    p: Any = call.params
    if not plain(*call.inputs, *call.outputs):
        return None
    data = call.inputs[0]
    rows = (prod(data.shape[:-1]), data.shape[-1])
    return native.multinomial_plan([(rows, data.dtype)], tensors(call.outputs), each=prod(p.shape))
