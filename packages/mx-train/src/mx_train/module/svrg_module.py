# SPDX-License-Identifier: Apache-2.0
"""SVRGModule: steps whose gradients vary less, by those of the whole data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mx_core.errors import ArgumentError, MXNetError
from mx_io.io import DataBatch, DataIter
from mx_ndarray import NDArray
from mx_train.arguments import Filler, Gradients, Shapes
from mx_train.checkpoint.watched import Watched
from mx_train.initializer import Uniform
from mx_train.module.base_module import BaseModule
from mx_train.module.module import Module


class SVRGModule(Module):
    """A Module that corrects each gradient by a snapshot of the parameters.

    Every few epochs `update_full_grads` keeps the parameters and the mean gradient of all batches with them. From then
    on, a batch's gradient with the kept parameters is taken away from its gradient, and that mean is added.

    Threads: one at a time.

    Source: Johnson and Zhang, Accelerating Stochastic Gradient Descent using Predictive Variance Reduction, NIPS 2013.

    Parameters
    ----------
    symbol, *args, **kwargs : as of `Module`
    update_freq : int
        Epochs between two snapshots; `fit` takes the first one at the beginning.

    Raises
    ------
    ArgumentError  `update_freq` is no integer of at least 1
    """

    def __init__(self, *args: Any, update_freq: int | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not isinstance(update_freq, int) or update_freq < 1:
            raise ArgumentError(
                f"[SVRGModule] update_freq: expected the epochs between two snapshots, at least 1, got {update_freq!r}"
            )
        self.update_freq = update_freq
        self._mod_aux = Module(*args, **kwargs)
        #: parameter -> mean gradient of all batches on each context
        self._full_grads: dict[str, list[NDArray]] = {}

    def bind(
        self,
        data_shapes: Shapes,
        label_shapes: Shapes | None = None,
        for_training: bool = True,
        inputs_need_grad: bool = False,
        force_rebind: bool = False,
        shared_module: BaseModule | None = None,
        grad_req: str | Sequence[str] | Mapping[str, str] = "write",
    ) -> None:
        """As of `Module`, for the snapshot, too."""
        given = (
            data_shapes,
            label_shapes,
            for_training,
            inputs_need_grad,
            force_rebind,
            shared_module,
            grad_req,
        )
        was_bound = self.binded
        super().bind(*given)
        if for_training and (force_rebind or not was_bound):
            self._mod_aux.bind(
                data_shapes, label_shapes, for_training, inputs_need_grad, force_rebind, None, "write"
            )

    def reshape(self, data_shapes: Shapes, label_shapes: Shapes | None = None) -> None:
        """As of `Module`, for the snapshot, too."""
        super().reshape(data_shapes, label_shapes)
        if self._mod_aux.binded:
            self._mod_aux.reshape(data_shapes, label_shapes)

    def init_params(
        self,
        initializer: Filler | None = Uniform(0.01),
        arg_params: Mapping[str, NDArray] | None = None,
        aux_params: Mapping[str, NDArray] | None = None,
        allow_missing: bool = False,
        force_init: bool = False,
        allow_extra: bool = False,
    ) -> None:
        """As of `Module`; the snapshot begins with the same parameters."""
        super().init_params(initializer, arg_params, aux_params, allow_missing, force_init, allow_extra)
        if self._mod_aux.binded and not self._mod_aux.params_initialized:
            self._mod_aux.init_params(None, *self.get_params())

    # ---- steps ----

    def forward(self, data_batch: DataBatch | list[DataBatch], is_train: bool | None = None) -> None:
        """As of `Module`; in training with the snapshot, too."""
        super().forward(data_batch, is_train)
        if self._full_grads and (self.for_training if is_train is None else is_train):
            self._mod_aux.forward(data_batch, is_train)

    def backward(self, out_grads: Gradients = None) -> None:
        """As of `Module`, with the snapshot, too."""
        super().backward(out_grads)
        if self._full_grads:
            self._mod_aux.backward(out_grads)

    def update(self) -> None:
        """Corrects the gradients, and updates as `Module` does; asynchronous."""
        if self._full_grads:
            own = dict(self._gradients(self))
            kept = dict(self._gradients(self._mod_aux))
            for name, means in self._full_grads.items():
                for gradient, before, mean in zip(own[name], kept[name], means, strict=True):
                    gradient[:] = gradient - before + mean
        super().update()

    @staticmethod
    def _gradients(module: Module) -> list[tuple[str, list[NDArray]]]:
        group, names = module._bound(), module._trained()
        listed = zip(names, group.arrays(names, "grad_dict"), strict=True)
        return [(name, arrays) for name, arrays in listed if all(array is not None for array in arrays)]

    def update_full_grads(self, train_data: DataIter) -> None:
        """Takes a snapshot: the present parameters, and the mean gradient of all batches with them.

        Parameters
        ----------
        train_data : DataIter
            It is reset first, and is at its end afterwards.

        Raises
        ------
        MXNetError  there is no batch
        """
        self._require(params=True)
        self._mod_aux.set_params(*self.get_params())
        sums: dict[str, list[NDArray]] = {}
        count = 0.0
        train_data.reset()
        for batch in train_data:
            self._mod_aux.forward(batch, is_train=True)
            self._mod_aux.backward()
            count += 1
            for name, arrays in self._gradients(self._mod_aux):
                if name not in sums:
                    sums[name] = [array.copy() for array in arrays]
                    continue
                for total, array in zip(sums[name], arrays, strict=True):
                    total += array
        if not count:
            raise MXNetError("[SVRGModule.update_full_grads] train_data: expected batches, got none")
        self._full_grads = {name: [total / count for total in totals] for name, totals in sums.items()}

    def _fit_epoch(self, scope: dict[str, Any]) -> None:
        """Before an epoch that begins with a snapshot, takes it."""
        data = scope["train_data"]
        if isinstance(data, Watched):
            raise ArgumentError(
                "[SVRGModule.fit] train_data: checkpoints have no snapshot; give the data themselves"
            )
        if scope["epoch"] % self.update_freq == 0:
            self.update_full_grads(data)
            data.reset()
        super()._fit_epoch(scope)
