# SPDX-License-Identifier: Apache-2.0
"""Stacks of recurrent layers."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any

from mx_core import dtypes
from mx_operators_cpu.composite import Composite, same, traced
from mx_operators_cpu.library import native
from mx_operators_cpu.signature import native_floats, tensors

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall

_FLOAT = dtypes.code("float32")


def _lengths(call: KernelCall) -> int | None:
    """Which input holds the lengths of the sequences."""
    names = call.op.inputs(call.params)
    return names.index("sequence_length") if "sequence_length" in names else None


def supported(call: KernelCall) -> bool:
    """Floating-point tensors, lengths of any type; no projections and no bounds of states."""
    p: Any = call.params
    if any(x is not None for x in (p.projection_size, p.lstm_state_clip_min, p.lstm_state_clip_max)):
        return False
    lengths = _lengths(call)
    if lengths is None or call.inputs[lengths].dtype == _FLOAT:
        return native_floats(call)
    spec = call.inputs[lengths]
    others = tuple(x for i, x in enumerate(call.inputs) if i != lengths)
    return spec.layout == 0 and prod(spec.shape) > 0 and native_floats(replace(call, inputs=others))


def stack(call: KernelCall, packed: KernelCall | None = None) -> native.RecurrentStack:
    """The call as the native part knows it; lengths are float32.

    `packed`: the same call with parameters in the order of their products, and visible outputs alone.
    """
    p: Any = call.params
    if packed is not None:
        return native.RecurrentStack(
            tensors(packed.inputs), tensors(packed.outputs), **_options(call), packed=True, dropout=0.0,
            has_mask=False, is_train=False, random_blocks=0,
        )  # fmt: skip
    lengths, inputs = _lengths(call), list(call.inputs)
    if lengths is not None:
        inputs[lengths] = replace(inputs[lengths], dtype=_FLOAT)
    return native.RecurrentStack(
        tensors(inputs), tensors(call.outputs), **_options(call), dropout=p.p, has_mask=p.p > 0 and p.num_layers > 1,
        is_train=call.is_train, random_blocks=call.random_blocks,
    )  # fmt: skip


def _options(call: KernelCall) -> dict[str, Any]:
    p: Any = call.params
    return {
        "mode": p.mode, "layers": p.num_layers, "directions": 2 if p.bidirectional else 1, "units": p.state_size,
        "state_outputs": p.state_outputs, "has_lengths": _lengths(call) is not None,
    }  # fmt: skip


def _with_lengths(call: KernelCall, plan: object | None) -> object:
    """The plan after a cast of the lengths, where they need one."""
    lengths = _lengths(call)
    if plan is None or lengths is None or call.inputs[lengths].dtype == _FLOAT:
        return plan
    made = Composite(call)
    given = list(range(len(call.inputs)))
    given[lengths] = made.temporary(call.inputs[lengths].shape, _FLOAT)
    made.evaluate(traced(same, 1), [lengths], [given[lengths]])
    made.run(plan, given, [made.output(i) for i in range(len(call.outputs))])
    return made.plan()


def rnn(call: KernelCall) -> object:
    """data, parameters, state[, state_cell][, lengths] -> output[, states][, reserve][, mask]."""
    return _with_lengths(call, stack(call).forward())


def rnn_backward(call: KernelCall) -> object:
    """Out-gradients, the forward inputs, output[, reserve][, mask] -> gradients of the forward inputs."""
    return _with_lengths(call, stack(call).backward())
