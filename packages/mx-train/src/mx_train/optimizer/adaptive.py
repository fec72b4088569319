# SPDX-License-Identifier: Apache-2.0
"""Optimizers with a rate per element."""

from __future__ import annotations

import math
from typing import Any

from mx_ndarray import NDArray, nd
from mx_train.optimizer.optimizer import Optimizer, State, zeros_like


class Adam(Optimizer):
    """Adaptive moments.

    Source: Kingma and Ba, Adam, ICLR 2015.
    """

    def __init__(
        self,
        learning_rate: float | None = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        lazy_update: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1, self.beta2, self.epsilon, self.lazy_update = beta1, beta2, epsilon, lazy_update

    def create_state(self, index: Any, weight: NDArray) -> State:
        """Mean and variance."""
        return zeros_like(weight), zeros_like(weight)

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: State) -> None:
        """One operator; the bias correction is in the rate."""
        common = self._common(index)
        t = self._index_update_count[index]
        common["lr"] *= math.sqrt(1 - self.beta2**t) / (1 - self.beta1**t)
        nd.adam_update(
            weight, grad, *state, out=weight,
            beta1=self.beta1, beta2=self.beta2, epsilon=self.epsilon, **common,
        )  # fmt: skip


class RMSProp(Optimizer):
    """Running second moment; with `centered` Graves' variant.

    Source: Tieleman and Hinton, lecture 6.5, 2012; Graves, Generating Sequences, 2013.
    """

    def __init__(
        self,
        learning_rate: float | None = 0.001,
        gamma1: float = 0.9,
        gamma2: float = 0.9,
        epsilon: float = 1e-8,
        centered: bool = False,
        clip_weights: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.gamma1, self.gamma2, self.epsilon = gamma1, gamma2, epsilon
        self.centered, self.clip_weights = centered, clip_weights

    def create_state(self, index: Any, weight: NDArray) -> State:
        """n, and with centered mean and delta."""
        return tuple(zeros_like(weight) for _ in range(3 if self.centered else 1))

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: State) -> None:
        """One operator."""
        common = self._common(index) | {"gamma1": self.gamma1, "epsilon": self.epsilon}
        if self.clip_weights is not None:
            common["clip_weights"] = self.clip_weights
        if self.centered:
            nd.rmspropalex_update(weight, grad, *state, out=weight, gamma2=self.gamma2, **common)
        else:
            nd.rmsprop_update(weight, grad, *state, out=weight, **common)


class Ftrl(Optimizer):
    """Follow the regularised leader.

    Source: McMahan et al., Ad Click Prediction, KDD 2013.
    """

    def __init__(
        self, lamda1: float = 0.01, learning_rate: float | None = 0.1, beta: float = 1.0, **kwargs: Any
    ) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.lamda1, self.beta = lamda1, beta

    def create_state(self, index: Any, weight: NDArray) -> State:
        """z and n."""
        return zeros_like(weight), zeros_like(weight)

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: State) -> None:
        """One operator."""
        common = self._common(index)
        nd.ftrl_update(weight, grad, *state, out=weight, lamda1=self.lamda1, beta=self.beta, **common)


class AdaGrad(Optimizer):
    """Rates fall with the sum of squared gradients.

    Source: Duchi, Hazan and Singer, Adaptive Subgradient Methods, JMLR 12, 2011.
    """

    def __init__(self, learning_rate: float | None = None, eps: float = 1e-7, **kwargs: Any) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.float_stable_eps = eps

    def create_state(self, index: Any, weight: NDArray) -> State:
        """The sum of squares."""
        return zeros_like(weight)

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: State) -> None:
        """Composed of elementwise operators."""
        common = self._common(index)
        g = grad * common["rescale_grad"]
        if self.clip_gradient is not None:
            g = nd.clip(g, -self.clip_gradient, self.clip_gradient)
        g = g + common["wd"] * weight
        state += nd.square(g)
        weight -= common["lr"] * g / (nd.sqrt(state) + self.float_stable_eps)


class AdaDelta(Optimizer):
    """Rates from running squares of gradients and of steps.

    Source: Zeiler, ADADELTA, 2012.
    """

    def __init__(
        self, learning_rate: float | None = 1.0, rho: float = 0.9, epsilon: float = 1e-5, **kwargs: Any
    ) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.rho, self.epsilon = rho, epsilon

    def create_state(self, index: Any, weight: NDArray) -> State:
        """Squares of gradients and of steps."""
        return zeros_like(weight), zeros_like(weight)

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: State) -> None:
        """Composed of elementwise operators."""
        common = self._common(index)
        squares, steps = state
        g = grad * common["rescale_grad"]
        if self.clip_gradient is not None:
            g = nd.clip(g, -self.clip_gradient, self.clip_gradient)
        squares[:] = self.rho * squares + (1 - self.rho) * nd.square(g)
        step = nd.sqrt(steps + self.epsilon) / nd.sqrt(squares + self.epsilon) * g
        steps[:] = self.rho * steps + (1 - self.rho) * nd.square(step)
        weight[:] = weight - common["wd"] * weight - step
