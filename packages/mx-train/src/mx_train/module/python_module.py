# SPDX-License-Identifier: Apache-2.0
"""Modules whose computation is written in Python, for chains of modules."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mx_core.errors import ArgumentError
from mx_io.io import DataBatch, DataDesc
from mx_ndarray import NDArray
from mx_train.arguments import Filler, Gradients, Logger, OptimizerLike, Settings, Shapes, Store
from mx_train.initializer import Uniform
from mx_train.metric import EvalMetric
from mx_train.module.base_module import BaseModule
from mx_train.monitor import Monitor


class PythonModule(BaseModule):
    """A module without parameters: derive, write `forward`, `backward` and `_compute_output_shapes`.

    Parameters
    ----------
    data_names, label_names, output_names : sequence of str
    """

    def __init__(
        self,
        data_names: Sequence[str],
        label_names: Sequence[str] | None,
        output_names: Sequence[str],
        logger: Logger = logging,
    ) -> None:
        super().__init__(logger)
        self._data_names = list(data_names)
        self._label_names = list(label_names or ())
        self._output_names = list(output_names)
        self._data_shapes: list[DataDesc] = []
        self._label_shapes: list[DataDesc] = []
        self._output_shapes: list[tuple[str, tuple[int, ...]]] = []

    @property
    def data_names(self) -> list[str]:
        """Names of the inputs."""
        return self._data_names

    @property
    def label_names(self) -> list[str]:
        """Names of the labels."""
        return self._label_names

    @property
    def output_names(self) -> list[str]:
        """Names of the outputs."""
        return self._output_names

    @property
    def data_shapes(self) -> list[DataDesc]:
        """Shapes bound for data."""
        return self._data_shapes

    @property
    def label_shapes(self) -> list[DataDesc]:
        """Shapes bound for labels."""
        return self._label_shapes

    @property
    def output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        """Names and shapes of the outputs."""
        return self._output_shapes

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
        """Stores the shapes.

        Raises
        ------
        ArgumentError  gradients are asked to be added; data have other names
        """
        if self.binded and not force_rebind:
            self.logger.warning("Already bound, ignoring bind()")
            return
        if grad_req != "write":
            raise ArgumentError(f"[{type(self).__name__}] grad_req: expected 'write', got {grad_req!r}")
        data = [d if isinstance(d, DataDesc) else DataDesc(*d) for d in data_shapes]
        if [d.name for d in data] != self._data_names:
            raise ArgumentError(
                f"[{type(self).__name__}] data_shapes name {[d.name for d in data]}, the module's data are "
                f"{self._data_names}"
            )
        self._data_shapes = data
        self._label_shapes = [d if isinstance(d, DataDesc) else DataDesc(*d) for d in label_shapes or ()]
        self.for_training, self.inputs_need_grad, self.binded = for_training, inputs_need_grad, True
        self._output_shapes = self._compute_output_shapes()

    def _compute_output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        """Names and shapes of the outputs, from `data_shapes`."""
        raise NotImplementedError

    def init_params(
        self,
        initializer: Filler | None = Uniform(0.01),
        arg_params: Mapping[str, NDArray] | None = None,
        aux_params: Mapping[str, NDArray] | None = None,
        allow_missing: bool = False,
        force_init: bool = False,
        allow_extra: bool = False,
    ) -> None:
        """Nothing to fill."""
        self.params_initialized = True

    def get_params(self) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
        """None."""
        return {}, {}

    def init_optimizer(
        self,
        kvstore: Store = "local",
        optimizer: OptimizerLike = "sgd",
        optimizer_params: Settings = (("learning_rate", 0.01),),
        force_init: bool = False,
    ) -> None:
        """Nothing to optimize."""
        self.optimizer_initialized = True

    def update(self) -> None:
        """Nothing to update."""

    def update_metric(
        self, eval_metric: EvalMetric, labels: Sequence[NDArray], pre_sliced: bool = False
    ) -> None:
        """Adds outputs and labels, for a module that takes labels."""
        if self._label_shapes:
            if pre_sliced:
                raise ArgumentError(f"[{type(self).__name__}] pre_sliced: there is one context")
            eval_metric.update(labels, self.get_outputs())

    def install_monitor(self, mon: Monitor) -> None:
        """Nothing a monitor could see."""


class PythonLossModule(PythonModule):
    """A loss at the end of a chain, with its gradient as a function.

    The output is the input; `backward` gives grad_func(scores, labels).

    Parameters
    ----------
    name : str
        Of the outputs: `pyloss_output`.
    grad_func : callable, optional
        From (scores, labels), both NDArray, to the gradient by the scores: NDArray or array.
    """

    def __init__(
        self,
        name: str = "pyloss",
        data_names: Sequence[str] = ("data",),
        label_names: Sequence[str] = ("softmax_label",),
        logger: Logger = logging,
        grad_func: Callable[[NDArray, NDArray], Any] | None = None,
    ) -> None:
        super().__init__(data_names, label_names, [f"{name}_output"], logger)
        if len(self._data_names) != 1 or len(self._label_names) != 1:
            raise ArgumentError("[PythonLossModule] expected one data name and one label name")
        self._name = name
        self._grad_func = grad_func
        self._scores: NDArray | None = None
        self._labels: NDArray | None = None
        self._scores_grad: NDArray | None = None

    def _compute_output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        return [(f"{self._name}_output", tuple(self._data_shapes[0].shape))]

    def forward(self, data_batch: DataBatch, is_train: bool | None = None) -> None:
        """Keeps scores and, in training, labels."""
        self._scores = data_batch.data[0]
        if self.for_training if is_train is None else is_train:
            labels = getattr(data_batch, "label", None)
            self._labels = labels[0] if labels else None

    def get_outputs(self, merge_multi_context: bool = True) -> list[Any]:
        """The scores."""
        return [self._scores] if merge_multi_context else [[self._scores]]

    def backward(self, out_grads: Gradients = None) -> None:
        """Computes the gradient.

        Raises
        ------
        ArgumentError  `out_grads` are given: a loss is the end of a chain; there are no labels
        """
        if out_grads:
            raise ArgumentError("[PythonLossModule] a loss takes no out_grads")
        if self._scores is None or self._labels is None:
            raise ArgumentError("[PythonLossModule] backward needs a forward with labels, in training mode")
        self._scores_grad = self._backward_impl(self._scores, self._labels)

    def _backward_impl(self, scores: NDArray, labels: NDArray) -> NDArray:
        """The gradient; to be overridden where there is no grad_func."""
        if self._grad_func is None:
            raise NotImplementedError("[PythonLossModule] give grad_func, or override _backward_impl")
        from mx_ndarray import nd

        grad = self._grad_func(scores, labels)
        return grad if isinstance(grad, NDArray) else nd.array(grad)

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Any]:
        """The gradient by the scores."""
        return [self._scores_grad] if merge_multi_context else [[self._scores_grad]]
