# SPDX-License-Identifier: Apache-2.0
"""Private names of MXNet's modules and groups of executors, which programs read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mx_io.io import DataDesc
from mx_ndarray import NDArray
from mx_symbol.runtime.executor import Executor
from mx_symbol.symbol import Symbol

if TYPE_CHECKING:
    from mx_train.module.executor_group import ExecutorGroup

Part = tuple[slice, NDArray]


class ArraysOfContexts:
    """The arrays of a group of executors, each listed by context, under MXNet's names. Threads: one at a time."""

    if TYPE_CHECKING:
        execs: list[Executor]
        slices: Sequence[slice]
        data_shapes: list[DataDesc]
        label_shapes: list[DataDesc]

    def _remember(self, symbol: Symbol, grad_req: Mapping[str, str]) -> None:
        inputs = {d.name for d in (*self.data_shapes, *self.label_shapes)}
        self.symbol = symbol
        self.grad_req = dict(grad_req)
        self.arg_names: list[str] = symbol.list_arguments()
        self.aux_names: list[str] = symbol.list_auxiliary_states()
        #: arguments that are no inputs
        self.param_names = [name for name in self.arg_names if name not in inputs]

    @property
    def for_training(self) -> bool:
        """Whether any argument has a gradient."""
        return any(request != "null" for request in self.grad_req.values())

    @property
    def data_names(self) -> list[str]:
        """Names of the data."""
        return [d.name for d in self.data_shapes]

    @property
    def label_names(self) -> list[str]:
        """Names of the labels."""
        return [d.name for d in self.label_shapes]

    @property
    def param_arrays(self) -> list[list[NDArray]]:
        """The parameters, each on every context."""
        return [[each.arg_dict[name] for each in self.execs] for name in self.param_names]

    @property
    def grad_arrays(self) -> list[list[NDArray | None]] | None:
        """Their gradients, None for those without; None for all of a group that does not train."""
        if not self.for_training:
            return None
        return [[each.grad_dict.get(name) for each in self.execs] for name in self.param_names]

    @property
    def aux_arrays(self) -> list[list[NDArray]]:
        """The auxiliary states, each on every context."""
        return [[each.aux_dict[name] for each in self.execs] for name in self.aux_names]

    @property
    def input_grad_arrays(self) -> list[list[NDArray | None]] | None:
        """The gradients of the data, each on every context; None if there are none."""
        if all(self.grad_req.get(name, "null") == "null" for name in self.data_names):
            return None
        return [[each.grad_dict[name] for each in self.execs] for name in self.data_names]

    @property
    def data_arrays(self) -> list[list[Part]]:
        """The data, each with the part of the batch of every context."""
        return list(self._inputs_in_parts(self.data_names))

    @property
    def label_arrays(self) -> list[list[Part]] | None:
        """The labels, as `data_arrays`; None without."""
        return list(self._inputs_in_parts(self.label_names)) or None

    def _inputs_in_parts(self, names: Sequence[str]) -> Iterator[list[Part]]:
        for name in names:
            if name in self.arg_names:
                yield [
                    (part, each.arg_dict[name]) for part, each in zip(self.slices, self.execs, strict=True)
                ]


class PrivateNames:
    """What programs read of a Module under MXNet's private names. Threads: one at a time."""

    if TYPE_CHECKING:
        _exec_group: ExecutorGroup | None
        _fixed: set[str]
        _param_names: list[str]
        _reqs: dict[str, str]
        _stale: bool
        _optimization: Any
        _symbol: Symbol

        def _sync_params(self) -> None: ...

    @property
    def _fixed_param_names(self) -> list[str]:
        return [name for name in self._param_names if name in self._fixed]

    @property
    def _output_names(self) -> list[str]:
        names: list[str] = self._symbol.list_outputs()
        return names

    @property
    def _grad_req(self) -> str:
        """The request of the parameters that are trained; the first one where they differ."""
        trained = (self._reqs.get(name, "null") for name in self._param_names if name not in self._fixed)
        return next(trained, "write")

    @property
    def _update_on_kvstore(self) -> bool | None:
        """Whether the store runs the optimizer; None before there is one."""
        return None if self._optimization is None else self._optimization.updater is None

    @property
    def _total_exec_bytes(self) -> int:
        """Intermediate memory of all executors, which buckets share."""
        group = self._exec_group
        return 0 if group is None else sum(executor._arena.n_bytes for executor in group.execs)

    @property
    def _params_dirty(self) -> bool:
        return self._stale

    def _sync_params_from_devices(self) -> None:
        self._sync_params()
