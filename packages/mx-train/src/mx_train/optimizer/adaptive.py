# SPDX-License-Identifier: Apache-2.0
"""Optimizers with a rate per element."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from mx_ndarray import NDArray, nd
from mx_train.optimizer import together
from mx_train.optimizer.base import Index, Optimizer, State, zeros_like


class Adam(Optimizer):
    """Adam: a rate per element, from running moments of the gradient.

    Source: Kingma and Ba, Adam, ICLR 2015.
    """

    _numbers_by_rate = True

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

    def create_state(self, index: Index, weight: NDArray) -> State:
        """Mean and variance."""
        return zeros_like(weight), zeros_like(weight)

    def update(self, index: Index, weight: NDArray, grad: NDArray, state: State) -> None:
        """One operator; the bias correction is in the rate."""
        common = self._common(index)
        common["lr"] *= self._rate_factor(self._index_update_count[index])
        nd.adam_update(
            weight, grad, *self._kept(state), out=weight,
            beta1=self.beta1, beta2=self.beta2, epsilon=self.epsilon, **common,
        )  # fmt: skip

    def update_together(
        self,
        indices: Sequence[Index],
        weights: Sequence[NDArray],
        grads: Sequence[NDArray],
        states: Sequence[State],
    ) -> None:
        """One operator for all weights, where they are float32."""
        if type(self).update is not Adam.update or not together.alike(weights, grads):
            super().update_together(indices, weights, grads, states)
            return
        rates, decays = together.rates_and_decays(self, indices)
        counts = self._index_update_count
        corrected = [rate * self._rate_factor(counts[i]) for rate, i in zip(rates, indices, strict=True)]
        arrays = [(w, g, *self._kept(s)) for w, g, s in zip(weights, grads, states, strict=True)]
        together.step(
            nd._internal._preloaded_multi_adam_update, self, arrays, corrected, decays,
            beta1=self.beta1, beta2=self.beta2, epsilon=self.epsilon,
        )  # fmt: skip

    def _rate_factor(self, count: int) -> float:
        """Makes up for moments that began with zeros."""
        return math.sqrt(1 - self.beta2**count) / (1 - self.beta1**count)


class RMSProp(Optimizer):
    """RMSProp: rates fall with a running mean of squared gradients. `centered` chooses Graves' variant.

    Source: Tieleman and Hinton, lecture 6.5, 2012; Graves, Generating Sequences, 2013.
    """

    _numbers_by_rate = True

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

    def create_state(self, index: Index, weight: NDArray) -> State:
        """n, and with centered mean and delta."""
        return tuple(zeros_like(weight) for _ in range(3 if self.centered else 1))

    def update(self, index: Index, weight: NDArray, grad: NDArray, state: State) -> None:
        """One operator."""
        common = self._common(index) | {"gamma1": self.gamma1, "epsilon": self.epsilon}
        if self.clip_weights:  # as in MXNet, 0 is no limit
            common["clip_weights"] = self.clip_weights
        if self.centered:
            nd.rmspropalex_update(weight, grad, *self._kept(state), out=weight, gamma2=self.gamma2, **common)
        else:
            nd.rmsprop_update(weight, grad, *self._kept(state), out=weight, **common)


class Ftrl(Optimizer):
    """FTRL, "follow the regularised leader": L1 regularisation makes weights 0.

    Source: McMahan et al., Ad Click Prediction, KDD 2013. With a schedule, the rate is that of the schedule alone.
    """

    _numbers_by_rate = True

    def __init__(
        self, lamda1: float = 0.01, learning_rate: float | None = 0.1, beta: float = 1.0, **kwargs: Any
    ) -> None:
        scheduled = kwargs.get("lr_scheduler") is not None  # a schedule keeps its own rate, as in MXNet
        super().__init__(learning_rate=None if scheduled else learning_rate, **kwargs)
        self.lamda1, self.beta = lamda1, beta

    def create_state(self, index: Index, weight: NDArray) -> State:
        """z and n."""
        return zeros_like(weight), zeros_like(weight)

    def update(self, index: Index, weight: NDArray, grad: NDArray, state: State) -> None:
        """One operator."""
        common = self._common(index)
        nd.ftrl_update(
            weight, grad, *self._kept(state), out=weight, lamda1=self.lamda1, beta=self.beta, **common
        )


class AdaGrad(Optimizer):
    """AdaGrad: rates fall with the sum of squared gradients.

    Source: Duchi, Hazan and Singer, Adaptive Subgradient Methods, JMLR 12, 2011.
    """

    _numbers_by_rate = True

    def __init__(self, eps: float = 1e-7, *, learning_rate: float | None = None, **kwargs: Any) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.float_stable_eps = eps

    def create_state(self, index: Index, weight: NDArray) -> State:
        """The sum of squares."""
        return zeros_like(weight)

    def update(self, index: Index, weight: NDArray, grad: NDArray, state: State) -> None:
        """Composed of elementwise operators."""
        common = self._common(index)
        g = self._scaled(grad, common)
        squares = self._kept(state)
        squares += nd.square(g)
        weight -= common["lr"] * (g / nd.sqrt(squares + self.float_stable_eps) + common["wd"] * weight)


class AdaDelta(Optimizer):
    """AdaDelta: rates from running means of squared gradients and of squared steps.

    Source: Zeiler, ADADELTA, 2012.
    """

    _numbers_by_rate = True

    def __init__(
        self, rho: float = 0.9, epsilon: float = 1e-5, *, learning_rate: float | None = 1.0, **kwargs: Any
    ) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.rho, self.epsilon = rho, epsilon

    def create_state(self, index: Index, weight: NDArray) -> State:
        """Squares of gradients and of steps."""
        return zeros_like(weight), zeros_like(weight)

    def update(self, index: Index, weight: NDArray, grad: NDArray, state: State) -> None:
        """Composed of elementwise operators."""
        common = self._common(index)
        squares, steps = self._kept(state)
        g = self._scaled(grad, common)
        squares[:] = self.rho * squares + (1 - self.rho) * nd.square(g)
        step = nd.sqrt(steps + self.epsilon) / nd.sqrt(squares + self.epsilon) * g
        steps[:] = self.rho * steps + (1 - self.rho) * nd.square(step)
        weight[:] = weight - common["wd"] * weight - step


class Adamax(Optimizer):
    """Adamax: Adam with a decaying maximum of gradients instead of their mean square.

    Source: Kingma and Ba, Adam, ICLR 2015, section 7.1.
    """

    def __init__(
        self, learning_rate: float | None = 0.002, beta1: float = 0.9, beta2: float = 0.999, **kwargs: Any
    ) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1, self.beta2 = beta1, beta2

    def create_state(self, index: Index, weight: NDArray) -> State:
        """Mean, and the decaying maximum."""
        return zeros_like(weight), zeros_like(weight)

    def update(self, index: Index, weight: NDArray, grad: NDArray, state: State) -> None:
        """Composed of elementwise operators."""
        common = self._common(index)
        g = self._decayed(grad, weight, common)
        mean, largest = self._kept(state)
        mean[:] = self.beta1 * mean + (1 - self.beta1) * g
        largest[:] = nd.maximum(self.beta2 * largest, nd.abs(g))
        rate = common["lr"] / (1 - self.beta1 ** self._index_update_count[index])
        weight -= rate * mean / (largest + 1e-8)


class Nadam(Optimizer):
    """Nadam: Adam with Nesterov's momentum. The schedule of the momentum is kept per parameter.

    Source: Dozat, Incorporating Nesterov Momentum into Adam, 2016.
    """

    def __init__(
        self,
        learning_rate: float | None = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        schedule_decay: float = 0.004,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1, self.beta2, self.epsilon, self.schedule_decay = beta1, beta2, epsilon, schedule_decay

    def create_state(self, index: Index, weight: NDArray) -> State:
        """Mean and variance."""
        return zeros_like(weight), zeros_like(weight)

    def _momentum(self, t: int) -> float:
        return float(self.beta1 * (1 - 0.5 * 0.96 ** (t * self.schedule_decay)))

    def update(self, index: Index, weight: NDArray, grad: NDArray, state: State) -> None:
        """Composed of elementwise operators."""
        common = self._common(index)
        t = self._index_update_count[index]
        g = self._decayed(grad, weight, common)
        mean, variance = self._kept(state)
        mean[:] = self.beta1 * mean + (1 - self.beta1) * g
        variance[:] = self.beta2 * variance + (1 - self.beta2) * g * g
        now, then = self._momentum(t), self._momentum(t + 1)
        product = math.prod(self._momentum(i) for i in range(1, t + 1))
        step = (1 - now) / (1 - product) * g + then / (1 - product * then) * mean
        weight -= common["lr"] * step / (nd.sqrt(variance / (1 - self.beta2**t)) + self.epsilon)


class FTML(Optimizer):
    """FTML, "follow the moving leader".

    Source: Zheng and Kwok, Follow the Moving Leader in Deep Learning, ICML 2017.
    """

    def __init__(
        self,
        beta1: float = 0.6,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        *,
        learning_rate: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon

    def create_state(self, index: Index, weight: NDArray) -> State:
        """d, v and z."""
        return zeros_like(weight), zeros_like(weight), zeros_like(weight)

    def update(self, index: Index, weight: NDArray, grad: NDArray, state: State) -> None:
        """One operator."""
        common = self._common(index)
        if "clip_gradient" in common:
            common["clip_grad"] = common.pop("clip_gradient")
        nd.ftml_update(
            weight, grad, *self._kept(state), out=weight, t=self._index_update_count[index],
            beta1=self.beta1, beta2=self.beta2, epsilon=self.epsilon, **common,
        )  # fmt: skip
