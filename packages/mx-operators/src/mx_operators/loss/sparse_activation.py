# SPDX-License-Identifier: Apache-2.0
"""IdentityAttachKLSparseReg: the identity, with a penalty of activations that are not sparse.

Source: Ng, Sparse autoencoder, CS294A lecture notes, 2011.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mx_core.operator import OperatorProperty, opt, param
from mx_core.operator.property import ReferenceContext
from mx_operators.nn.base import along, statistics_type, wide


@param
class SparseActivationParam:
    """Target, weight of the penalty, momentum."""

    sparseness_target: float = opt(0.1, "what a unit's mean activation should be", lower=0.0, upper=1.0)
    penalty: float = opt(0.001, "weight of the penalty")
    momentum: float = opt(0.9, "share of the old value in the moving average", lower=0.0, upper=1.0)


class IdentityAttachKLSparseReg(OperatorProperty):
    """data (N, C, …); its gradient is the head gradient and that of penalty · KL(target, average).

    average (C,) is a moving average of the units' means, which lie between 0 and 1: that of a sigmoid.
    Training updates it. It counts as a constant 1/(1 − momentum) times that of the batch, so
    penalty · ((1 − target)/(1 − average) − target/average) is added to each head gradient.
    """

    name = "IdentityAttachKLSparseReg"
    Param = SparseActivationParam
    auxiliaries = ("moving_avg",)
    results = ("output", "average")
    needs_train_flag = True

    def num_visible_outputs(self, p: Any) -> int:
        """The output."""
        return 1

    def infer_shape(self, p: Any, s: Any) -> None:
        """An average per unit."""
        s.unify(["data", "output"])
        s.unify(["moving_avg", "average"])
        data = s.get("data")
        if data is not None:
            if len(data) < 2:
                raise s.error(f"data: expected at least 2 dimensions (N, C, …), got {data}")
            s.assign("moving_avg", (data[1],))
            s.assign("average", (data[1],))

    def infer_type(self, p: Any, t: Any) -> None:
        """Averages in float32 for 16-bit data."""
        t.unify(["data", "output"])
        for name in ("moving_avg", "average"):
            t.assign(name, statistics_type(t.get("data")))

    def gradient(self, p: Any, g: Any) -> Any:
        """Reads the average of this step."""
        return g.op(f"_backward_{self.name}", (g.out_grad(), g.output(1)), params=p)

    def companions(self) -> tuple[OperatorProperty, ...]:
        """Its backward operator."""
        return (BackwardIdentityAttachKLSparseReg(),)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """The identity; in training the average moves."""
        data, average = inputs
        if ctx.is_train and data.size:
            mean = wide(data).mean(tuple(i for i in range(data.ndim) if i != 1))
            average = (p.momentum * wide(average) + (1 - p.momentum) * mean).astype(average.dtype)
        return data.copy(), average.copy(), average


class BackwardIdentityAttachKLSparseReg(OperatorProperty):
    """Gradient of IdentityAttachKLSparseReg."""

    name = "_backward_IdentityAttachKLSparseReg"
    Param = SparseActivationParam
    arguments = ("out_grad", "average")
    results = ("data_grad",)

    def infer_shape(self, p: Any, s: Any) -> None:
        """As out_grad."""
        s.unify(["out_grad", "data_grad"])

    def infer_type(self, p: Any, t: Any) -> None:
        """As out_grad; averages in float32 for 16-bit data."""
        t.unify(["out_grad", "data_grad"])
        t.assign("average", statistics_type(t.get("out_grad")))

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """The slope of the divergence."""
        head, average = (wide(x) for x in inputs)
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = (1 - p.sparseness_target) / (1 - average) - p.sparseness_target / average
        return ((head + along(p.penalty * slope, 1, head.ndim)).astype(inputs[0].dtype),)


OPERATORS: tuple[type[OperatorProperty], ...] = (IdentityAttachKLSparseReg,)
