# SPDX-License-Identifier: Apache-2.0
"""AdaGrad on dense arrays: a history per element, or per row.

Source: Duchi, Hazan and Singer, Adaptive Subgradient Methods, JMLR 2011.
"""

from __future__ import annotations

import numpy as np

from mx_core.operator import Array, Arrays, Shapes, opt, required
from mx_operators.optimizer.base import GradientParam, RateParam, ScaledParam, Update, scaled


class AdaGradParam(ScaledParam, leading=True):
    """Rate, stability, decay, scaling."""

    lr: float = required("learning rate", runtime=True)
    epsilon: float = opt(1e-7, "added to the history under the root", runtime=True)
    wd: float = opt(0.0, "weight decay; only 0 is possible")


class GroupAdaGradParam(RateParam, GradientParam):
    """Rate, scaling, stability."""

    epsilon: float = opt(1e-5, "added to the history under the root", runtime=True)


class AdaGrad(Update[AdaGradParam]):
    """history += g²; w −= lr·g/√(history + epsilon), where g is the scaled, clipped gradient."""

    name = "_sparse_adagrad_update"
    arguments = ("weight", "grad", "history")

    def infer_shape(self, p: AdaGradParam, s: Shapes) -> None:
        if p.wd != 0:
            raise s.error(f"wd: expected 0, got {p.wd}")
        super().infer_shape(p, s)

    def step(self, p: AdaGradParam, w: Array, g: Array, *states: Array) -> Arrays:
        g = scaled(p, g)
        history = states[0] + g * g
        return w - p.lr * g / np.sqrt(history + p.epsilon), history


class GroupAdaGrad(Update[GroupAdaGradParam]):
    """AdaGrad with the mean square of each row: history (rows, 1), weight (rows, …)."""

    name = "_contrib_group_adagrad_update"
    arguments = ("weight", "grad", "history")

    def infer_shape(self, p: GroupAdaGradParam, s: Shapes) -> None:
        s.unify(["weight", "grad", "output"])
        weight = s.get("weight")
        if weight is not None:
            if len(weight) != 2:
                raise s.error(f"weight: expected 2 dimensions, got {weight}")
            s.assign("history", (weight[0], 1))

    def step(self, p: GroupAdaGradParam, w: Array, g: Array, *states: Array) -> Arrays:
        g = scaled(p, g)
        history = states[0] + np.square(g).sum(1, keepdims=True) / max(g.shape[1], 1)
        return w - p.lr * g / np.sqrt(history + p.epsilon), history
