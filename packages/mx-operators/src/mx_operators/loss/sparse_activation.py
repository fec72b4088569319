# SPDX-License-Identifier: Apache-2.0
"""IdentityAttachKLSparseReg: the identity, with a penalty of activations that are not sparse.

Source: Ng, Sparse autoencoder, CS294A lecture notes, 2011.
"""

from __future__ import annotations

import numpy as np

from mx_core.operator import Array, Arrays, Operator, Params, ReferenceContext, Shapes, Types, opt
from mx_operators.nn.base import along, statistics_type, wide


class SparseActivationParam(Params):
    """Target, weight of the penalty, momentum."""

    sparseness_target: float = opt(0.1, "what a unit's mean activation should be", lower=0.0, upper=1.0)
    penalty: float = opt(0.001, "weight of the penalty")
    momentum: float = opt(0.9, "share of the old value in the moving average", lower=0.0, upper=1.0)


class IdentityAttachKLSparseReg(Operator[SparseActivationParam]):
    """data (N, C, …); its gradient is the head gradient and that of penalty · KL(target, average).

    average (C,) is a moving average of the units' means, which lie between 0 and 1: that of a sigmoid.
    Training updates it. It counts as a constant 1/(1 − momentum) times that of the batch, so
    penalty · ((1 − target)/(1 − average) − target/average) is added to each head gradient.
    """

    name = "IdentityAttachKLSparseReg"
    custom_gradient = True  # that of the penalty is added
    auxiliaries = ("moving_avg",)
    results = ("output", "average")
    hidden = ("average",)
    needs_train_flag = True

    def infer_shape(self, p: SparseActivationParam, s: Shapes) -> None:
        s.unify(["data", "output"])
        s.unify(["moving_avg", "average"])
        data = s.get("data")
        if data is not None:
            if len(data) < 2:
                raise s.error(f"data: expected at least 2 dimensions (N, C, …), got {data}")
            s.assign("moving_avg", (data[1],))
            s.assign("average", (data[1],))

    def infer_type(self, p: SparseActivationParam, t: Types) -> None:
        """Averages in float32 for 16-bit data."""
        t.unify(["data", "output"])
        for name in ("moving_avg", "average"):
            t.assign(name, statistics_type(t.get("data")))

    def reference(self, p: SparseActivationParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        """The identity; in training the average moves."""
        data, average = inputs
        if ctx.is_train and data.size:
            mean = wide(data).mean(tuple(i for i in range(data.ndim) if i != 1))
            average = (p.momentum * wide(average) + (1 - p.momentum) * mean).astype(average.dtype)
        return data.copy(), average.copy(), average

    def backward(self, p: SparseActivationParam, out_grad: Array, average: Array) -> Array:
        """The slope of the divergence is added."""
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = (1 - p.sparseness_target) / (1 - average) - p.sparseness_target / average
        return out_grad + along(p.penalty * slope, 1, out_grad.ndim)
