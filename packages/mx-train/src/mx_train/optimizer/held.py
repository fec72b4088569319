# SPDX-License-Identifier: Apache-2.0
"""Numbers of updates that a captured step need not run in Python again, since they are known without."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from mx_train.optimizer import together
from mx_train.optimizer.counting import counted_if_done

if TYPE_CHECKING:
    from mx_train.optimizer.base import Index, Optimizer
    from mx_train.optimizer.table import StateTable

_MULTIPLIERS = attrgetter("lr_mult", "wd_mult")


def _settings_of(optimizer: Optimizer) -> list[str]:
    """Attributes that are numbers, or may become some."""
    others = ("num_update", "lr", "rescale_grad", "_counted_ahead")
    return [
        name for name, value in vars(optimizer).items()
        if name not in others and (value is None or isinstance(value, (int, float, np.generic)))
    ]  # fmt: skip


class HeldNumbers:
    """What updates of an optimizer tell a captured step: `mx_ndarray.captured.Held`.

    Only where the optimizer declares that its numbers are made of rates, decays and settings, and of a factor of all
    rates by the count of updates. They are known while nothing of that changes. They are also known while the rate and
    the factor alone change, if the arrays of the last update that ran are those that are computed here.

    An update whose numbers are known counts as taken, unless `failed` says that it was not. The counts reach the
    optimizer's table when somebody looks at it.

    Threads: one at a time, as the optimizer.

    Parameters
    ----------
    optimizer : Optimizer
    indices : sequence
        Of the weights that each update updates.
    states : function without arguments, optional
        The table of states that updates use; another one, or one that was changed, has other arrays.
    version : function without arguments, optional
        Gives another object when a factor of a parameter may have changed. Without it they are asked each time.
    rescale : function without arguments, optional
        What the update would set as `rescale_grad`.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        indices: Sequence[Index],
        states: Callable[[], StateTable] | None = None,
        version: Callable[[], object] | None = None,
        rescale: Callable[[], float] | None = None,
    ) -> None:
        self._optimizer = optimizer
        self._indices = list(indices)
        self._states, self._version, self._rescale = states, version, rescale
        # an array may change in place
        by_rate = vars(type(optimizer)).get("_numbers_by_rate") and not any(
            hasattr(value, "asnumpy") for value in vars(optimizer).values()
        )
        self._declared = bool(by_rate and indices)
        self._settings = attrgetter(*_settings_of(optimizer))
        # of the last update that ran for the graph
        self._used: Any = None
        self._used_states: StateTable | None = None
        self._changes = 0  # of these
        self._computes = False  # whether arrays are those that would be computed here
        self._arrays: np.ndarray[Any, Any] = np.zeros(0)  # what they hold
        self._places: np.ndarray[Any, Any] = np.zeros(0)  # where they hold the rates
        self._factors: Any = 1.0  # of rates: one, or one each
        # of the last update
        self._rate: tuple[float, float] | None = None
        # counts: the optimizer's table at the last update that ran, and how they were looked at
        self._counts: object = None
        self._most = 0
        self._alike = False
        self._ahead = 0  # updates that the optimizer's table has not got yet
        #: what `failed` goes back to: all counts, or that of the optimizer
        self._before: counted_if_done | int = 0

    def arrays(self) -> bytes | None:
        """What the arrays of rates and decays hold, or nothing if that is as before; None if an update must run."""
        optimizer = self._optimizer
        if not self._declared:
            return None
        if vars(optimizer)["_index_update_count"] is not self._counts:  # of another trainer of the optimizer
            return None
        if optimizer._counted_ahead is not self:
            self._look_at_counts()
        count = self._most + self._ahead + 1
        latest = max(optimizer.num_update, count)
        rate = self._rate_of(latest, count)
        if rate is None or self._numbers() != self._used or self.moved():
            return None
        found = b""
        if rate != self._rate:
            if not self._computes or type(rate[0]) not in (float, int):
                return None
            found = self._computed(*rate)
            self._rate = rate
        self._ahead += 1
        self._before = optimizer.num_update
        optimizer.num_update = latest
        return found

    def moved(self) -> bool:
        """Whether an update would use other states than the last one that ran for the graph."""
        if self._states is None:
            return False
        states = self._states()
        return states is not self._used_states or states.changes != self._changes

    def begins(self) -> None:
        """Keeps the counts, before an update runs."""
        self._before = counted_if_done(self._optimizer, self._indices)

    def failed(self) -> None:
        """The update that `arrays` has counted, or that has run since `begins`, does not count."""
        if isinstance(self._before, counted_if_done):
            self._before.undo()
            return
        self._ahead -= 1
        self._optimizer.num_update = self._before
        self._rate = None  # nobody knows which one the graph has

    def told(self, arrays: bytes) -> None:
        """Gets what the arrays held of an update that has run: whether it is what would be computed here."""
        if self._states is not None:
            self._used_states = self._states()
            self._changes = self._used_states.changes
        if not self._declared:
            return
        optimizer = self._optimizer
        self._look_at_counts()
        self._counts = vars(optimizer)["_index_update_count"]
        *others, lr_mult, wd_mult = self._numbers()
        self._used = (*others, dict(lr_mult), dict(wd_mult))  # programs change these in place
        self._rate = self._rate_of(optimizer.num_update, self._most)
        factors = optimizer._mults(self._indices, optimizer.lr_mult, "lr_mult")
        decay_factors = optimizer._mults(self._indices, optimizer.wd_mult, "wd_mult")
        decays = [optimizer.wd * each for each in decay_factors]
        self._factors = np.array(factors) if len(set(factors)) > 1 else factors[0]
        self._places = np.flatnonzero(together.numbers([1] * len(factors), [0] * len(factors)))
        self._arrays = together.numbers(factors, decays)
        self._computes = self._rate is not None and self._computed(*self._rate) == arrays

    def settle(self) -> None:
        """Adds the updates that were counted here to the optimizer's table."""
        counts, start = vars(self._optimizer)["_index_update_count"], self._optimizer.begin_num_update
        ahead, self._ahead = self._ahead, 0
        if ahead:
            counts.update([(i, counts.get(i, start) + ahead) for i in self._indices])

    def _look_at_counts(self) -> None:
        optimizer = self._optimizer
        counts, start = optimizer._index_update_count, optimizer.begin_num_update
        seen = {counts.get(i, start) for i in self._indices}
        self._most, self._alike, self._ahead = max(seen), len(seen) == 1, 0
        optimizer._counted_ahead = self

    def _rate_of(self, latest: int, count: int) -> tuple[float, float] | None:
        """The rate and its factor; None where weights have different ones, since they were updated unequally often."""
        optimizer = self._optimizer
        schedule = optimizer.lr_scheduler
        factor = optimizer._rate_factor(count)
        if not self._alike and (factor != 1 or schedule is not None):
            return None
        return (optimizer.lr if schedule is None else schedule(latest)), factor

    def _numbers(self) -> tuple[Any, ...]:
        """What updates use beside rates: the scale of gradients, settings, and factors of rates and decays."""
        optimizer = self._optimizer
        scale = optimizer.rescale_grad if self._rescale is None else self._rescale()
        parameters = self._version() if self._version is not None else self._own_factors()
        return scale, self._settings(optimizer), parameters, optimizer.lr_mult, optimizer.wd_mult

    def _own_factors(self) -> list[Any]:
        """Those that parameters have as attributes."""
        known = self._optimizer.param_dict
        return [_MULTIPLIERS(known[i]) for i in self._indices if i in known] if known else []

    def _computed(self, rate: float, factor: float) -> bytes:
        """What the arrays hold that `together.step` makes."""
        self._arrays[self._places] = self._factors * rate * factor
        return self._arrays.tobytes()
