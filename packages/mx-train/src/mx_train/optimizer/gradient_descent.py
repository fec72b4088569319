# SPDX-License-Identifier: Apache-2.0
"""SGD and its relatives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from mx_ndarray import NDArray, nd, random
from mx_train.optimizer import together
from mx_train.optimizer.base import Index, Optimizer, State, zeros_like


class _WithMomentum(Optimizer):
    def __init__(self, momentum: float = 0.0, *, learning_rate: float | None = None, **kwargs: Any) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self._expect_number("momentum", momentum)
        self.momentum = momentum

    def create_state(self, index: Index, weight: NDArray) -> State:
        """The momentum, if there is one."""
        return zeros_like(weight) if self.momentum else None


class SGD(_WithMomentum):
    """Stochastic gradient descent with momentum and weight decay.

    Parameters
    ----------
    momentum : float
        Share of the last step that is kept.
    lazy_update : bool
        Of sparse gradients, only rows that occur are updated.
    learning_rate : float
        0.01 by default.
    """

    _usual_aggregate_num = 4

    _copy_is_last = True
    _numbers_by_rate = True

    def __init__(
        self,
        momentum: float = 0.0,
        lazy_update: bool = True,
        *,
        learning_rate: float | None = None,
        multi_precision: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(momentum, learning_rate=learning_rate, multi_precision=multi_precision, **kwargs)
        self.lazy_update = lazy_update

    def update(self, index: Index, weight: NDArray, grad: NDArray, state: State) -> None:
        """One operator."""
        common = self._common(index)
        if state is None:
            nd.sgd_update(weight, grad, out=weight, **common)
        else:
            nd.sgd_mom_update(weight, grad, state, out=weight, momentum=self.momentum, **common)

    def update_together(
        self,
        indices: Sequence[Index],
        weights: Sequence[NDArray],
        grads: Sequence[NDArray],
        states: Sequence[State],
    ) -> None:
        """One operator for all weights, where they are float32."""
        kinds = {state is None for state in states}
        if type(self).update is not SGD.update or len(kinds) > 1 or not together.alike(weights, grads):
            super().update_together(indices, weights, grads, states)
            return
        rates = together.rates_and_decays(self, indices)
        if kinds == {True}:
            pairs = list(zip(weights, grads, strict=True))
            together.step(nd.preloaded_multi_sgd_update, self, pairs, *rates)
        else:
            arrays = list(zip(weights, grads, states, strict=True))
            together.step(nd.preloaded_multi_sgd_mom_update, self, arrays, *rates, momentum=self.momentum)


class NAG(_WithMomentum):
    """Nesterov's accelerated gradient."""

    _copy_is_last = True
    _numbers_by_rate = True

    def update(self, index: Index, weight: NDArray, grad: NDArray, state: State) -> None:
        """One operator."""
        common = self._common(index)
        if state is None:
            nd.sgd_update(weight, grad, out=weight, **common)
        else:
            nd.nag_mom_update(weight, grad, state, out=weight, momentum=self.momentum, **common)


class Signum(_WithMomentum):
    """The sign of the momentum; without momentum the sign of the gradient (signSGD).

    Source: Bernstein et al., signSGD, ICML 2018.
    """

    _numbers_by_rate = True

    def __init__(
        self, learning_rate: float | None = 0.01, momentum: float = 0.9, wd_lh: float = 0.0, **kwargs: Any
    ) -> None:
        super().__init__(momentum, learning_rate=learning_rate, **kwargs)
        self.wd_lh = wd_lh

    def update(self, index: Index, weight: NDArray, grad: NDArray, state: State) -> None:
        """One operator."""
        common = self._common(index)
        if state is None:
            nd.signsgd_update(weight, grad, out=weight, **common)
        else:
            nd.signum_update(
                weight, grad, state, out=weight, momentum=self.momentum, wd_lh=self.wd_lh, **common
            )


class DCASGD(_WithMomentum):
    """SGD that makes up for late gradients: they are corrected by how far the weight has moved since.

    Source: Zheng et al., Asynchronous Stochastic Gradient Descent with Delay Compensation, ICML 2017.
    """

    def __init__(
        self, momentum: float = 0.0, lamda: float = 0.04, *, learning_rate: float | None = None, **kwargs: Any
    ) -> None:
        super().__init__(momentum, learning_rate=learning_rate, **kwargs)
        self.lamda = lamda

    def create_state(self, index: Index, weight: NDArray) -> State:
        """The momentum, if there is one, and the weight before the last step."""
        return super().create_state(index, weight), weight.copy()

    def update(self, index: Index, weight: NDArray, grad: NDArray, state: State) -> None:
        """Composed of elementwise operators."""
        common = self._common(index)
        g = self._scaled(grad, common)
        momentum, before = self._kept(state)
        step = -common["lr"] * (g + common["wd"] * weight + self.lamda * g * g * (weight - before))
        if momentum is not None:
            momentum[:] = self.momentum * momentum + step
            step = momentum
        before[:] = weight
        weight += step


class SGLD(Optimizer):
    """Stochastic gradient Langevin dynamics: half a step and noise, which draws from the posterior.

    Source: Welling and Teh, Bayesian Learning via Stochastic Gradient Langevin Dynamics, ICML 2011.
    """

    def update(self, index: Index, weight: NDArray, grad: NDArray, state: State) -> None:
        """Composed of elementwise operators and one draw."""
        common = self._common(index)
        noise = random.normal(
            0, math.sqrt(common["lr"]), shape=weight.shape, dtype=weight.dtype, ctx=weight.context
        )
        weight += noise - common["lr"] / 2 * self._decayed(grad, weight, common, decay_first=False)


class Test(Optimizer):
    """Adds scaled gradients to the weight, whatever the rate; its state is a copy of the weight. Tests use it."""

    def create_state(self, index: Index, weight: NDArray) -> State:
        """Zeros of the weight's shape, in float32."""
        return nd.zeros(weight.shape, ctx=weight.context)

    def update(self, index: Index, weight: NDArray, grad: NDArray, state: State) -> None:
        """Two elementwise operators."""
        weight += grad * self.rescale_grad
        self._kept(state)[:] = weight
