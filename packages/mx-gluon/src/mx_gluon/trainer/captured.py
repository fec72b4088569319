# SPDX-License-Identifier: Apache-2.0
"""What steps of a Trainer tell one that a GPU takes as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mx_core.context import Context
from mx_gluon.errors import RefusedError
from mx_gluon.parameter.collected import present
from mx_train.optimizer.held import HeldNumbers
from mx_train.optimizer.held_step import HeldStep, Used
from mx_train.optimizer.table import StateTable

if TYPE_CHECKING:
    from mx_gluon.trainer.trainer import Trainer


class HeldByTrainer(HeldStep):
    """What steps of a trainer tell a captured step: `mx_ndarray.captured.Held`.

    Threads: one at a time, as the trainer.

    Parameters
    ----------
    context : Context
        On which alone the parameters are to be.
    batch_size : float
        As for `Trainer.step`.

    Raises
    ------
    RefusedError  the parameters are elsewhere
    """

    def __init__(self, trainer: Trainer, context: Context, batch_size: float) -> None:
        self._trainer, self._context, self._batch_size = trainer, context, batch_size
        self._check()

    def _check(self) -> None:
        contexts = self._trainer._check_contexts()
        if contexts != [self._context]:
            raise RefusedError(
                f"[Trainer] captured_step: expected parameters on {self._context}, got {contexts}"
            )

    def _find(self) -> Used:
        self._check()
        trainer, context = self._trainer, self._context
        learned = [(i, param) for i, param in enumerate(trainer._params) if param.grad_req != "null"]
        return Used(
            trainer._optimizer,
            tuple(i for i, _ in learned if i not in trainer._repeated),
            (
                *(param.data(context) for param in trainer._params),
                *(param.grad(context) for _, param in learned),
            ),
        )

    def begins(self) -> None:
        """As `Held` says; parameters without shapes get them in `forward`, and the step is captured one call later."""
        if any(param._deferred_init is not None for param in self._trainer._params):
            self._numbers = None  # those of an earlier capture, whose counts are not to come back
        else:
            super().begins()

    def _find_version(self) -> tuple[object, ...]:
        return present(), self._trainer._optimizer

    def _states(self) -> StateTable:
        states = self._trainer._updaters[0].states
        assert isinstance(states, StateTable)
        return states

    def _known_by(self, used: Used) -> HeldNumbers:
        return HeldNumbers(
            used.optimizer, used.indices, states=self._states, version=present,
            rescale=lambda: self._trainer._scale / self._batch_size,
        )  # fmt: skip

    def _is_plain(self) -> bool:
        return self._trainer._steps_plainly()
