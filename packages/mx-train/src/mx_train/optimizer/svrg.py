# SPDX-License-Identifier: Apache-2.0
"""Optimizers for stores that keep mean gradients beside weights, as programs for MXNet's SVRGModule use them."""

from __future__ import annotations

from typing import Any

from mx_ndarray import NDArray
from mx_train.optimizer.base import Index, Optimizer, State, create, register

#: the end of the names of mean gradients; what comes before it is the parameter's name
_MEAN = "_full"


@register
class _AssignmentOptimizer(Optimizer):
    """Takes the gradient for the weight, so that a store holds sums of what was pushed last.

    Threads: one at a time.
    """

    def update(self, index: Index, weight: NDArray, grad: NDArray, state: State) -> None:
        """Copies `grad` into `weight`; asynchronous."""
        weight[:] = grad


@register
class _SVRGOptimizer(Optimizer):
    """Assigns what has a name that ends in `_full`, and has another optimizer update everything else.

    `SVRGModule` keeps its mean gradients itself and needs none; programs with a store of their own may.

    Threads: one at a time.

    Parameters
    ----------
    default_optimizer : str or Optimizer
        Updates the weights. One that is given by name is made with `kwargs`.
    **kwargs : of that optimizer
    """

    def __init__(self, default_optimizer: str | Optimizer, **kwargs: Any) -> None:
        self.default_opt = create(default_optimizer, **kwargs)
        self.aux_opt = create("_AssignmentOptimizer")
        made = self.default_opt
        super().__init__(
            made.rescale_grad, made.idx2name, made.wd, made.clip_gradient, made.lr,
            begin_num_update=made.begin_num_update, multi_precision=made.multi_precision, param_dict=made.param_dict,
        )  # fmt: skip
        self.lr_scheduler = made.lr_scheduler
        self._remembered = made._remembered  # type: ignore[misc]  # files have it by this one's attributes
        for name in self._remembered:
            setattr(self, name, getattr(made, name))

    def _chosen(self, index: Index) -> Optimizer:
        name = self.idx2name.get(index, index)
        return self.aux_opt if isinstance(name, str) and name.endswith(_MEAN) else self.default_opt

    def create_state(self, index: Index, weight: NDArray) -> State:
        """That of the optimizer which updates the weight."""
        return self._chosen(index).create_state(index, weight)

    def update(self, index: Index, weight: NDArray, grad: NDArray, state: State) -> None:
        """Assigns or updates, by the name of the weight; asynchronous."""
        chosen = self._chosen(index)
        if chosen is self.aux_opt:
            self._update_count(index)
        else:  # which counts its updates here, where files of states have them from
            for name in ("_index_update_count", *self._remembered):
                setattr(chosen, name, getattr(self, name))
        chosen.update(index, weight, grad, state)
        self.num_update = max(self.num_update, chosen.num_update)
