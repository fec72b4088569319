# SPDX-License-Identifier: Apache-2.0
"""AdamW: Adam with decoupled weight decay, and a scale given as an array.

Source: Loshchilov and Hutter, Decoupled Weight Decay Regularization, ICLR 2019.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from mx_core.operator import Arrays, Operator, ReferenceContext, Shapes, opt, required
from mx_operators.nn.base import wide
from mx_operators.optimizer.base import MASTER_MOMENTS, MomentsParam, RateParam, clipped


class AdamWParam(RateParam, MomentsParam):
    """Rates, decays of the moments."""

    wd: float = opt(0.0, "weight decay", runtime=True)
    eta: float = required("factor of step and decay: the schedule", runtime=True)
    clip_gradient: float = opt(-1.0, "limit of the scaled gradient; negative: none", runtime=True)


class AdamW(Operator[AdamWParam]):
    """w − eta·(lr·mean/(√var + epsilon) + wd·w), with running moments of rescale_grad·grad.

    When rescale_grad (1,) is 0 or not finite, the step is left out: loss scaling has overflowed.
    """

    floating_only = True
    differentiable = False
    custom_gradient = True
    inplace_pairs = ((0, 0),)
    name = "_adamw_update"
    arguments: ClassVar[tuple[str, ...]] = ("weight", "grad", "mean", "var", "rescale_grad")
    free_types = {"rescale_grad": "float32"}

    def mutated_inputs(self, p: AdamWParam) -> tuple[int, ...]:
        return tuple(range(2, len(self.arguments) - 1))

    def infer_shape(self, p: AdamWParam, s: Shapes) -> None:
        """As weight; the scale has one element."""
        s.unify([*self.arguments[:-1], "output"])
        s.assign("rescale_grad", (1,))

    def reference(self, p: AdamWParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        states = inputs[2:-1]
        scale = float(inputs[-1].reshape(-1)[0])
        if scale == 0 or not np.isfinite(scale):
            return (inputs[0].copy(), *(x.copy() for x in states))
        weight = wide(states[2] if len(states) == 3 else inputs[0])
        mean, var = wide(states[0]), wide(states[1])
        g = clipped(inputs[1].astype(weight.dtype) * weight.dtype.type(scale), p.clip_gradient)
        mean = p.beta1 * mean + (1 - p.beta1) * g
        var = p.beta2 * var + (1 - p.beta2) * g * g
        new = weight - p.eta * (p.lr * mean / (np.sqrt(var) + p.epsilon) + p.wd * weight)
        made = (new, mean, var, new)[: len(states) + 1]
        return tuple(x.astype(old.dtype) for x, old in zip(made, (inputs[0], *states), strict=True))


class MixedAdamW(AdamW):
    """_adamw_update on weight32; weight is its rounded copy."""

    name = "_mp_adamw_update"
    arguments = ("weight", "grad", "mean", "var", "weight32", "rescale_grad")
    fixed_types = MASTER_MOMENTS
