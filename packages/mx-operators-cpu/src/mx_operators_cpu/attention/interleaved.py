# SPDX-License-Identifier: Apache-2.0
"""Products of multi-head attention on interleaved projections."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mx_operators_cpu.library import native

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall


def _parts(call: KernelCall) -> dict[str, int]:
    p: Any = call.params
    return {"heads": p.heads, "parts": 3 if "selfatt" in call.op.name else 2}


def scores(call: KernelCall) -> object:
    """Queries times keys, scaled."""
    return native.attention_scores(call.inputs, call.outputs, **_parts(call))


def scores_backward(call: KernelCall) -> object:
    """Gradients of queries and keys; that of the values is zero."""
    return native.attention_scores_backward(call.inputs, call.outputs, **_parts(call))


def values(call: KernelCall) -> object:
    """Attention times values."""
    return native.attention_values(call.inputs, call.outputs, **_parts(call))


def values_backward(call: KernelCall) -> object:
    """Gradients of values and attention; those of queries and keys are zero."""
    return native.attention_values_backward(call.inputs, call.outputs, **_parts(call))
