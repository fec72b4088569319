# SPDX-License-Identifier: Apache-2.0
"""Random numbers on Philox counters, and dropout."""

from __future__ import annotations

from typing import Any

from mx_core import dtypes
from mx_core.errors import ArgumentError
from mx_core.kernels import KernelCall
from mx_operators_cpu.library import native
from mx_operators_cpu.signature import FLOATS, plain, tensors


def _draw(call: KernelCall, distribution: str, **more: int) -> object:
    if not plain(*call.inputs, *call.outputs):
        return None
    return native.random_plan(
        tensors(call.inputs), tensors(call.outputs), op=call.op.name, distribution=distribution,
        blocks=call.random_blocks, **more,
    )  # fmt: skip


def uniform(call: KernelCall) -> object:
    """Uniform in [low, high)."""
    return _draw(call, "uniform") if call.outputs[0].dtype in FLOATS else None


def normal(call: KernelCall) -> object:
    """Normal with mean and standard deviation."""
    return _draw(call, "normal") if call.outputs[0].dtype in FLOATS else None


def exponential(call: KernelCall) -> object:
    """Exponential with a rate; 16-bit types are left to the reference."""
    wide = call.outputs[0].dtype in (dtypes.code("float32"), dtypes.code("float64"))
    return _draw(call, "exponential") if wide else None


def integers(call: KernelCall) -> object:
    """Integers in [low, high)."""
    p: Any = call.params
    if not -(2**63) <= p.low < p.high < 2**63:
        raise ArgumentError(f"[{call.op.name}] low {p.low} is not below high {p.high} in int64")
    return _draw(call, "integers", low=p.low, high=p.high)


def dropout(call: KernelCall) -> object:
    """Data with elements zeroed, and the scaled mask; shared masks are left to the reference."""
    p: Any = call.params
    if p.axes or not plain(*call.inputs, *call.outputs) or call.inputs[0].dtype not in FLOATS:
        return None
    active = call.is_train or p.mode == "always"
    return native.dropout_plan(
        tensors(call.inputs), tensors(call.outputs), p=p.p, active=active, blocks=call.random_blocks
    )
