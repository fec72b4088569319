# SPDX-License-Identifier: Apache-2.0
"""Stacks of recurrent layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mx_operators_cpu.onednn.library import native
from mx_operators_cpu.onednn.signature import specs

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall


def _stack(call: KernelCall) -> dict[str, Any]:
    p: Any = call.params
    return {
        "mode": p.mode, "layers": p.num_layers, "directions": 2 if p.bidirectional else 1, "units": p.state_size,
        "state_outputs": p.state_outputs, "dropout": p.p, "has_mask": p.p > 0 and p.num_layers > 1,
        "is_train": call.is_train,
        "random_blocks": call.op.random_blocks(p, [spec.shape for spec in call.outputs]),
    }  # fmt: skip


def rnn(call: KernelCall) -> object | None:
    """data, parameters, state[, state_cell] -> output[, states][, reserve][, mask]."""
    return native.rnn(specs(call.inputs), specs(call.outputs), **_stack(call))


def rnn_backward(call: KernelCall) -> object | None:
    """Out-gradients, the forward inputs, output[, reserve][, mask] -> gradients of the forward inputs."""
    return native.rnn_backward(specs(call.inputs), specs(call.outputs), **_stack(call))
