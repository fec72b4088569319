# SPDX-License-Identifier: Apache-2.0
"""Updates of several weights at once, with a rate and a decay per weight."""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

from mx_core.operator import Array, Arrays, Operator, ReferenceContext, Shapes, Types, opt, required
from mx_core.operator.declaration import MAX_TENSORS
from mx_operators.optimizer.base import CountParam, Update
from mx_operators.optimizer.mixed import MixedSGD, MixedSGDMomentum, MixedUpdate
from mx_operators.optimizer.sgd import SGD, SGDMomentum


class WeightsParam(CountParam, leading=True):
    """Scaling, and how many weights."""

    rescale_grad: float = opt(1.0, "factor of the gradients", runtime=True)
    clip_gradient: float = opt(-1.0, "limit of the scaled gradients; negative: none", runtime=True)
    num_weights: int = opt(1, "number of weights", lower=1, upper=MAX_TENSORS // 4)


class MultiSGDParam(WeightsParam, leading=True):
    """A rate and a decay per weight; scaling."""

    lrs: tuple[float, ...] = required("learning rate of each weight")
    wds: tuple[float, ...] = required("weight decay of each weight")


class MultiMomentumParam(MultiSGDParam, leading=True):
    """A rate and a decay per weight; momentum, scaling."""

    lrs: tuple[float, ...] = required("learning rate of each weight")
    wds: tuple[float, ...] = required("weight decay of each weight")
    momentum: float = opt(0.0, "share of the last step that is kept", runtime=True)


M = TypeVar("M", bound=MultiSGDParam)


class MultiUpdate(Operator[M]):
    """One update applied to several weights; the arrays of one weight follow each other."""

    floating_only = True
    differentiable = False
    custom_gradient = True
    variadic = "num_args"
    #: the update, whose inputs every weight brings
    rule: ClassVar[Update[Any]]

    def inputs(self, p: M) -> tuple[str, ...]:
        """weight_0, grad_0, …, weight_1, …"""
        return tuple(f"{name}_{i}" for i in range(p.num_weights) for name in self.rule.arguments)

    def outputs(self, p: M) -> tuple[str, ...]:
        return tuple(f"output{i}" for i in range(p.num_weights))

    def mutated_inputs(self, p: M) -> tuple[int, ...]:
        k = len(self.rule.arguments)
        return tuple(i for i in range(k * p.num_weights) if i % k >= 2)

    def inplace(self, p: M) -> tuple[tuple[int, int], ...]:
        return tuple((i * len(self.rule.arguments), i) for i in range(p.num_weights))

    def _each(self, p: M) -> list[list[str]]:
        return [
            [*(f"{name}_{i}" for name in self.rule.arguments), f"output{i}"] for i in range(p.num_weights)
        ]

    def infer_shape(self, p: M, s: Shapes) -> None:
        """Everything of one weight alike."""
        n, k = p.num_weights, len(self.rule.arguments)
        if p.num_args not in (0, n * k):
            raise s.error(f"expected {n * k} arrays, {k} for each of {n} weights, got {p.num_args}")
        if len(p.lrs) != n or len(p.wds) != n:
            raise s.error(f"lrs and wds: expected {n} values each, got {p.lrs} and {p.wds}")
        for names in self._each(p):
            s.unify(names)

    def infer_type(self, p: M, t: Types) -> None:
        """As the update of one weight."""
        for names in self._each(p):
            if not isinstance(self.rule, MixedUpdate):
                t.unify(names)
                continue
            t.unify([*names[:2], names[-1]])
            for name in names[2:-1]:
                t.assign(name, "float32")

    def reference(self, p: M, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        k = len(self.rule.arguments)
        weights: list[Array] = []
        states: list[Array] = []
        for i, (lr, wd) in enumerate(zip(p.lrs, p.wds, strict=True)):
            attrs = {"lr": lr, "wd": wd, "rescale_grad": p.rescale_grad, "clip_gradient": p.clip_gradient}
            if isinstance(p, MultiMomentumParam):
                attrs["momentum"] = p.momentum
            new = self.rule.reference(self.rule.Param(**attrs), inputs[i * k : (i + 1) * k], ctx)
            weights.append(new[0])
            states += new[1:]
        return (*weights, *states)


class MultiSGD(MultiUpdate[MultiSGDParam]):
    """sgd_update of every (weight, grad)."""

    name = "multi_sgd_update"
    rule = SGD()


class MultiSGDMomentum(MultiUpdate[MultiMomentumParam]):
    """sgd_mom_update of every (weight, grad, mom)."""

    name = "multi_sgd_mom_update"
    rule = SGDMomentum()


class MultiMixedSGD(MultiUpdate[MultiSGDParam]):
    """mp_sgd_update of every (weight, grad, weight32)."""

    name = "multi_mp_sgd_update"
    rule = MixedSGD()


class MultiMixedSGDMomentum(MultiUpdate[MultiMomentumParam]):
    """mp_sgd_mom_update of every (weight, grad, mom, weight32)."""

    name = "multi_mp_sgd_mom_update"
    rule = MixedSGDMomentum()
