# SPDX-License-Identifier: Apache-2.0
"""Updates of 16-bit weights beside a float32 master copy, and of several weights at once.

Source: Micikevicius et al., Mixed Precision Training, ICLR 2018.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from mx_core.operator import OperatorProperty, opt, param, required
from mx_core.operator.property import MAX_TENSORS, ReferenceContext
from mx_operators.optimizer.base import Update
from mx_operators.optimizer.sgd import NAG, SGD, NAGParam, SGDMomentum, SGDParam
from mx_operators.optimizer.sgd import MomentumParam as SGDMomentumParam


def master_step(rule: Update, p: Any, inputs: Sequence[Any]) -> tuple[Any, ...]:
    """One step of `rule` on weight, grad, states, weight32: new weight, states, weight32."""
    weight, grad, *states, master = inputs
    new = rule.step(p, master, grad.astype(np.float32), *states)
    master, *states = (np.asarray(x, np.float32) for x in new)
    return (master.astype(weight.dtype), *states, master)


class MixedUpdate(Update):
    """An update computed in float32: weight and grad of any type, states and weight32 in float32."""

    rule: ClassVar[Update]

    def infer_type(self, p: Any, t: Any) -> None:
        """States in float32."""
        t.unify(["weight", "grad", "output"])
        for name in self.arguments[2:]:
            t.assign(name, "float32")

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """One step on the master copy, which is then rounded."""
        return master_step(self.rule, p, inputs)


class MixedSGD(MixedUpdate):
    """sgd_update on weight32; weight is its rounded copy."""

    name = "mp_sgd_update"
    Param = SGDParam
    arguments = ("weight", "grad", "weight32")
    rule = SGD()


class MixedSGDMomentum(MixedUpdate):
    """sgd_mom_update on weight32; weight is its rounded copy."""

    name = "mp_sgd_mom_update"
    Param = SGDMomentumParam
    arguments = ("weight", "grad", "mom", "weight32")
    rule = SGDMomentum()


class DecayedLate(NAG):
    """NAG whose momentum keeps the decay of the new weight; so does MXNet's mixed-precision update."""

    def step(self, p: Any, w: Any, g: Any, *states: Any) -> Sequence[Any]:
        """Look ahead."""
        new, mom = super().step(p, w, g, *states)
        return new, mom - p.lr * p.wd * (new - w)


class MixedNAG(MixedUpdate):
    """nag_mom_update on weight32; weight is its rounded copy, and the momentum decays with the new weight."""

    name = "mp_nag_mom_update"
    Param = NAGParam
    arguments = ("weight", "grad", "mom", "weight32")
    rule = DecayedLate()


