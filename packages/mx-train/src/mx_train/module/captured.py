# SPDX-License-Identifier: Apache-2.0
"""Steps of training of a Module that a GPU takes as a whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mx_core.errors import ArgumentError
from mx_io.io import DataBatch
from mx_ndarray import NDArray
from mx_ndarray.captured import captured_step
from mx_train.optimizer.held_step import HeldStep, Used, overrides
from mx_train.optimizer.table import StateTable

if TYPE_CHECKING:
    from mx_train.module.executor_group import ExecutorGroup
    from mx_train.module.optimization import Optimization


class Captured:
    """What `Module` has of captured steps. Threads: as `Module`."""

    def captured_step(self) -> Callable[..., list[NDArray]]:
        """`forward_backward` and `update` of one batch as a step that becomes a CUDA graph at its second call.

        The module is bound for training on one GPU, and its optimizer runs here, not in a store. Where it is bound
        anew, or gets another optimizer, the step is captured anew. `forward_backward` runs only where the step is
        captured, and in the call before; an `update` that the module's class overrides runs in each call.

        Returns
        -------
        callable
            Called with the arrays of a batch, data then labels, on any device: gives the outputs, from the second call
            on in the same arrays. Rates and schedules are followed.

        Raises
        ------
        ArgumentError  there are several contexts, or a store runs the optimizer
        MXNetError     the device captures no steps, or is not there
        """
        module: Any = self
        _optimization(module)
        n_data = len(module.data_shapes)
        held = _Held(module)

        def forward(*arrays: NDArray) -> list[NDArray]:
            module.forward_backward(DataBatch(list(arrays[:n_data]), list(arrays[n_data:])))
            outputs: list[NDArray] = module.get_outputs()
            return outputs

        def update() -> None:  # that of now
            module.update()

        return captured_step(forward, update, weights=held.weights, held=held, ctx=module._context[0])


def _optimization(module: Any) -> Optimization:
    """What runs the optimizer; raises ArgumentError where it does not run here, on one context."""
    found: Optimization = module._optimized()
    contexts = module._context
    if len(contexts) != 1 or found.updater is None or found.store is not None:
        raise ArgumentError(
            f"[Module] captured_step: expected one context and no store, got {contexts} and {found.store}"
        )
    return found


class _Held(HeldStep):
    """What the updates of a module tell a captured step. Threads: as the module."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self._base = next(kind for kind in type(module).__mro__ if Captured in kind.__bases__)  # Module
        self._group: ExecutorGroup | None = None  # of the last run of `update`

    def _find(self) -> Used:
        module = self._module
        executor = module._bound().execs[0]
        trained = [name for name in module._trained() if executor.grad_dict.get(name) is not None]
        names = module._param_names
        arrays = [
            *map(executor.arg_dict.get, names), *map(executor.grad_dict.get, names), *executor.aux_dict.values()
        ]  # fmt: skip
        return Used(
            _optimization(module).optimizer,
            tuple(module._index[name] for name in trained),
            tuple(array for array in arrays if array is not None),
        )

    def _find_version(self) -> tuple[object, ...]:
        return self._module._exec_group, self._module._optimization

    def _states(self) -> StateTable:
        states: StateTable = self._module._optimization.updater.states
        return states

    def _is_plain(self) -> bool:
        return not overrides(self._module, self._base, ("update",))

    def told(self, arrays: bytes) -> None:
        """As `Held` says."""
        super().told(arrays)
        self._group = self._module._exec_group

    def arrays(self) -> bytes | None:
        """As `Held` says; parameters are to be read from the GPU again."""
        found = super().arrays()
        if found is not None:
            self._module._stale = True
        return found

    def _moved(self) -> bool:
        if super()._moved():
            return True
        group, replaced = self._group, self._module._exec_group
        if group is not None and replaced is not group:  # of batches of another size
            group.take_monitors(replaced)
            self._module._exec_group = group
            self._version = self._find_version()
        return False
