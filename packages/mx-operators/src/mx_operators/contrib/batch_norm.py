# SPDX-License-Identifier: Apache-2.0
"""Batch normalisation over several devices, and fused with an activation."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mx_core.operator import Array, Arrays, ReferenceContext, Shapes, opt, required
from mx_operators.nn.norm.batch_norm import BatchNormParam, Normalization, StatisticsParam


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

    With one device it is BatchNorm.
    """

    name = "_contrib_SyncBatchNorm"
    floating_only = True

    def shown_inverted(self, p: SyncBatchNormParam) -> bool:
        """The variance itself is shown."""
        return False

    def infer_shape(self, p: SyncBatchNormParam, s: Shapes) -> None:
        """As BatchNorm, of one device."""
        if p.ndev != 1:
            raise s.error(f"ndev: statistics of one device only, got {p.ndev}; average them with a kvstore")
        super().infer_shape(p, s)


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
