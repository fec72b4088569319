# SPDX-License-Identifier: Apache-2.0
"""LAMB in two phases, alone and with a float32 master copy.

Source: You et al., Large Batch Optimization for Deep Learning: Training BERT in 76 minutes, ICLR 2020.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from mx_core.operator import Arrays, Operator, ReferenceContext, Shapes, opt, required
from mx_operators.nn.base import wide
from mx_operators.optimizer.base import MASTER_MOMENTS, RateParam, ScaledParam, scaled


class LambPhase1Param(ScaledParam, leading=True):
    """Decays of the moments, step number, scaling."""

    beta1: float = opt(0.9, "decay of the first moment", runtime=True)
    beta2: float = opt(0.999, "decay of the second moment", runtime=True)
    epsilon: float = opt(1e-6, "added to the root of the second moment", runtime=True)
    t: int = required("number of this step, from 1", runtime=True, lower=1)
    bias_correction: bool = opt(True, "divide the moments by 1 − betaᵗ")
    wd: float = required("weight decay", runtime=True)


class LambPhase2Param(RateParam):
    """Rate and bounds."""

    lower_bound: float = opt(-1.0, "least norm of the weight; negative: none", runtime=True)
    upper_bound: float = opt(-1.0, "largest norm of the weight; negative: none", runtime=True)


class LambPhase1(Operator[LambPhase1Param]):
    """The direction mean/(√var + epsilon) + wd·w, with running moments."""

    floating_only = True
    differentiable = False
    custom_gradient = True
    name = "lamb_update_phase1"
    arguments: ClassVar[tuple[str, ...]] = ("weight", "grad", "mean", "var")

    def mutated_inputs(self, p: LambPhase1Param) -> tuple[int, ...]:
        return (2, 3)

    def reference(self, p: LambPhase1Param, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        weight, mean, var = wide(inputs[-1 if len(inputs) == 5 else 0]), wide(inputs[2]), wide(inputs[3])
        g = scaled(p, inputs[1].astype(weight.dtype))
        mean = p.beta1 * mean + (1 - p.beta1) * g
        var = p.beta2 * var + (1 - p.beta2) * g * g
        first, second = mean, var
        if p.bias_correction:
            beta1, beta2 = np.float64(p.beta1), np.float64(p.beta2)  # whose powers may be infinite
            first, second = mean / (1 - beta1**p.t), var / (1 - beta2**p.t)
        direction = first / (np.sqrt(second) + p.epsilon) + p.wd * weight
        kind = np.float32 if len(inputs) == 5 else inputs[0].dtype
        return direction.astype(kind), mean.astype(inputs[2].dtype), var.astype(inputs[3].dtype)


class MixedLambPhase1(LambPhase1):
    """lamb_update_phase1 in float32: weight32 is read, weight only names the type."""

    name = "mp_lamb_update_phase1"
    arguments = ("weight", "grad", "mean", "var", "weight32")
    fixed_types = MASTER_MOMENTS | {"output": "float32"}
    shape_only = ("weight",)


class LambPhase2(Operator[LambPhase2Param]):
    """w − lr·(r1/r2)·g; r1 is the norm of w within bounds, r2 that of g; the ratio is 1 where one is 0."""

    floating_only = True
    differentiable = False
    custom_gradient = True
    inplace_pairs = ((0, 0),)
    name = "lamb_update_phase2"
    arguments: ClassVar[tuple[str, ...]] = ("weight", "g", "r1", "r2")

    def infer_shape(self, p: LambPhase2Param, s: Shapes) -> None:
        s.unify([name for name in (*self.arguments, "output") if name not in ("r1", "r2")])
        s.assign("r1", (1,))
        s.assign("r2", (1,))

    def reference(self, p: LambPhase2Param, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        """A trust ratio, then a step."""
        weight, g = wide(inputs[-1 if len(inputs) == 5 else 0]), wide(inputs[1])
        r1, r2 = wide(inputs[2])[0], wide(inputs[3])[0]
        if p.lower_bound >= 0:
            r1 = max(r1, p.lower_bound)
        if p.upper_bound >= 0:
            r1 = min(r1, p.upper_bound)
        ratio = 1.0 if r1 == 0 or r2 == 0 else r1 / r2
        new = weight - p.lr * ratio * g
        master = (new.astype(np.float32),) if len(inputs) == 5 else ()
        return (new.astype(inputs[0].dtype), *master)


class MixedLambPhase2(LambPhase2):
    """lamb_update_phase2 on weight32; weight is its rounded copy."""

    name = "mp_lamb_update_phase2"
    arguments = ("weight", "g", "r1", "r2", "weight32")
    fixed_types = dict.fromkeys(arguments[1:], "float32")

    def mutated_inputs(self, p: LambPhase2Param) -> tuple[int, ...]:
        return (4,)