@param
class MultiSGDParam:
    """A rate and a decay per weight; scaling."""

    lrs: tuple[float, ...] = required("learning rate of each weight")
    wds: tuple[float, ...] = required("weight decay of each weight")
    rescale_grad: float = opt(1.0, "factor of the gradients", runtime=True)
    clip_gradient: float = opt(-1.0, "limit of the scaled gradients; negative: none", runtime=True)
    num_weights: int = opt(1, "number of weights", lower=1, upper=MAX_TENSORS // 4)
    num_args: int = opt(0, "number of arrays; 0: as num_weights says", lower=0)


@param
class MultiMomentumParam:
    """A rate and a decay per weight; momentum, scaling."""

    lrs: tuple[float, ...] = required("learning rate of each weight")
    wds: tuple[float, ...] = required("weight decay of each weight")
    momentum: float = opt(0.0, "share of the last step that is kept", runtime=True)
    rescale_grad: float = opt(1.0, "factor of the gradients", runtime=True)
    clip_gradient: float = opt(-1.0, "limit of the scaled gradients; negative: none", runtime=True)
    num_weights: int = opt(1, "number of weights", lower=1, upper=MAX_TENSORS // 4)
    num_args: int = opt(0, "number of arrays; 0: as num_weights says", lower=0)


class MultiUpdate(OperatorProperty):
    """One update applied to several weights; the arrays of one weight follow each other."""

    floating_only = True
    variadic = "num_args"
    #: the update, whose inputs every weight brings
    rule: ClassVar[Update]

    def inputs(self, p: Any) -> tuple[str, ...]:
        """weight_0, grad_0, …, weight_1, …"""
        return tuple(f"{name}_{i}" for i in range(p.num_weights) for name in self.rule.arguments)

    def outputs(self, p: Any) -> tuple[str, ...]:
        """One per weight."""
        return tuple(f"output{i}" for i in range(p.num_weights))

    def mutated_inputs(self, p: Any) -> tuple[int, ...]:
        """All states."""
        k = len(self.rule.arguments)
        return tuple(i for i in range(k * p.num_weights) if i % k >= 2)

    def inplace(self, p: Any) -> tuple[tuple[int, int], ...]:
        """Each weight."""
        return tuple((i * len(self.rule.arguments), i) for i in range(p.num_weights))

    def _each(self, p: Any) -> list[list[str]]:
        return [
            [*(f"{name}_{i}" for name in self.rule.arguments), f"output{i}"] for i in range(p.num_weights)
        ]

    def infer_shape(self, p: Any, s: Any) -> None:
        """Everything of one weight alike."""
        n, k = p.num_weights, len(self.rule.arguments)
        if p.num_args not in (0, n * k):
            raise s.error(f"expected {n * k} arrays, {k} for each of {n} weights, got {p.num_args}")
        if len(p.lrs) != n or len(p.wds) != n:
            raise s.error(f"lrs and wds: expected {n} values each, got {p.lrs} and {p.wds}")
        for names in self._each(p):
            s.unify(names)

    def infer_type(self, p: Any, t: Any) -> None:
        """As the update of one weight."""
        for names in self._each(p):
            if not isinstance(self.rule, MixedUpdate):
                t.unify(names)
                continue
            t.unify([*names[:2], names[-1]])
            for name in names[2:-1]:
                t.assign(name, "float32")

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """Weight by weight."""
        k = len(self.rule.arguments)
        weights: list[Any] = []
        states: list[Any] = []
        for i, (lr, wd) in enumerate(zip(p.lrs, p.wds, strict=True)):
            attrs = {"lr": lr, "wd": wd, "rescale_grad": p.rescale_grad, "clip_gradient": p.clip_gradient}
            if hasattr(p, "momentum"):
                attrs["momentum"] = p.momentum
            new = self.rule.reference(self.rule.Param(**attrs), inputs[i * k : (i + 1) * k], ctx)
            weights.append(new[0])
            states += new[1:]
        return (*weights, *states)


class MultiSGD(MultiUpdate):
    """sgd_update of every (weight, grad)."""

    name = "multi_sgd_update"
    Param = MultiSGDParam
    rule = SGD()


class MultiSGDMomentum(MultiUpdate):
    """sgd_mom_update of every (weight, grad, mom)."""

    name = "multi_sgd_mom_update"
    Param = MultiMomentumParam
    rule = SGDMomentum()


class MultiMixedSGD(MultiUpdate):
    """mp_sgd_update of every (weight, grad, weight32)."""

    name = "multi_mp_sgd_update"
    Param = MultiSGDParam
    rule = MixedSGD()


class MultiMixedSGDMomentum(MultiUpdate):
    """mp_sgd_mom_update of every (weight, grad, mom, weight32)."""

    name = "multi_mp_sgd_mom_update"
    Param = MultiMomentumParam
    rule = MixedSGDMomentum()


OPERATORS: tuple[type[OperatorProperty], ...] = (
    MixedSGD, MixedSGDMomentum, MixedNAG,
    MultiSGD, MultiSGDMomentum, MultiMixedSGD, MultiMixedSGDMomentum,
)  # fmt: skip
