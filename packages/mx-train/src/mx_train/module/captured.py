# SPDX-License-Identifier: Apache-2.0
"""Steps of training of a Module that a GPU takes as a whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mx_core.errors import ArgumentError
from mx_io.io import DataBatch
from mx_ndarray import NDArray
from mx_ndarray.captured import captured_step
from mx_train.optimizer.held import HeldNumbers


class Captured:
    """What `Module` has of captured steps. Threads: as `Module`."""

    def captured_step(self) -> Callable[..., list[NDArray]]:
        """`forward_backward` and `update` of one batch as a step that becomes a CUDA graph at its second call.

        The module is bound for training on one GPU, and its optimizer runs here, not in a store.

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
        optimization = module._optimized()
        contexts = module._context
        if len(contexts) != 1 or optimization.updater is None or optimization.store is not None:
            raise ArgumentError(
                f"[Module] captured_step: expected one context and no store, got {contexts} and {optimization.store}"
            )
        n_data = len(module.data_shapes)
        indices = [module._index[name] for name in module._trained()]
        held = HeldNumbers(optimization.optimizer, indices, states=lambda: optimization.updater.states)

        def forward(*arrays: NDArray) -> list[NDArray]:
            module.forward_backward(DataBatch(list(arrays[:n_data]), list(arrays[n_data:])))
            outputs: list[NDArray] = module.get_outputs()
            return outputs

        group = module._bound()
        arrays = *group.arrays(module._param_names, "arg_dict"), *group.arrays(module._aux_names, "aux_dict")
        return captured_step(
            forward, module.update, weights=[each[0] for each in arrays], held=held, ctx=contexts[0]
        )
