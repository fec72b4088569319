# SPDX-License-Identifier: Apache-2.0
"""LAMB for several weights: both phases in one operator."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from mx_core.operator import Arrays, ReferenceContext, Shapes, opt, required
from mx_core.operator.declaration import MAX_TENSORS
from mx_operators.nn.base import wide
from mx_operators.optimizer.lamb import LambPhase1, LambPhase1Param, LambPhase2, LambPhase2Param
from mx_operators.optimizer.multi import CountParam, Together


class MultiLambParam(CountParam, leading=True):
    """A rate, a decay and a step number per weight; decays of the moments, bounds, scaling."""

    learning_rates: tuple[float, ...] = required("learning rate of each weight")
    beta1: float = opt(0.9, "decay of the first moment", runtime=True)
    beta2: float = opt(0.999, "decay of the second moment", runtime=True)
    epsilon: float = opt(1e-6, "added to the root of the second moment", runtime=True)
    wds: tuple[float, ...] = required("weight decay of each weight")
    rescale_grad: float = opt(1.0, "factor of the gradients", runtime=True)
    lower_bound: float = opt(-1.0, "least norm of a weight; negative: none", runtime=True)
    upper_bound: float = opt(-1.0, "largest norm of a weight; negative: none", runtime=True)
    clip_gradient: float = opt(-1.0, "limit of the scaled gradients; negative: none", runtime=True)
    bias_correction: bool = opt(True, "divide the moments by 1 − betaᵗ")
    step_count: tuple[int, ...] = required("number of this step for each weight, from 1")
    num_tensors: int = opt(1, "number of weights", lower=1, upper=MAX_TENSORS // 8)
    num_args: int = opt(0, "number of arrays; 0: as num_tensors says", lower=0)


class MultiLamb(Together[MultiLambParam]):
    """lamb_update_phase1 and lamb_update_phase2 of every (weight, grad, mean, var)."""

    name = "_multi_lamb_update"
    own: ClassVar[tuple[str, ...]] = ("weight", "grad", "mean", "var")
    count = "num_tensors"
    per_weight = ("learning_rates", "wds", "step_count")

    def infer_shape(self, p: MultiLambParam, s: Shapes) -> None:
        """Everything of one weight alike."""
        if any(t < 1 for t in p.step_count):
            raise s.error(f"step_count: expected numbers from 1, got {p.step_count}")
        super().infer_shape(p, s)

    def one(self, p: MultiLambParam, i: int, own: Arrays, common: Arrays, ctx: ReferenceContext) -> Arrays:
        """A direction, its norm and that of the weight, a step."""
        weight = wide(own[-1] if len(own) == 5 else own[0])
        first = LambPhase1Param(
            beta1=p.beta1, beta2=p.beta2, epsilon=p.epsilon, t=p.step_count[i], wd=p.wds[i],
            bias_correction=p.bias_correction, rescale_grad=p.rescale_grad, clip_gradient=p.clip_gradient,
        )  # fmt: skip
        wide_own = [weight, own[1].astype(weight.dtype), *own[2:4]]
        direction, mean, var = LambPhase1().reference(first, wide_own, ctx)
        norms = [np.sqrt(np.square(x, dtype=np.float64).sum()).reshape(1) for x in (wide(own[0]), direction)]
        second = LambPhase2Param(lr=p.learning_rates[i], lower_bound=p.lower_bound, upper_bound=p.upper_bound)
        (new,) = LambPhase2().reference(second, [weight, direction, *norms], ctx)
        master = (new.astype(np.float32),) if len(own) == 5 else ()
        return (new.astype(own[0].dtype), mean, var, *master)


class MultiMixedLamb(MultiLamb):
    """_multi_lamb_update on weight32; each weight is its rounded copy."""

    name = "_multi_mp_lamb_update"
    own = ("weight", "grad", "mean", "var", "weight32")
