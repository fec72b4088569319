# SPDX-License-Identifier: Apache-2.0
"""Updates of the gradient-descent family: sgd, momentum, Nesterov, signSGD, Signum."""

from __future__ import annotations

import numpy as np

from mx_core.operator import Array, Arrays, opt
from mx_operators.optimizer.base import LazyParam, MomentumParam, RateParam, ScaledParam, Update, scaled


class SGDParam(RateParam, LazyParam):
    """Rate, decay, scaling."""


class SGDMomentumParam(RateParam, MomentumParam, LazyParam):
    """Rate, momentum, decay, scaling."""


class NAGParam(RateParam, MomentumParam, ScaledParam):
    """Rate, momentum, decay, scaling."""


class SignSGDParam(RateParam, ScaledParam):
    """Rate, decay, scaling."""


class SignumParam(RateParam, MomentumParam, ScaledParam):
    """Rate, momentum, two decays, scaling."""

    wd: float = opt(0.0, "weight decay added to the gradient", runtime=True)
    wd_lh: float = opt(0.0, "weight decay of the weight itself", runtime=True)


class SGD(Update[SGDParam]):
    """w − lr·(g + wd·w), g rescaled and clipped."""

    name = "sgd_update"

    def step(self, p: SGDParam, w: Array, g: Array, *states: Array) -> Arrays:
        return (w - p.lr * (scaled(p, g) + p.wd * w),)


class SGDMomentum(Update[SGDMomentumParam]):
    """mom ← momentum·mom − lr·(g + wd·w); w + mom."""

    name = "sgd_mom_update"
    arguments = ("weight", "grad", "mom")

    def step(self, p: SGDMomentumParam, w: Array, g: Array, *states: Array) -> Arrays:
        mom = p.momentum * states[0] - p.lr * (scaled(p, g) + p.wd * w)
        return w + mom, mom


class Nesterov(Update[NAGParam]):
    """mom ← momentum·mom − lr·g; w + momentum·mom − lr·g, g with decay.

    Source: Sutskever et al., On the importance of initialization and momentum, ICML 2013.
    """

    arguments = ("weight", "grad", "mom")

    def step(self, p: NAGParam, w: Array, g: Array, *states: Array) -> Arrays:
        total = p.lr * (scaled(p, g) + p.wd * w)
        mom = p.momentum * states[0] - total
        return w + p.momentum * mom - total, mom


class NAG(Nesterov):
    """Nesterov: mom ← momentum·mom − lr·g; w + momentum·mom − lr·g, g with decay.

    Source: Sutskever et al., On the importance of initialization and momentum, ICML 2013.
    """

    name = "nag_mom_update"


class SignSGD(Update[SignSGDParam]):
    """(1 − lr·wd)·w − lr·sign(g).

    Source: Bernstein et al., signSGD, ICML 2018.
    """

    name = "signsgd_update"

    def step(self, p: SignSGDParam, w: Array, g: Array, *states: Array) -> Arrays:
        return ((1 - p.lr * p.wd) * w - p.lr * np.sign(g),)


class Signum(Update[SignumParam]):
    """mom ← momentum·mom − (1 − momentum)·(g + wd·w); (1 − lr·wd_lh)·w + lr·sign(mom)."""

    name = "signum_update"
    arguments = ("weight", "grad", "mom")

    def step(self, p: SignumParam, w: Array, g: Array, *states: Array) -> Arrays:
        """The sign of the momentum."""
        mom = p.momentum * states[0] - (1 - p.momentum) * (scaled(p, g) + p.wd * w)
        return (1 - p.lr * p.wd_lh) * w + p.lr * np.sign(mom), mom
