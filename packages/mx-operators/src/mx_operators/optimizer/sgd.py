# SPDX-License-Identifier: Apache-2.0
"""Updates of the gradient-descent family: sgd, momentum, Nesterov, signSGD, Signum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mx_core.operator import OperatorProperty, opt, param, required
from mx_operators.optimizer.base import Update, clipped


@param
class SGDParam:
    """Rate, decay, scaling."""

    lr: float = required("learning rate", runtime=True)
    wd: float = opt(0.0, "weight decay", runtime=True)
    rescale_grad: float = opt(1.0, "factor of the gradient", runtime=True)
    clip_gradient: float = opt(-1.0, "limit of the scaled gradient; negative: none", runtime=True)
    lazy_update: bool = opt(True, "of sparse gradients, only rows that occur")


@param
class MomentumParam:
    """Rate, momentum, decay, scaling."""

    lr: float = required("learning rate", runtime=True)
    momentum: float = opt(0.0, "share of the last step that is kept", runtime=True)
    wd: float = opt(0.0, "weight decay", runtime=True)
    rescale_grad: float = opt(1.0, "factor of the gradient", runtime=True)
    clip_gradient: float = opt(-1.0, "limit of the scaled gradient; negative: none", runtime=True)
    lazy_update: bool = opt(True, "of sparse gradients, only rows that occur")


@param
class NAGParam:
    """Rate, momentum, decay, scaling."""

    lr: float = required("learning rate", runtime=True)
    momentum: float = opt(0.0, "share of the last step that is kept", runtime=True)
    wd: float = opt(0.0, "weight decay", runtime=True)
    rescale_grad: float = opt(1.0, "factor of the gradient", runtime=True)
    clip_gradient: float = opt(-1.0, "limit of the scaled gradient; negative: none", runtime=True)


@param
class SignSGDParam:
    """Rate, decay, scaling."""

    lr: float = required("learning rate", runtime=True)
    wd: float = opt(0.0, "weight decay", runtime=True)
    rescale_grad: float = opt(1.0, "factor of the gradient", runtime=True)
    clip_gradient: float = opt(-1.0, "limit of the scaled gradient; negative: none", runtime=True)


@param
class SignumParam:
    """Rate, momentum, decays, scaling."""

    lr: float = required("learning rate", runtime=True)
    momentum: float = opt(0.0, "share of the last step that is kept", runtime=True)
    wd: float = opt(0.0, "weight decay added to the gradient", runtime=True)
    rescale_grad: float = opt(1.0, "factor of the gradient", runtime=True)
    clip_gradient: float = opt(-1.0, "limit of the scaled gradient; negative: none", runtime=True)
    wd_lh: float = opt(0.0, "weight decay beside the gradient", runtime=True)


def scaled(p: Any, g: Any) -> Any:
    """The gradient, rescaled and clipped."""
    return clipped(g * p.rescale_grad, p.clip_gradient)


class SGD(Update):
    """w − lr·(g + wd·w), g rescaled and clipped."""

    name = "sgd_update"
    Param = SGDParam

    def step(self, p: Any, w: Any, g: Any, *states: Any) -> Sequence[Any]:
        """Plain descent."""
        return (w - p.lr * (scaled(p, g) + p.wd * w),)


class SGDMomentum(Update):
    """mom ← momentum·mom − lr·(g + wd·w); w + mom."""

    name = "sgd_mom_update"
    Param = MomentumParam
    arguments = ("weight", "grad", "mom")

    def step(self, p: Any, w: Any, g: Any, *states: Any) -> Sequence[Any]:
        """Heavy ball."""
        mom = p.momentum * states[0] - p.lr * (scaled(p, g) + p.wd * w)
        return w + mom, mom


class NAG(Update):
    """Nesterov: mom ← momentum·mom − lr·g; w + momentum·mom − lr·g, g with decay.

    Source: Sutskever et al., On the importance of initialization and momentum, ICML 2013.
    """

    name = "nag_mom_update"
    Param = NAGParam
    arguments = ("weight", "grad", "mom")

    def step(self, p: Any, w: Any, g: Any, *states: Any) -> Sequence[Any]:
        """Look ahead."""
        total = p.lr * (scaled(p, g) + p.wd * w)
        mom = p.momentum * states[0] - total
        return w + p.momentum * mom - total, mom


class SignSGD(Update):
    """(1 − lr·wd)·w − lr·sign(g).

    Source: Bernstein et al., signSGD, ICML 2018.
    """

    name = "signsgd_update"
    Param = SignSGDParam

    def step(self, p: Any, w: Any, g: Any, *states: Any) -> Sequence[Any]:
        """Only the sign counts."""
        return ((1 - p.lr * p.wd) * w - p.lr * np.sign(g),)


class Signum(Update):
    """mom ← momentum·mom − (1 − momentum)·(g + wd·w); (1 − lr·wd_lh)·w + lr·sign(mom)."""

    name = "signum_update"
    Param = SignumParam
    arguments = ("weight", "grad", "mom")

    def step(self, p: Any, w: Any, g: Any, *states: Any) -> Sequence[Any]:
        """The sign of the momentum."""
        mom = p.momentum * states[0] - (1 - p.momentum) * (scaled(p, g) + p.wd * w)
        return (1 - p.lr * p.wd_lh) * w + p.lr * np.sign(mom), mom


OPERATORS: tuple[type[OperatorProperty], ...] = (SGD, SGDMomentum, NAG, SignSGD, Signum)
