# SPDX-License-Identifier: Apache-2.0
"""Updates of several weights whose rates, decays or scale come as arrays, after the others."""

from __future__ import annotations

from typing import ClassVar, TypeVar

from mx_core.operator import Arrays, Operator, ReferenceContext, opt, required
from mx_core.operator.declaration import MAX_TENSORS
from mx_operators.optimizer.adamw import AdamW, AdamWParam, MixedAdamW
from mx_operators.optimizer.adaptive import Adam, AdamParam
from mx_operators.optimizer.base import MomentsParam, MomentumParam
from mx_operators.optimizer.mixed import MixedSGD, MixedSGDMomentum
from mx_operators.optimizer.multi import CountParam, SGDTogether, Together, WeightsParam
from mx_operators.optimizer.sgd import SGD, SGDMomentum


class PreloadedParam(WeightsParam):
    """Scaling."""

    num_weights: int = opt(1, "number of weights", lower=1, upper=MAX_TENSORS // 8)


class PreloadedMomentumParam(MomentumParam, PreloadedParam):
    """Momentum, scaling."""


class PreloadedAdamParam(MomentsParam, PreloadedParam):
    """Decays of the moments, scaling."""


class MultiAdamWParam(CountParam, leading=True):
    """Rates, decays and schedules per weight; decays of the moments."""

    lrs: tuple[float, ...] = required("learning rate of each weight")
    beta1: float = opt(0.9, "decay of the first moment", runtime=True)
    beta2: float = opt(0.999, "decay of the second moment", runtime=True)
    epsilon: float = opt(1e-8, "added to the root of the second moment", runtime=True)
    wds: tuple[float, ...] = required("weight decay of each weight")
    etas: tuple[float, ...] = required("factor of step and decay of each weight")
    clip_gradient: float = opt(-1.0, "limit of the scaled gradients; negative: none", runtime=True)
    num_weights: int = opt(1, "number of weights", lower=1, upper=MAX_TENSORS // 8)


S = TypeVar("S", bound=PreloadedParam)


class Preloaded(SGDTogether[S]):
    """An update of every weight with the arrays lrs and wds."""

    common = ("lrs", "wds")

    def rates(self, p: S, i: int, common: Arrays) -> tuple[float, float]:
        return float(common[0][i]), float(common[1][i])


class PreloadedSGD(Preloaded[PreloadedParam]):
    """sgd_update of every (weight, grad), with the arrays lrs and wds."""

    name = "preloaded_multi_sgd_update"
    rule = SGD()
    own = ("weight", "grad")


class PreloadedSGDMomentum(Preloaded[PreloadedMomentumParam]):
    """sgd_mom_update of every (weight, grad, mom), with the arrays lrs and wds."""

    name = "preloaded_multi_sgd_mom_update"
    rule = SGDMomentum()
    own = ("weight", "grad", "mom")


class PreloadedMixedSGD(Preloaded[PreloadedParam]):
    """mp_sgd_update of every (weight, grad, weight32), with the arrays lrs and wds."""

    name = "preloaded_multi_mp_sgd_update"
    rule = MixedSGD()
    own = ("weight", "grad", "weight32")


class PreloadedMixedSGDMomentum(Preloaded[PreloadedMomentumParam]):
    """mp_sgd_mom_update of every (weight, grad, mom, weight32), with the arrays lrs and wds."""

    name = "preloaded_multi_mp_sgd_mom_update"
    rule = MixedSGDMomentum()
    own = ("weight", "grad", "mom", "weight32")


class PreloadedAdam(Together[PreloadedAdamParam]):
    """adam_update of every (weight, grad, mean, var), with the arrays lrs and wds."""

    name = "_preloaded_multi_adam_update"
    rule = Adam()
    own = ("weight", "grad", "mean", "var")
    common = ("lrs", "wds")

    def one(
        self, p: PreloadedAdamParam, i: int, own: Arrays, common: Arrays, ctx: ReferenceContext
    ) -> Arrays:
        """The rule, with the i-th rate and decay."""
        settings = AdamParam(
            lr=float(common[0][i]), wd=float(common[1][i]), beta1=p.beta1, beta2=p.beta2, epsilon=p.epsilon,
            rescale_grad=p.rescale_grad, clip_gradient=p.clip_gradient,
        )  # fmt: skip
        return self.rule.reference(settings, own, ctx)


class MultiAdamW(Together[MultiAdamWParam]):
    """_adamw_update of every (weight, grad, mean, var), with one rescale_grad."""

    name = "_multi_adamw_update"
    rule: ClassVar[Operator[AdamWParam]] = AdamW()
    own: ClassVar[tuple[str, ...]] = ("weight", "grad", "mean", "var")
    common = ("rescale_grad",)
    per_weight = ("lrs", "wds", "etas")

    def common_size(self, p: MultiAdamWParam) -> int:
        """One scale."""
        return 1

    def one(self, p: MultiAdamWParam, i: int, own: Arrays, common: Arrays, ctx: ReferenceContext) -> Arrays:
        """The rule, with the i-th rate, decay and schedule."""
        settings = AdamWParam(
            lr=p.lrs[i], wd=p.wds[i], eta=p.etas[i], beta1=p.beta1, beta2=p.beta2,
            epsilon=p.epsilon, clip_gradient=p.clip_gradient,
        )  # fmt: skip
        return self.rule.reference(settings, [*own, *common], ctx)


class MultiMixedAdamW(MultiAdamW):
    """_mp_adamw_update of every (weight, grad, mean, var, weight32), with one rescale_grad."""

    name = "_multi_mp_adamw_update"
    rule = MixedAdamW()
    own = ("weight", "grad", "mean", "var", "weight32")
