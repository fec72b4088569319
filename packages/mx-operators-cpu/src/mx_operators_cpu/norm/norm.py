# SPDX-License-Identifier: Apache-2.0
"""BatchNorm, LayerNorm, GroupNorm, InstanceNorm, LRN."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mx_core import dtypes, services
from mx_core.errors import PluginError
from mx_operators_cpu.library import native
from mx_operators_cpu.settings import sync_timeout
from mx_operators_cpu.signature import native_floats

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall

_INTEGER = dtypes.code("int64")


def _batch(call: KernelCall, rank: int) -> dict[str, Any]:
    p: Any = call.params
    return {
        "axis": p.axis % rank,
        "eps": p.eps,
        "momentum": p.momentum,
        "fix_gamma": p.fix_gamma,
        "use_batch_stats": call.is_train and not p.use_global_stats,
    }


def batch_norm(call: KernelCall) -> object:
    """data, gamma, beta, moving_mean, moving_var -> output, mean, var; updates the moving statistics."""
    p: Any = call.params
    if p.output_mean_var:  # another form of the variance
        return None
    options = _batch(call, len(call.inputs[0].shape))
    return native.batch_norm(call.inputs, call.outputs, **options)


def batch_norm_backward(call: KernelCall) -> object:
    """out_grad, data, gamma, mean, var, moving_mean, moving_var -> data_grad, gamma_grad, beta_grad."""
    p: Any = call.params
    if p.output_mean_var:
        return None
    options = _batch(call, len(call.inputs[1].shape))
    return native.batch_norm_backward(call.inputs, call.outputs, **options)


def _joint(call: KernelCall, options: dict[str, Any], direction: str) -> dict[str, Any] | None:
    """Options of the kernel that joins devices; None where each has its own statistics or the moving averages."""
    p: Any = call.params
    if p.ndev == 1 or not options.pop("use_batch_stats"):
        return None
    name = f"_contrib_SyncBatchNorm, key {p.layers!r}, {direction}"
    return options | {"name": name, "devices": p.ndev, "patience": sync_timeout(), "engine": _engine()}


def _engine() -> object:
    """The table of the process's engine, whose threads wait for devices; None where there is no engine."""
    try:
        return services.engine().capsule
    except PluginError:
        return None


def sync_supported(call: KernelCall) -> bool:
    """True if every tensor but the step is of an element type with a kernel of its own."""
    inputs, outputs = (
        tuple(s for s in specs if s.dtype != _INTEGER) for specs in (call.inputs, call.outputs)
    )
    return native_floats(replace(call, inputs=inputs, outputs=outputs))


def sync_batch_norm(call: KernelCall) -> object:
    """As `batch_norm`; in training with statistics of all devices."""
    joint = _joint(call, _batch(call, len(call.inputs[0].shape)), "forward")
    if joint is None:
        return batch_norm(call)
    p: Any = call.params
    return None if p.output_mean_var else native.sync_batch_norm(call.inputs, call.outputs, **joint)


def sync_batch_norm_backward(call: KernelCall) -> object:
    """As `batch_norm_backward`; in training with sums of all devices."""
    joint = _joint(call, _batch(call, len(call.inputs[1].shape)), "backward")
    if joint is None:
        return batch_norm_backward(call)
    p: Any = call.params
    if p.output_mean_var:
        return None
    return native.sync_batch_norm_backward(call.inputs, call.outputs, **joint)


def layer_norm(call: KernelCall) -> object:
    """data, gamma, beta -> output, mean, std."""
    p: Any = call.params
    rank = len(call.inputs[0].shape)
    return native.layer_norm(call.inputs, call.outputs, axis=p.axis % rank, eps=p.eps)


def layer_norm_backward(call: KernelCall) -> object:
    """out_grad, data, gamma, mean, std -> data_grad, gamma_grad, beta_grad."""
    p: Any = call.params
    rank = len(call.inputs[1].shape)
    return native.layer_norm_backward(call.inputs, call.outputs, axis=p.axis % rank, eps=p.eps)


def group_norm(call: KernelCall) -> object:
    """data, gamma, beta -> output, mean, std."""
    p: Any = call.params
    groups = call.inputs[1].shape[0]
    return native.group_norm(call.inputs, call.outputs, groups=groups, eps=p.eps)


def group_norm_backward(call: KernelCall) -> object:
    """out_grad, data, gamma, mean, std -> data_grad, gamma_grad, beta_grad."""
    p: Any = call.params
    groups = call.inputs[2].shape[0]
    return native.group_norm_backward(call.inputs, call.outputs, groups=groups, eps=p.eps)


def _lrn(call: KernelCall) -> dict[str, Any]:
    p: Any = call.params
    return {"size": p.nsize, "alpha": p.alpha, "beta": p.beta, "knorm": p.knorm}


def lrn(call: KernelCall) -> object:
    """data -> output, tmp_norm."""
    return native.lrn(call.inputs, call.outputs, **_lrn(call))


def lrn_backward(call: KernelCall) -> object:
    """out_grad, data, tmp_norm -> data_grad."""
    return native.lrn_backward(call.inputs, call.outputs, **_lrn(call))
