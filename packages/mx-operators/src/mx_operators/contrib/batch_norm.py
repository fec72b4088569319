# SPDX-License-Identifier: Apache-2.0
"""Batch normalisation over several devices, and fused with an activation."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mx_core.errors import NoKernelError
from mx_core.operator import Array, Arrays, ReferenceContext, Shapes, Types, opt, required
from mx_operators.nn.norm.batch_norm import VECTORS, BatchNormParam, Normalization, StatisticsParam


class SyncBatchNormParam(StatisticsParam):
    """Constants, which statistics are used, and who takes part."""

    output_mean_var: bool = opt(False, "show mean and variance as outputs")
    ndev: int = opt(1, "how many devices share the statistics", lower=1)
    layers: str = required("written `key`: which layers belong together, on all devices")

    # `key` is what parameter instances are compared by.
    def _assign(self, values: Mapping[str, object], op: str, node: str | None = None) -> None:
        own = {"layers" if name == "key" else name: value for name, value in values.items()}
        super()._assign(own, op, node)

    def attrs(self) -> dict[str, str]:
        """The explicitly given parameters in MXNet's text form."""
        return {"key" if name == "layers" else name: text for name, text in super().attrs().items()}


class SyncBatchNorm(Normalization[SyncBatchNormParam]):
    """BatchNorm of data (N, C, …) whose statistics are those of `ndev` devices together.

    In training each device waits until the others have computed the layer of the same `key`. With one device it is
    BatchNorm. Gradients of gamma and beta are those of the device's batch. A hidden output, the step, tells backward
    which forward runs of the devices belonged together: several steps may go on at once.
    """

    name = "_contrib_SyncBatchNorm"
    results = ("output", "mean", "var", "step")
    floating_only = ("data", "output", *VECTORS)

    def outputs(self, p: SyncBatchNormParam) -> tuple[str, ...]:
        """No step with one device."""
        return self.results if p.ndev > 1 else self.results[:3]

    def infer_shape(self, p: SyncBatchNormParam, s: Shapes) -> None:
        """One value per channel in every vector, and a number."""
        super().infer_shape(p, s)
        if p.ndev > 1:
            s.assign("step", (1,))

    def infer_type(self, p: SyncBatchNormParam, t: Types) -> None:
        """The step is an integer."""
        super().infer_type(p, t)
        if p.ndev > 1:
            t.assign("step", "int64")

    def shown_inverted(self, p: SyncBatchNormParam) -> bool:
        """The variance itself is shown."""
        return False

    def reference(self, p: SyncBatchNormParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        """Of one device: a reference knows no others."""
        _expect_one(p, ctx)
        made = list(super().reference(p, inputs, ctx))
        if p.ndev > 1:
            made.insert(3, np.zeros(1, np.int64))
        return made

    def backward(
        self,
        p: SyncBatchNormParam,
        ctx: ReferenceContext,
        out_grad: Array,
        data: Array,
        gamma: Array,
        mean: Array,
        var: Array,
        moving_mean: Array,
        moving_var: Array,
        step: Array | None = None,
    ) -> Arrays:
        """As BatchNorm, of one device."""
        _expect_one(p, ctx)
        return super().backward(p, ctx, out_grad, data, gamma, mean, var, moving_mean, moving_var)


def _expect_one(p: SyncBatchNormParam, ctx: ReferenceContext) -> None:
    if p.ndev != 1 and ctx.is_train and not p.use_global_stats:
        raise NoKernelError(
            f"[_contrib_SyncBatchNorm] ndev: no kernel here joins the statistics of {p.ndev} devices for this data; "
            "mx-operators-cpu has one for float32 and float64, and for bfloat16 of more than two axes, without "
            "output_mean_var"
        )


class BatchNormWithReLU(Normalization[BatchNormParam]):
    """max(BatchNorm(data), 0)."""

    name = "_contrib_BatchNormWithReLU"
    floating_only = True

    def reference(self, p: BatchNormParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        y, *rest = super().reference(p, inputs, ctx)
        return np.maximum(y, 0), *rest

    def backward(  # type: ignore[override]  # keeps the output as well
        self,
        p: BatchNormParam,
        ctx: ReferenceContext,
        out_grad: Array,
        data: Array,
        gamma: Array,
        mean: Array,
        var: Array,
        moving_mean: Array,
        moving_var: Array,
        output: Array,
    ) -> Arrays:
        passed = np.where(output > 0, out_grad, np.zeros((), out_grad.dtype))
        return super().backward(p, ctx, passed, data, gamma, mean, var, moving_mean, moving_var)
