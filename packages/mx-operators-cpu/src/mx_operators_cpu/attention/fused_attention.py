# SPDX-License-Identifier: Apache-2.0
"""Attention in one pass over queries, keys and values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mx_operators_cpu.library import native

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall


def fused_attention(call: KernelCall) -> object:
    """query, key, value -> output."""
    p: Any = call.params
    return native.fused_attention(call.inputs, call.outputs, heads=p.heads, scale=p.scale)
