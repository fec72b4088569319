# SPDX-License-Identifier: Apache-2.0
"""What cells of two products, of the input and of the first state, share: parameters and gates."""

from __future__ import annotations

from typing import Any

from mx_gluon.parameter import Parameter
from mx_gluon.rnn import HybridRecurrentCell


class GatedCell(HybridRecurrentCell):
    """A cell whose products have a part for each gate along one axis.

    Threads: one at a time; it counts steps.
    """

    _activation: Any = "tanh"
    _channel_axis = 1

    def _parameter(self, name: str, shape: tuple[int, ...], init: Any) -> Parameter:
        return self.params.get(name, shape=shape, init=init, allow_deferred_init=True)

    def _parts(self, F: Any, product: Any, count: int, name: str) -> list[Any]:
        return list(F.SliceChannel(product, num_outputs=count, axis=self._channel_axis, name=name))

    def _remembered(self, F: Any, t: str, total: Any, memory: Any) -> tuple[Any, Any]:
        """Output gate and memory of an LSTM, from the sum of the products and the memory before."""
        parts = self._parts(F, total, 4, t + "slice")
        taken, kept, shown = (
            F.Activation(parts[i], act_type="sigmoid", name=t + name)
            for i, name in ((0, "i"), (1, "f"), (3, "o"))
        )
        candidate = self._get_activation(F, parts[2], self._activation, name=t + "c")
        return shown, F.elemwise_add(kept * memory, taken * candidate, name=t + "state")

    def _updated(self, F: Any, t: str, i2h: Any, h2h: Any, before: Any) -> Any:
        """The state of a gated recurrent unit, from both products and the state before."""
        of_input = self._parts(F, i2h, 3, t + "i2h_slice")
        of_state = self._parts(F, h2h, 3, t + "h2h_slice")
        reset, update = (
            F.Activation(of_input[i] + of_state[i], act_type="sigmoid", name=f"{t}{name}_act")
            for i, name in enumerate("rz")
        )
        candidate = self._get_activation(
            F, of_input[2] + reset * of_state[2], self._activation, name=t + "h_act"
        )
        return F.elemwise_add((1.0 - update) * candidate, update * before, name=t + "out")
