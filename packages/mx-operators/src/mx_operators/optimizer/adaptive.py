# SPDX-License-Identifier: Apache-2.0
"""Updates with a rate per element: adam, rmsprop, rmspropalex, ftrl, ftml."""

from __future__ import annotations

import numpy as np

from mx_core.operator import Array, Arrays, opt, required
from mx_operators.optimizer.base import (
    DecayedParam,
    LazyParam,
    MomentsParam,
    RateParam,
    ScaledParam,
    Update,
    clipped,
    scaled,
)


class AdamParam(RateParam, MomentsParam, LazyParam, DecayedParam):
    """Rate, decays of the moments, scaling."""


class ClippedWeightParam(DecayedParam):
    """Decay, scaling, and a limit of the weights."""

    clip_weights: float = opt(-1.0, "limit of the weights; negative: none", runtime=True)


class RMSPropParam(ClippedWeightParam, leading=True):
    """Rate, decay, scaling."""

    lr: float = required("learning rate", runtime=True)
    gamma1: float = opt(0.95, "decay of the second moment", runtime=True)
    epsilon: float = opt(1e-8, "added to the second moment", runtime=True)


class RMSPropAlexParam(ClippedWeightParam, leading=True):
    """Rate, decays, scaling."""

    lr: float = required("learning rate", runtime=True)
    gamma1: float = opt(0.95, "decay of the moments", runtime=True)
    gamma2: float = opt(0.9, "momentum", runtime=True)
    epsilon: float = opt(1e-8, "added to the variance", runtime=True)


class FtrlParam(ScaledParam, leading=True):
    """Rate, regularisation, scaling."""

    lr: float = required("learning rate", runtime=True)
    lamda1: float = opt(0.01, "L1 regularisation", runtime=True)
    beta: float = opt(1.0, "added to the root of the sum of squares", runtime=True)
    wd: float = opt(0.0, "L2 regularisation", runtime=True)


class FTMLParam(RateParam, MomentsParam):
    """Rate, decays, step number, scaling."""

    beta1: float = opt(0.6, "decay of the first moment", runtime=True)
    t: int = required("number of this step, from 1", runtime=True, lower=1)
    wd: float = opt(0.0, "weight decay", runtime=True)
    rescale_grad: float = opt(1.0, "factor of the gradient", runtime=True)
    clip_grad: float = opt(-1.0, "limit of the gradient with decay; negative: none", runtime=True)


def decayed(p: ScaledParam, w: Array, g: Array) -> Array:
    """The gradient rescaled, with decay, then clipped."""
    return clipped(g * p.rescale_grad + p.wd * w, p.clip_gradient)


class Adam(Update[AdamParam]):
    """w − lr·mean/(√var + epsilon) with running moments; bias correction is in lr.

    Source: Kingma and Ba, Adam, ICLR 2015.
    """

    name = "adam_update"
    arguments = ("weight", "grad", "mean", "var")

    def step(self, p: AdamParam, w: Array, g: Array, *states: Array) -> Arrays:
        g = decayed(p, w, g)
        mean = p.beta1 * states[0] + (1 - p.beta1) * g
        var = p.beta2 * states[1] + (1 - p.beta2) * g * g
        return w - p.lr * mean / (np.sqrt(var) + p.epsilon), mean, var


class RMSProp(Update[RMSPropParam]):
    """w − lr·g/√(n + epsilon) with a running second moment n.

    Source: Tieleman and Hinton, Neural Networks for Machine Learning, lecture 6.5, 2012.
    """

    name = "rmsprop_update"
    arguments = ("weight", "grad", "n")

    def step(self, p: RMSPropParam, w: Array, g: Array, *states: Array) -> Arrays:
        g = decayed(p, w, g)
        n = (1 - p.gamma1) * g * g + p.gamma1 * states[0]
        return clipped(w - p.lr * g / np.sqrt(n + p.epsilon), p.clip_weights), n


class RMSPropAlex(Update[RMSPropAlexParam]):
    """RMSProp with a centred second moment and momentum.

    Source: Graves, Generating Sequences With Recurrent Neural Networks, 2013, equations 38 to 45.
    """

    name = "rmspropalex_update"
    arguments = ("weight", "grad", "n", "g", "delta")

    def step(self, p: RMSPropAlexParam, w: Array, g: Array, *states: Array) -> Arrays:
        """Two moments and a momentum."""
        n, mean, delta = states
        g = decayed(p, w, g)
        n = (1 - p.gamma1) * g * g + p.gamma1 * n
        mean = (1 - p.gamma1) * g + p.gamma1 * mean
        delta = p.gamma2 * delta - p.lr * g / np.sqrt(n - mean * mean + p.epsilon)
        return clipped(w + delta, p.clip_weights), n, mean, delta


class Ftrl(Update[FtrlParam]):
    """FTRL, "follow the regularised leader".

    Source: McMahan et al., Ad Click Prediction, KDD 2013, algorithm 1.
    """

    name = "ftrl_update"
    arguments = ("weight", "grad", "z", "n")

    def step(self, p: FtrlParam, w: Array, g: Array, *states: Array) -> Arrays:
        z, n = states
        g = scaled(p, g)
        z = z + g - (np.sqrt(n + g * g) - np.sqrt(n)) * w / p.lr
        n = n + g * g
        inside = (np.sign(z) * p.lamda1 - z) / ((p.beta + np.sqrt(n)) / p.lr + p.wd)
        return np.where(np.abs(z) <= p.lamda1, 0, inside), z, n


class FTML(Update[FTMLParam]):
    """FTML, "follow the moving leader".

    Source: Zheng and Kwok, Follow the Moving Leader in Deep Learning, ICML 2017, algorithm 1.
    """

    name = "ftml_update"
    arguments = ("weight", "grad", "d", "v", "z")

    def step(self, p: FTMLParam, w: Array, g: Array, *states: Array) -> Arrays:
        d, v, z = states
        g = clipped(g * p.rescale_grad + p.wd * w, p.clip_grad)
        v = p.beta2 * v + (1 - p.beta2) * g * g
        root = np.sqrt(v / (1 - p.beta2**p.t)) + p.epsilon
        new = (1 - p.beta1**p.t) / p.lr * root
        z = p.beta1 * z + (1 - p.beta1) * g - (new - p.beta1 * d) * w
        return -z / new, new, v, z
