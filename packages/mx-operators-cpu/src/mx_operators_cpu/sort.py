# SPDX-License-Identifier: Apache-2.0
"""sort, argsort, topk, and the gradients of what they take from data."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from mx_core.kernels import KernelCall
from mx_operators_cpu.library import native
from mx_operators_cpu.signature import plain, tensors


def _plan(call: KernelCall, data: int, results: Sequence[str], k: int | None = None) -> object:
    p: Any = call.params
    shape = call.inputs[data].shape
    if not plain(*call.inputs, *call.outputs) or prod(shape) == 0:
        return None
    if p.axis is None:
        outer, extent, inner = 1, prod(shape), 1
    else:
        axis = p.axis % len(shape)
        outer, extent, inner = prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])
    return native.order_plan(
        tensors(call.inputs), tensors(call.outputs), data=data, outer=outer, extent=extent, inner=inner,
        k=k if k is not None and k >= 1 else extent, ascending=p.is_ascend, results=results,
    )  # fmt: skip


def sort(call: KernelCall) -> object:
    """Values in order."""
    return _plan(call, 0, ["values"])


def argsort(call: KernelCall) -> object:
    """Their positions."""
    return _plan(call, 0, ["positions"])


def topk(call: KernelCall) -> object:
    """The first values, positions, both, or a mask of them."""
    p: Any = call.params
    results = {
        "both": ["values", "positions"],
        "indices": ["positions"],
        "mask": ["mask"],
        "value": ["values"],
    }
    return _plan(call, 0, results[p.ret_typ], p.k)


def backward_sort(call: KernelCall) -> object:
    """The gradient where the values came from."""
    return _plan(call, 1, ["scatter"])


def backward_topk(call: KernelCall) -> object:
    """The gradient where the values came from, else zero."""
    p: Any = call.params
    return _plan(call, 1, ["scatter"], p.k)
