# SPDX-License-Identifier: Apache-2.0
"""Updates whose numbers are those of the last one, so that a captured step need not run them in Python again."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mx_train.optimizer.base import Index, Optimizer

_MULTIPLIERS = attrgetter("lr_mult", "wd_mult")


def _settings_of(optimizer: Optimizer) -> list[str]:
    """Attributes that are numbers, or may become some."""
    others = ("num_update", "lr", "rescale_grad")
    return [
        name for name, value in vars(optimizer).items()
        if name not in others and (value is None or isinstance(value, (int, float)))
    ]  # fmt: skip


class HeldNumbers:
    """Tells whether an update would use the numbers of the last one, and then counts it as taken.

    Only where the optimizer declares that its numbers are made of rates, decays and settings alone. Else, and when one
    of them has changed, the answer is no and the caller runs the update.

    Threads: one at a time, as the optimizer.

    Parameters
    ----------
    optimizer : Optimizer
    indices : sequence
        Of the weights that each update updates.
    """

    def __init__(self, optimizer: Optimizer, indices: Sequence[Index]) -> None:
        self._optimizer = optimizer
        self._indices = list(indices)
        self._last: Any = None
        self._known: Any = None
        self._params: list[Any] = []
        self._settings = attrgetter(*_settings_of(optimizer))

    def __call__(self, rescale_grad: float | None = None) -> bool:
        """Whether nothing but the counts changes.

        Parameters
        ----------
        rescale_grad : float, optional
            What the update would set.
        """
        optimizer = self._optimizer
        if not vars(type(optimizer)).get("_numbers_by_rate") or not self._indices:
            return False
        counts, start = optimizer._index_update_count, optimizer.begin_num_update
        now = [counts.get(i, start) + 1 for i in self._indices]
        latest = max(optimizer.num_update, *now)
        schedule = optimizer.lr_scheduler
        rate = optimizer.lr if schedule is None else schedule(latest)
        scale = optimizer.rescale_grad if rescale_grad is None else rescale_grad
        numbers = (rate, scale, self._settings(optimizer), self._multipliers())
        if numbers != self._last:
            self._last = numbers
            return False
        counts.update(zip(self._indices, now, strict=True))
        optimizer.num_update = latest
        return True

    def _multipliers(self) -> Any:
        optimizer = self._optimizer
        if optimizer.param_dict is not self._known:
            self._known = optimizer.param_dict
            self._params = [self._known[i] for i in self._indices if i in self._known]
        own = list(map(_MULTIPLIERS, self._params))
        if len(own) == len(self._indices):
            return own
        return own, dict(optimizer.lr_mult), dict(optimizer.wd_mult)
