# SPDX-License-Identifier: Apache-2.0
"""Updates whose numbers are those of the last one, so that a captured step need not run them in Python again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mx_train.optimizer.base import Index, Optimizer

_COUNTS = ("num_update", "lr")


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
        numbers = (rate, scale, self._settings(), self._multipliers())
        if numbers != self._last:
            self._last = numbers
            return False
        counts.update(zip(self._indices, now, strict=True))
        optimizer.num_update = latest
        return True

    def _settings(self) -> list[Any]:
        return [
            value for name, value in vars(self._optimizer).items()
            if isinstance(value, (int, float)) and name not in _COUNTS and name != "rescale_grad"
        ]  # fmt: skip

    def _multipliers(self) -> Any:
        optimizer = self._optimizer
        known = [optimizer.param_dict[i] for i in self._indices if i in optimizer.param_dict]
        if len(known) == len(self._indices):
            return [(param.lr_mult, param.wd_mult) for param in known]
        return dict(optimizer.lr_mult), dict(optimizer.wd_mult), [(p.lr_mult, p.wd_mult) for p in known]
