# SPDX-License-Identifier: Apache-2.0
"""Updates of several weights at once: what they share, and SGD with a rate and a decay per weight."""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

from mx_core.operator import Arrays, Operator, Params, ReferenceContext, Shapes, Types, opt, required
from mx_core.operator.declaration import MAX_TENSORS
from mx_operators.optimizer.base import MomentumParam, Update
from mx_operators.optimizer.mixed import MixedSGD, MixedSGDMomentum
from mx_operators.optimizer.sgd import SGD, SGDMomentum


class CountParam(Params):
    """How many arrays an update of several weights takes."""

    num_args: int = opt(0, "number of arrays; 0: as num_weights says", lower=0)


class WeightsParam(CountParam, leading=True):
    """Scaling, and how many weights."""

    rescale_grad: float = opt(1.0, "factor of the gradients", runtime=True)
    clip_gradient: float = opt(-1.0, "limit of the scaled gradients; negative: none", runtime=True)
    num_weights: int = opt(1, "number of weights", lower=1, upper=MAX_TENSORS // 4)


class RatesParam(Params):
    """A rate and a decay per weight."""

    lrs: tuple[float, ...] = required("learning rate of each weight")
    wds: tuple[float, ...] = required("weight decay of each weight")


class MultiSGDParam(RatesParam, WeightsParam):
    """A rate and a decay per weight; scaling."""


class MultiMomentumParam(RatesParam, MomentumParam, WeightsParam):
    """A rate and a decay per weight; momentum, scaling."""


C = TypeVar("C", bound=CountParam)
W = TypeVar("W", bound=WeightsParam)
R = TypeVar("R", MultiSGDParam, MultiMomentumParam)


class Together(Operator[C]):
    """Arrays weight by weight (`own`), then arrays that all weights share (`common`)."""

    floating_only = True
    differentiable = False
    custom_gradient = True
    variadic = "num_args"
    #: names of what every weight brings; weight and grad first, then states
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
            shared = f" and {', '.join(self.common)}" if self.common else ""
            raise s.error(f"expected {total} arrays, {k} for each of {n} weights{shared}, got {p.num_args}")
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


class SGDTogether(Together[W]):
    """An update of the gradient-descent family, applied to every weight."""

    rule: ClassVar[Update[Any]]

    def rates(self, p: W, i: int, common: Arrays) -> tuple[float, float]:
        """Rate and decay of the i-th weight."""
        raise NotImplementedError

    def one(self, p: W, i: int, own: Arrays, common: Arrays, ctx: ReferenceContext) -> Arrays:
        lr, wd = self.rates(p, i, common)
        attrs = {"rescale_grad": p.rescale_grad, "clip_gradient": p.clip_gradient}
        if isinstance(p, MomentumParam):
            attrs["momentum"] = p.momentum
        return self.rule.reference(self.rule.Param(lr=lr, wd=wd, **attrs), own, ctx)


class MultiUpdate(SGDTogether[R]):
    """An update of every weight with the parameters lrs and wds."""

    per_weight = ("lrs", "wds")

    def rates(self, p: R, i: int, common: Arrays) -> tuple[float, float]:
        return p.lrs[i], p.wds[i]


class MultiSGD(MultiUpdate[MultiSGDParam]):
    """sgd_update of every (weight, grad)."""

    name = "multi_sgd_update"
    rule = SGD()
    own = ("weight", "grad")


class MultiSGDMomentum(MultiUpdate[MultiMomentumParam]):
    """sgd_mom_update of every (weight, grad, mom)."""

    name = "multi_sgd_mom_update"
    rule = SGDMomentum()
    own = ("weight", "grad", "mom")


class MultiMixedSGD(MultiUpdate[MultiSGDParam]):
    """mp_sgd_update of every (weight, grad, weight32)."""

    name = "multi_mp_sgd_update"
    rule = MixedSGD()
    own = ("weight", "grad", "weight32")


class MultiMixedSGDMomentum(MultiUpdate[MultiMomentumParam]):
    """mp_sgd_mom_update of every (weight, grad, mom, weight32)."""

    name = "multi_mp_sgd_mom_update"
    rule = MixedSGDMomentum()
    own = ("weight", "grad", "mom", "weight32")
