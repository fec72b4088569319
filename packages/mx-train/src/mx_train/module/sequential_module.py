# SPDX-License-Identifier: Apache-2.0
"""SequentialModule: a chain of modules."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from mx_core.errors import ArgumentError
from mx_io.io import DataBatch, DataDesc
from mx_ndarray import NDArray
from mx_train.arguments import Filler, Gradients, Logger, OptimizerLike, Settings, Shapes, Store
from mx_train.initializer import Uniform
from mx_train.metric import EvalMetric
from mx_train.module.base_module import BaseModule
from mx_train.monitor import Monitor


class SequentialModule(BaseModule):
    """A chain of modules: the outputs of each are the data of the next.

    Examples
    --------
    >>> chain = SequentialModule()
    >>> chain.add(Module(features, label_names=[])).add(Module(head), take_labels=True, auto_wiring=True)
    >>> chain.fit(train, num_epoch=5)
    """

    META_TAKE_LABELS: ClassVar[str] = "take_labels"
    META_AUTO_WIRING: ClassVar[str] = "auto_wiring"

    def __init__(self, logger: Logger = logging) -> None:
        super().__init__(logger)
        self._modules: list[BaseModule] = []
        self._metas: list[dict[str, bool]] = []
        self._label_shapes: Shapes | None = None

    def add(self, module: BaseModule, **kwargs: bool) -> Self:
        """Appends a module.

        Parameters
        ----------
        take_labels : bool
            The module gets the labels of a batch; metrics see its outputs.
        auto_wiring : bool
            What comes in is renamed to the module's data names, in order.

        Raises
        ------
        ArgumentError  another keyword
        """
        unknown = set(kwargs) - {self.META_TAKE_LABELS, self.META_AUTO_WIRING}
        if unknown:
            raise ArgumentError(
                f"[SequentialModule] expected take_labels or auto_wiring, got {', '.join(sorted(unknown))}"
            )
        self._modules.append(module)
        self._metas.append(dict(kwargs))
        self.binded = self.params_initialized = self.optimizer_initialized = False
        return self

    # ---- properties ----

    @property
    def data_names(self) -> list[str]:
        """Of the first module."""
        return self._modules[0].data_names if self._modules else []

    @property
    def label_names(self) -> list[str]:
        """Of the modules that take labels."""
        return [name for module in self._labelled() for name in module.label_names]

    @property
    def output_names(self) -> list[str]:
        """Of the last module."""
        return self._modules[-1].output_names if self._modules else []

    @property
    def data_shapes(self) -> list[DataDesc]:
        """Of the first module."""
        self._require()
        return self._modules[0].data_shapes

    @property
    def label_shapes(self) -> list[DataDesc]:
        """As bound."""
        self._require()
        return [d if isinstance(d, DataDesc) else DataDesc(*d) for d in self._label_shapes or ()]

    @property
    def output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        """Of the last module."""
        self._require()
        return self._modules[-1].output_shapes

    def _takes_labels(self, i: int) -> bool:
        return self._metas[i].get(self.META_TAKE_LABELS, False)

    def _labelled(self) -> list[BaseModule]:
        return [module for i, module in enumerate(self._modules) if self._takes_labels(i)]

    # ---- binding and parameters ----

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
        """Binds the modules in order, each to the output shapes of the one before.

        Raises
        ------
        ArgumentError  the chain is empty; `shared_module` is given; auto_wiring of another number of outputs
        """
        if self.binded and not force_rebind:
            self.logger.warning("Already bound, ignoring bind()")
            return
        if shared_module is not None:
            raise ArgumentError("[SequentialModule] shared_module: a chain cannot share memory")
        if not self._modules:
            raise ArgumentError("[SequentialModule] add modules first")
        shapes = [d if isinstance(d, DataDesc) else DataDesc(*d) for d in data_shapes]
        for i, module in enumerate(self._modules):
            if self._metas[i].get(self.META_AUTO_WIRING, False):
                names = module.data_names
                if len(names) != len(shapes):
                    raise ArgumentError(
                        f"[SequentialModule] module {i} expects {names}, the module before gives "
                        f"{[(d.name, d.shape) for d in shapes]}"
                    )
                shapes = [
                    DataDesc(name, d.shape, d.dtype, d.layout) for name, d in zip(names, shapes, strict=True)
                ]
            module.bind(
                shapes, label_shapes if self._takes_labels(i) else None, for_training,
                inputs_need_grad or (for_training and i > 0), force_rebind, grad_req=grad_req,
            )  # fmt: skip
            shapes = [DataDesc(name, shape) for name, shape in module.output_shapes]
        taken = any(map(self._takes_labels, range(len(self._modules))))
        self._label_shapes = label_shapes if taken else None
        self.for_training, self.inputs_need_grad, self.binded = for_training, inputs_need_grad, True

    def init_params(
        self,
        initializer: Filler | None = Uniform(0.01),
        arg_params: Mapping[str, NDArray] | None = None,
        aux_params: Mapping[str, NDArray] | None = None,
        allow_missing: bool = False,
        force_init: bool = False,
        allow_extra: bool = False,
    ) -> None:
        """Fills the parameters of all modules; each takes its own of the given ones.

        Raises
        ------
        ArgumentError  two modules have a parameter of one name
        """
        if self.params_initialized and not force_init:
            return
        self._require()
        for module in self._modules:
            module.init_params(
                initializer, arg_params, aux_params, allow_missing, force_init=force_init, allow_extra=True
            )
        owner: dict[str, int] = {}
        for i, module in enumerate(self._modules):
            for name in (name for table in module.get_params() for name in table):
                if name in owner:
                    raise ArgumentError(
                        f"[SequentialModule] modules {owner[name]} and {i} both have a parameter {name!r}"
                    )
                owner[name] = i
        self.params_initialized = True

    def get_params(self) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
        """Those of all modules."""
        self._require(params=True)
        arguments: dict[str, NDArray] = {}
        auxiliaries: dict[str, NDArray] = {}
        for module in self._modules:
            arg, aux = module.get_params()
            arguments |= arg
            auxiliaries |= aux
        return arguments, auxiliaries

    def init_optimizer(
        self,
        kvstore: Store = "local",
        optimizer: OptimizerLike = "sgd",
        optimizer_params: Settings = (("learning_rate", 0.01),),
        force_init: bool = False,
    ) -> None:
        """One for each module."""
        self._require(params=True)
        if self.optimizer_initialized and not force_init:
            self.logger.warning("optimizer already initialized, ignoring...")
            return
        for module in self._modules:
            module.init_optimizer(kvstore, optimizer, optimizer_params, force_init=force_init)
        self.optimizer_initialized = True

    # ---- computation ----

    def forward(self, data_batch: DataBatch, is_train: bool | None = None) -> None:
        """Runs the chain; asynchronous."""
        self._require(params=True)
        data = data_batch.data
        for i, module in enumerate(self._modules):
            label = getattr(data_batch, "label", None) if self._takes_labels(i) else None
            module.forward(DataBatch(data, label), is_train)
            if i + 1 < len(self._modules):
                data = module.get_outputs()

    def backward(self, out_grads: Gradients = None) -> None:
        """Runs the chain backwards; asynchronous."""
        self._require(params=True)
        for i in reversed(range(len(self._modules))):
            self._modules[i].backward(out_grads)
            if i > 0:
                out_grads = self._modules[i].get_input_grads()

    def update(self) -> None:
        """Applies the optimizers; asynchronous."""
        self._require(params=True, optimizer=True)
        for module in self._modules:
            module.update()

    def get_outputs(self, merge_multi_context: bool = True) -> list[Any]:
        """Of the last module."""
        self._require(params=True)
        return self._modules[-1].get_outputs(merge_multi_context)

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Any]:
        """Of the first module."""
        self._require(params=True)
        return self._modules[0].get_input_grads(merge_multi_context)

    def update_metric(
        self, eval_metric: EvalMetric, labels: Sequence[NDArray], pre_sliced: bool = False
    ) -> None:
        """Adds the last forward of the modules that take labels."""
        self._require(params=True)
        for module in self._labelled():
            module.update_metric(eval_metric, labels, pre_sliced)

    def install_monitor(self, mon: Monitor) -> None:
        """In every module."""
        self._require()
        for module in self._modules:
            module.install_monitor(mon)
