# SPDX-License-Identifier: Apache-2.0
"""SGD and its relatives."""

from __future__ import annotations

from typing import Any

from mx_ndarray import NDArray, nd
from mx_train.optimizer.optimizer import Optimizer, State, zeros_like


class _WithMomentum(Optimizer):
    def __init__(self, learning_rate: float | None = None, momentum: float = 0.0, **kwargs: Any) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.momentum = momentum

    def create_state(self, index: Any, weight: NDArray) -> State:
        """The momentum, if there is one."""
        return zeros_like(weight) if self.momentum else None


class SGD(_WithMomentum):
    """Stochastic gradient descent with momentum and weight decay.

    Parameters
    ----------
    learning_rate : float
        0.01 by default.
    momentum : float
        Share of the last step that is kept.
    lazy_update : bool
        Of sparse gradients, only rows that occur are updated.
    """

    def __init__(
        self,
        learning_rate: float | None = None,
        momentum: float = 0.0,
        lazy_update: bool = True,
        multi_precision: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate, momentum, multi_precision=multi_precision, **kwargs)
        self.lazy_update = lazy_update

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: State) -> None:
        """One operator."""
        common = self._common(index)
        if state is None:
            nd.sgd_update(weight, grad, out=weight, **common)
        else:
            nd.sgd_mom_update(weight, grad, state, out=weight, momentum=self.momentum, **common)


class NAG(_WithMomentum):
    """Nesterov's accelerated gradient."""

    def __init__(self, learning_rate: float | None = None, momentum: float = 0.9, **kwargs: Any) -> None:
        super().__init__(learning_rate, momentum, **kwargs)

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: State) -> None:
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

    def __init__(
        self, learning_rate: float | None = None, momentum: float = 0.9, wd_lh: float = 0.0, **kwargs: Any
    ) -> None:
        super().__init__(learning_rate, momentum, **kwargs)
        self.wd_lh = wd_lh

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: State) -> None:
        """One operator."""
        common = self._common(index)
        if state is None:
            nd.signsgd_update(weight, grad, out=weight, **common)
        else:
            nd.signum_update(
                weight, grad, state, out=weight, momentum=self.momentum, wd_lh=self.wd_lh, **common
            )
