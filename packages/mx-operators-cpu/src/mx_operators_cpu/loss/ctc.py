# SPDX-License-Identifier: Apache-2.0
"""Connectionist temporal classification."""

from __future__ import annotations

from typing import Any

from mx_core.kernels import KernelCall
from mx_operators_cpu.composite import Composite, traced
from mx_operators_cpu.library import native
from mx_operators_cpu.signature import real, tensors


def ctc_loss(call: KernelCall) -> object:
    """Losses, and their slopes."""
    p: Any = call.params
    if not real(call):
        return None
    place = {name: i for i, name in enumerate(call.op.inputs(p))}
    return native.ctc_plan(
        tensors(call.inputs), tensors(call.outputs), blank_first=p.blank_label == "first",
        data_lengths=place.get("data_lengths"), label_lengths=place.get("label_lengths"),
    )  # fmt: skip


def _product(head: Any, slope: Any) -> Any:
    return head * slope


def backward_ctc_loss(call: KernelCall) -> object:
    """The slopes, scaled per sequence."""
    if not real(call):
        return None
    made = Composite(call)
    batch = call.inputs[0].shape[0]
    made.evaluate(traced(_product, 2), [0, 1], [made.output(0)], shapes=[(1, batch, 1), None])
    return made.plan()
