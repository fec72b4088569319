# SPDX-License-Identifier: Apache-2.0
"""AdamW: Adam with decoupled weight decay, and a scale given as an array.

Source: Loshchilov and Hutter, Decoupled Weight Decay Regularization, ICLR 2019.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from mx_core.operator import Arrays, Operator, Params, ReferenceContext, Shapes, Types, opt, required
from mx_operators.nn.base import wide
from mx_operators.optimizer.base import clipped


class AdamWParam(Params):
    """Rates, decays of the moments."""

    lr: float = required("learning rate", runtime=True)
    beta1: float = opt(0.9, "decay of the first moment", runtime=True)
    beta2: float = opt(0.999, "decay of the second moment", runtime=True)
    epsilon: float = opt(1e-8, "added to the root of the second moment", runtime=True)
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
    name = "_adamw_update"
    arguments: ClassVar[tuple[str, ...]] = ("weight", "grad", "mean", "var", "rescale_grad")

    def mutated_inputs(self, p: AdamWParam) -> tuple[int, ...]:
        return tuple(range(2, len(self.arguments) - 1))

    def inplace(self, p: AdamWParam) -> tuple[tuple[int, int], ...]:
        return ((0, 0),)

    def infer_shape(self, p: AdamWParam, s: Shapes) -> None:
        """As weight; the scale has one element."""
        s.unify([*self.arguments[:-1], "output"])
        s.assign("rescale_grad", (1,))

    def infer_type(self, p: AdamWParam, t: Types) -> None:
        """As weight; the scale in float32 unless given."""
        t.unify([*self.arguments[:-1], "output"])
        if t.get("rescale_grad") is None:
            t.assign("rescale_grad", "float32")

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

    def infer_type(self, p: AdamWParam, t: Types) -> None:
        t.unify(["weight", "grad", "output"])
        for name in ("mean", "var", "weight32"):
            t.assign(name, "float32")
        if t.get("rescale_grad") is None:
            t.assign("rescale_grad", "float32")
