# SPDX-License-Identifier: Apache-2.0
"""Shared code of optimizer updates: weight and gradient in, new weight out, states written in place."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from mx_core.operator import Array, Arrays, Operator, Params, ReferenceContext, opt, required
from mx_core.operator.declaration import P
from mx_operators.nn.base import wide

#: element types of the arrays that an update in mixed precision keeps in float32
MASTER_MOMENTS = dict.fromkeys(("mean", "var", "weight32"), "float32")
#: the same, of bases of operators with any of these
MASTER_TYPES = dict.fromkeys(("mom", "mean", "var", "weight32"), "float32")


class RateParam(Params):
    """Rate."""

    lr: float = required("learning rate", runtime=True)


class MomentumParam(Params):
    """Momentum."""

    momentum: float = opt(0.0, "share of the last step that is kept", runtime=True)


class MomentsParam(Params):
    """Decays of the moments, stability."""

    beta1: float = opt(0.9, "decay of the first moment", runtime=True)
    beta2: float = opt(0.999, "decay of the second moment", runtime=True)
    epsilon: float = opt(1e-8, "added to the root of the second moment", runtime=True)


class GradientParam(Params):
    """Scaling of a gradient."""

    rescale_grad: float = opt(1.0, "factor of the gradient", runtime=True)
    clip_gradient: float = opt(-1.0, "limit of the scaled gradient; negative: none", runtime=True)


class ScaledParam(GradientParam, leading=True):
    """Decay and scaling of a gradient."""

    wd: float = opt(0.0, "weight decay", runtime=True)


class LazyParam(ScaledParam):
    """Decay and scaling, with a choice for sparse gradients."""

    lazy_update: bool = opt(True, "of sparse gradients, only rows that occur")


class DecayedParam(ScaledParam):
    """Decay and scaling of a gradient that is clipped with its decay."""

    clip_gradient: float = opt(-1.0, "limit of the gradient with decay; negative: none", runtime=True)


def clipped(x: Array, limit: float) -> Array:
    """x within ±limit; a negative limit means none."""
    return np.clip(x, -limit, limit) if limit >= 0 else x


def scaled(p: GradientParam, g: Array) -> Array:
    """The gradient, rescaled and clipped."""
    return clipped(g * p.rescale_grad, p.clip_gradient)


class Update(Operator[P]):
    """An update of one weight; the inputs after weight and grad are states, all mutated.

    The result is usually written to the weight itself (`out=weight`).
    """

    floating_only = True
    differentiable = False
    custom_gradient = True
    inplace_pairs = ((0, 0),)
    arguments: ClassVar[tuple[str, ...]] = ("weight", "grad")

    def mutated_inputs(self, p: P) -> tuple[int, ...]:
        return tuple(range(2, len(self.inputs(p))))

    def step(self, p: P, w: Array, g: Array, *states: Array) -> Arrays:
        """New weight, then new states, computed in the type of the arrays."""
        raise NotImplementedError

    def reference(self, p: P, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        new = self.step(p, *(wide(x) for x in inputs))
        olds = (inputs[0], *inputs[2:])
        return tuple(x.astype(old.dtype) for x, old in zip(new, olds, strict=True))
