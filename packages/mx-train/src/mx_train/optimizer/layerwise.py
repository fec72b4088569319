# SPDX-License-Identifier: Apache-2.0
"""Optimizers that scale the rate of each parameter by its norm, for large batches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from mx_ndarray import NDArray, nd
from mx_train.optimizer.base import Index, Optimizer, State, zeros_like


class LAMB(Optimizer):
    """Adam's step, scaled to the norm of the parameter.

    Parameters
    ----------
    lower_bound, upper_bound : float, optional
        Limits of the parameter's norm.
    bias_correction : bool
        As in Adam.

    Source: You et al., Large Batch Optimization for Deep Learning, ICLR 2020.
    """

    _usual_aggregate_num = 45

    def __init__(
        self,
        learning_rate: float | None = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-6,
        lower_bound: float | None = None,
        upper_bound: float | None = None,
        bias_correction: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon
        self.bias_correction = bias_correction
        bounds = {"lower_bound": lower_bound, "upper_bound": upper_bound}
        self._bounds = {name: value for name, value in bounds.items() if value is not None}

    def create_state(self, index: Index, weight: NDArray) -> State:
        """Mean and variance."""
        return zeros_like(weight), zeros_like(weight)

    def update(self, index: Index, weight: NDArray, grad: NDArray, state: State) -> None:
        """Two operators around two norms."""
        common = self._common(index)
        rate = common.pop("lr")
        step = nd.lamb_update_phase1(
            weight, grad, *self._kept(state), beta1=self.beta1, beta2=self.beta2, epsilon=self.epsilon,
            t=self._index_update_count[index], bias_correction=self.bias_correction, **common,
        )  # fmt: skip
        norms = (nd.norm(x).reshape((1,)) for x in (weight, step))
        nd.lamb_update_phase2(weight, step, *norms, out=weight, lr=rate, **self._bounds)


class LARS(Optimizer):
    """SGD with momentum; the rate of each weight is scaled to the ratio of its norm and its gradient's.

    Biases, gammas and betas keep the plain rate, and do not decay.

    Parameters
    ----------
    eta : float
        The ratio wanted of step and weight.
    eps : float
        Keeps the ratio finite.
    momentum_correction : bool
        When the rate changes, the momentum follows.

    Source: You, Gitman and Ginsburg, Large Batch Training of Convolutional Networks, 2017.
    """

    _usual_aggregate_num = 4

    _copy_is_last = True
    _remembered = MappingProxyType({"_last_rates": float})
    _decaying = ("_weight",)

    def __init__(
        self,
        momentum: float = 0.0,
        lazy_update: bool = True,
        eta: float = 0.001,
        eps: float = 0.0,
        momentum_correction: bool = True,
        *,
        learning_rate: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.momentum, self.eta, self.eps = momentum, eta, eps
        self.momentum_correction, self.lazy_update = momentum_correction, lazy_update
        self._last_rates: dict[Index, float] = {}

    def create_state(self, index: Index, weight: NDArray) -> State:
        """The momentum, if there is one."""
        return zeros_like(weight) if self.momentum else None

    def update(self, index: Index, weight: NDArray, grad: NDArray, state: State) -> None:
        """Composed of elementwise operators and two norms."""
        common = self._common(index)
        rate, g = common["lr"], self._scaled(grad, common, zero_limits=False)
        step = rate * (g + common["wd"] * weight)
        if not str(self.idx2name.get(index, index)).endswith(("gamma", "beta", "bias")):
            step = step * self._ratio(weight, grad * common["rescale_grad"], common["wd"])
        if state is not None:
            last = self._last_rates.get(index, rate)
            corrected = self.momentum * (rate / last if self.momentum_correction and last else 1.0)
            state[:] = corrected * state - step
            weight += state
        else:
            weight -= step
        self._last_rates[index] = float(rate)

    def _take_dumped(self, values: Mapping[Any, Any], indices: Iterable[Index]) -> None:
        """The rate of the last step, which MXNet keeps once for all parameters."""
        last = values.get("cur_lr")
        if isinstance(last, float):
            self._last_rates = {i: last * self._mult(i, self.lr_mult, "lr_mult") for i in indices}

    def _ratio(self, weight: NDArray, grad: NDArray, wd: float) -> NDArray:
        """eta·‖w‖ / (‖g‖ + wd·‖w‖ + eps), or 1 where a norm is 0; of one element, computed on the device."""
        w, g = (nd.norm(x).reshape((1,)) for x in (weight, grad))
        both = (w * g) > 0
        ratio: NDArray = nd.where(both, self.eta * w / (g + wd * w + self.eps), nd.ones_like(w))
        return ratio
