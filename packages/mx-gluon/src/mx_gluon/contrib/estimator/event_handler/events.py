# SPDX-License-Identifier: Apache-2.0
"""The events of a training: a handler derives from the classes of those that it wants to be told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mx_core.errors import ArgumentError

if TYPE_CHECKING:
    from mx_gluon.contrib.estimator.estimator import Estimator


class EventHandler:
    """What an estimator takes as handler.

    Handlers are called in the order of their attribute `priority`, the lowest first; without it, it is 0.

    Threads: one at a time.
    """


class TrainBegin(EventHandler):
    """Is told that a training begins."""

    def train_begin(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Before the first epoch."""


class TrainEnd(EventHandler):
    """Is told that a training ends."""

    def train_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """After the last epoch."""


class EpochBegin(EventHandler):
    """Is told that an epoch begins, or a validation."""

    def epoch_begin(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Before the first batch."""


class EpochEnd(EventHandler):
    """Is told that an epoch ends, or a validation."""

    def epoch_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> bool | None:
        """After the last batch; what is true stops the training."""
        return False


class BatchBegin(EventHandler):
    """Is told that a batch begins."""

    def batch_begin(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Before a batch, given as `batch`."""


class BatchEnd(EventHandler):
    """Is told that a batch ends."""

    def batch_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> bool | None:
        """After a batch, given as `batch`, with `pred`, `label` and `loss` per context; what is true stops."""
        return False


Handlers = EventHandler | Sequence[EventHandler] | None


def listed(handlers: Handlers) -> list[EventHandler]:
    """One handler or several, as a list of their own.

    Raises
    ------
    ArgumentError  something is no handler
    """
    if isinstance(handlers, EventHandler):
        return [handlers]
    found = list(handlers) if isinstance(handlers, Sequence) else [handlers] if handlers else []
    for each in found:
        if not isinstance(each, EventHandler):
            raise ArgumentError(
                f"[Estimator] event_handlers: expected handlers, such as subclasses of BatchEnd, got {each!r}"
            )
    return found
