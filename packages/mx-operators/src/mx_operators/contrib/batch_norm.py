# SPDX-License-Identifier: Apache-2.0
"""Batch normalisation over several devices, and fused with an activation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mx_core.operator import OperatorProperty, Params, opt, param, required
from mx_core.operator.property import ReferenceContext
from mx_operators.nn.batch_norm import BackwardBatchNorm, BatchNorm, BatchNormParam


@param
class SyncBatchNormParam:
    """Constants, which statistics are used, and who takes part."""

    eps: float = opt(1e-3, "added to the variance", lower=0.0)
    momentum: float = opt(0.9, "share of the old value in a moving average")
    fix_gamma: bool = opt(True, "gamma is 1 and gets no gradient")
    use_global_stats: bool = opt(False, "use the moving averages in training too")
    output_mean_var: bool = opt(False, "show mean and variance as outputs")
    ndev: int = opt(1, "how many devices share the statistics", lower=1)
    layers: str = required("written `key`: which layers belong together, on all devices")
    axis = 1

    # `key` is what parameter instances are compared by.
    def _assign(self: Any, values: Mapping[str, Any], op: str, node: str | None = None) -> None:
        own = {"layers" if name == "key" else name: value for name, value in values.items()}
        Params._assign(self, own, op, node)

    def attrs(self: Any) -> dict[str, str]:
        """The explicitly given parameters in MXNet's text form."""
        return {"key" if name == "layers" else name: text for name, text in Params.attrs(self).items()}


class SyncBatchNorm(BatchNorm):
    """BatchNorm of data (N, C, …) whose statistics are those of `ndev` devices together.

    With one device it is BatchNorm.
    """

    name = "_contrib_SyncBatchNorm"
    aliases = ()  # type: ignore[assignment]
    Param = SyncBatchNormParam  # type: ignore[assignment]

    def shown_inverted(self, p: Any) -> bool:
        """The variance itself is shown."""
        return False

    def infer_shape(self, p: Any, s: Any) -> None:
        """As BatchNorm, of one device."""
        if p.ndev != 1:
            raise s.error(f"ndev: statistics of one device only, got {p.ndev}; average them with a kvstore")
        super().infer_shape(p, s)

    def gradient(self, p: Any, g: Any) -> Any:
        """One operator for all gradients."""
        kept = (g.out_grad(), g.input(0), g.input(1), g.output(1), g.output(2), g.input(3), g.input(4))
        return g.op("_backward_contrib_SyncBatchNorm", kept, params=p)

    def companions(self) -> tuple[OperatorProperty, ...]:
        """Its backward operator."""
        return (BackwardSyncBatchNorm(),)


class BackwardSyncBatchNorm(BackwardBatchNorm):
    """Gradients of SyncBatchNorm."""

    name = "_backward_contrib_SyncBatchNorm"
    Param = SyncBatchNormParam  # type: ignore[assignment]
    forward = SyncBatchNorm


class BatchNormWithReLU(BatchNorm):
    """max(BatchNorm(data), 0)."""

    name = "_contrib_BatchNormWithReLU"
    aliases = ()  # type: ignore[assignment]

    def gradient(self, p: Any, g: Any) -> Any:
        """One operator for all gradients; the output tells where it was positive."""
        kept = (g.out_grad(), g.input(0), g.input(1), g.output(1), g.output(2), g.input(3), g.input(4))
        return g.op("_backward_contrib_BatchNormWithReLU", (*kept, g.output(0)), params=p)

    def companions(self) -> tuple[OperatorProperty, ...]:
        """Its backward operator."""
        return (BackwardBatchNormWithReLU(),)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """Negative results become zero."""
        y, *rest = super().reference(p, inputs, ctx)
        return np.maximum(y, 0), *rest


class BackwardBatchNormWithReLU(BackwardBatchNorm):
    """Gradients of BatchNormWithReLU."""

    name = "_backward_contrib_BatchNormWithReLU"
    Param = BatchNormParam
    arguments = (*BackwardBatchNorm.arguments, "output")  # type: ignore[assignment]

    def infer_shape(self, p: Any, s: Any) -> None:
        """As the forward inputs."""
        s.unify(["out_grad", "data", "output", "data_grad"])
        s.unify([*BackwardBatchNorm.arguments[2:], "gamma_grad", "beta_grad"])

    def infer_type(self, p: Any, t: Any) -> None:
        """As the forward inputs."""
        t.unify(["out_grad", "data", "output", "data_grad"])
        t.unify([*BackwardBatchNorm.arguments[2:], "gamma_grad", "beta_grad"])

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """Of the positive elements."""
        *rest, y = inputs
        masked = np.where(y > 0, rest[0], np.zeros((), rest[0].dtype))
        return super().reference(p, [masked, *rest[1:]], ctx)


OPERATORS: tuple[type[OperatorProperty], ...] = (SyncBatchNorm, BatchNormWithReLU)
