# SPDX-License-Identifier: Apache-2.0
"""Updates of several weights whose rates, decays or scale come as arrays behind them."""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

from mx_core.operator import Arrays, Operator, ReferenceContext, Shapes, Types, opt, required
from mx_core.operator.declaration import MAX_TENSORS
from mx_operators.optimizer.adamw import AdamW, AdamWParam, MixedAdamW
from mx_operators.optimizer.base import CountParam
from mx_operators.optimizer.mixed import MixedSGD, MixedSGDMomentum
from mx_operators.optimizer.sgd import SGD, SGDMomentum


class PreloadedParam(CountParam, leading=True):
    """Scaling."""

    rescale_grad: float = opt(1.0, "factor of the gradients", runtime=True)
    clip_gradient: float = opt(-1.0, "limit of the scaled gradients; negative: none", runtime=True)
    num_weights: int = opt(1, "number of weights", lower=1, upper=MAX_TENSORS // 8)


class PreloadedMomentumParam(PreloadedParam, leading=True):
    """Momentum, scaling."""

    momentum: float = opt(0.0, "share of the last step that is kept", runtime=True)


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


C = TypeVar("C", bound=CountParam)


class Together(Operator[C]):
    """Arrays weight by weight (`own`), then arrays that all weights share (`common`)."""

    floating_only = True
    differentiable = False
    custom_gradient = True
    variadic = "num_args"
    #: names of what every weight brings; weight and grad first, states behind
    own: ClassVar[tuple[str, ...]]
    common: ClassVar[tuple[str, ...]] = ()
    #: the parameter that counts weights, and those with an element per weight
    count: ClassVar[str] = "num_weights"
    per_weight: ClassVar[tuple[str, ...]] = ()

    def _n(self, p: C) -> int:
        return int(getattr(p, self.count))

    def inputs(self, p: C) -> tuple[str, ...]:
        """weight_0, grad_0, …, weight_1, …, then what is shared."""
        return (*(f"{name}_{i}" for i in range(self._n(p)) for name in self.own), *self.common)

    def outputs(self, p: C) -> tuple[str, ...]:
        return tuple(f"output{i}" for i in range(self._n(p)))

    def mutated_inputs(self, p: C) -> tuple[int, ...]:
        k = len(self.own)
        return tuple(i for i in range(k * self._n(p)) if i % k >= 2)

    def inplace(self, p: C) -> tuple[tuple[int, int], ...]:
        return tuple((i * len(self.own), i) for i in range(self._n(p)))

    def common_size(self, p: C) -> int:
        """Elements of each shared array."""
        return self._n(p)

    def infer_shape(self, p: C, s: Shapes) -> None:
        """Everything of one weight alike."""
        n, k = self._n(p), len(self.own)
        total = n * k + len(self.common)
        if p.num_args not in (0, total):
            raise s.error(
                f"expected {total} arrays: {k} for each of {n} weights, {self.common}, got {p.num_args}"
            )
        for name in self.per_weight:
            if len(getattr(p, name)) != n:
                raise s.error(f"{name}: expected {n} values, got {getattr(p, name)}")
        for i in range(n):
            s.unify([*(f"{name}_{i}" for name in self.own), f"output{i}"])
        for name in self.common:
            s.assign(name, (self.common_size(p),))

    def infer_type(self, p: C, t: Types) -> None:
        """States as the weight, or float32 with a master copy; what is shared in float32 unless given."""
        for i in range(self._n(p)):
            states = [f"{name}_{i}" for name in self.own[2:]]
            alike = [f"weight_{i}", f"grad_{i}", f"output{i}"]
            if "weight32" not in self.own:
                t.unify([*alike, *states])
                continue
            t.unify(alike)
            for name in states:
                t.assign(name, "float32")
        for name in self.common:
            if t.get(name) is None:
                t.assign(name, "float32")

    def one(self, p: C, i: int, own: Arrays, common: Arrays, ctx: ReferenceContext) -> Arrays:
        """New weight and states of the i-th weight."""
        raise NotImplementedError

    def reference(self, p: C, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        n, k = self._n(p), len(self.own)
        new = [self.one(p, i, inputs[i * k : (i + 1) * k], inputs[n * k :], ctx) for i in range(n)]
        return (*(x[0] for x in new), *(state for x in new for state in x[1:]))


class Preloaded(Together[S]):
    """An update of every weight with the arrays lrs and wds."""

    rule: ClassVar[Operator[Any]]
    common = ("lrs", "wds")

    def one(self, p: S, i: int, own: Arrays, common: Arrays, ctx: ReferenceContext) -> Arrays:
        """The rule, with the i-th rate and decay."""
        attrs = {"rescale_grad": p.rescale_grad, "clip_gradient": p.clip_gradient}
        if isinstance(p, PreloadedMomentumParam):
            attrs["momentum"] = p.momentum
        settings = self.rule.Param(lr=float(common[0][i]), wd=float(common[1][i]), **attrs)
        return self.rule.reference(settings, own, ctx)


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
