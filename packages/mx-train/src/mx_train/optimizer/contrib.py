# SPDX-License-Identifier: Apache-2.0
"""Optimizers that MXNet has in `mx.optimizer.contrib`."""

from __future__ import annotations

from typing import Any

from mx_core.errors import ArgumentError
from mx_ndarray import NDArray, nd
from mx_train.optimizer.base import Index, Optimizer, State


class GroupAdaGrad(Optimizer):
    """AdaGrad with one rate per row of a matrix, such as the vectors of an embedding. It does not decay weights.

    Parameters
    ----------
    eps : float
        Added to the sum of the mean squares of a row, so that it is not 0.

    Source: Duchi, Hazan and Singer, Adaptive Subgradient Methods, JMLR 12, 2011.
    """

    def __init__(self, eps: float = 1e-5, *, learning_rate: float | None = None, **kwargs: Any) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.float_stable_eps = eps

    def create_state(self, index: Index, weight: NDArray) -> State:
        """The sums of mean squares, of shape (rows, 1).

        Raises
        ------
        ArgumentError  the weight is no matrix
        """
        if len(weight.shape) != 2:
            raise ArgumentError(
                f"[GroupAdaGrad] weight {self.idx2name.get(index, index)!r}: expected 2 axes, got shape {weight.shape}"
            )
        return nd.zeros((weight.shape[0], 1), ctx=weight.context, dtype=weight.dtype)

    def update(self, index: Index, weight: NDArray, grad: NDArray, state: State) -> None:
        """Composed of elementwise operators and a mean.

        Raises
        ------
        ArgumentError  the weight is to decay
        """
        if self._get_wd(index) != 0:
            raise ArgumentError(
                f"[GroupAdaGrad] wd: expected 0, got {self._get_wd(index)} for {self.idx2name.get(index, index)!r}"
            )
        common = self._common(index)
        g = self._scaled(grad, common)
        squares = self._kept(state)
        squares += nd.mean(nd.square(g), axis=1, keepdims=True)
        weight -= common["lr"] * g / nd.sqrt(squares + self.float_stable_eps)
