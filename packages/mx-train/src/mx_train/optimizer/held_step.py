# SPDX-License-Identifier: Apache-2.0
"""Updates that a captured step of training need not run, while it goes on using the same arrays."""

from __future__ import annotations

from collections.abc import Collection
from operator import is_
from typing import TYPE_CHECKING, Any, NamedTuple

from mx_ndarray import NDArray
from mx_train.optimizer.held import HeldNumbers
from mx_train.optimizer.table import StateTable, arrays_of

if TYPE_CHECKING:
    from mx_train.optimizer.base import Index, Optimizer


class Used(NamedTuple):
    """What a step of training uses: indices of the weights that it updates, and arrays: weights, gradients, others."""

    optimizer: Optimizer
    indices: tuple[Index, ...]
    arrays: tuple[NDArray, ...]

    def same(self, other: Used) -> bool:
        """Whether these are the same objects."""
        return (
            self.optimizer is other.optimizer
            and self.indices == other.indices
            and len(self.arrays) == len(other.arrays)
            and all(map(is_, self.arrays, other.arrays))
        )


class HeldStep:
    """What updates of a Trainer or a Module tell a captured step: `mx_ndarray.captured.Held`.

    Threads: one at a time, as whose updates they are.
    """

    _numbers: HeldNumbers | None = None  # of the last capture
    _used: Used
    _version: tuple[object, ...] = ()  # in which `_used` was found

    # ---- what subclasses define ----

    def _find(self) -> Used:
        """What a step would use now. Raises what `captured_step` raises, as after contexts have changed."""
        raise NotImplementedError

    def _find_version(self) -> tuple[object, ...]:
        """Objects of which one is another one where `_find` may find something else."""
        raise NotImplementedError

    def _states(self) -> StateTable:
        """The states that updates use."""
        raise NotImplementedError

    def _known_by(self, used: Used) -> HeldNumbers:
        """Knows the numbers of updates of these weights."""
        return HeldNumbers(used.optimizer, used.indices, states=self._states)

    def _is_plain(self) -> bool:
        """Whether nothing takes part in updates that counting them would leave out."""
        raise NotImplementedError

    # ---- for the captured step ----

    def weights(self) -> list[NDArray]:
        """The arrays that the step shares with other work: weights, gradients, others and states."""
        states = self._states()
        own = (arrays_of(states.get(i)) for i in self._find().indices)
        return [*self._find().arrays, *(array for each in own for array in each)]

    def arrays(self) -> bytes | None:
        """As `Held` says."""
        if self._numbers is None or not self._is_plain() or self._moved():
            return None
        return self._numbers.arrays()

    def moved(self) -> bool:
        """As `Held` says."""
        return self._numbers is None or self._moved() or self._numbers.moved()

    def begins(self) -> None:
        """As `Held` says."""
        used = self._find()
        if self._numbers is None or not used.same(self._used):
            self._numbers = self._known_by(used)
        self._used, self._version = used, self._find_version()
        self._numbers.begins()

    def told(self, arrays: bytes) -> None:
        """As `Held` says."""
        if self._numbers is not None:  # else the arrays were not there when it began
            self._numbers.told(arrays)

    def failed(self) -> None:
        """As `Held` says."""
        if self._numbers is not None:
            self._numbers.failed()

    def _moved(self) -> bool:
        version = self._find_version()
        if version == self._version:
            return False
        if not self._find().same(self._used):
            return True
        self._version = version
        return False


def overrides(owner: Any, base: type, names: Collection[str]) -> bool:
    """Whether an object, or its class, has other methods of these names than a class that it extends."""
    own = type(owner)
    return not vars(owner).keys().isdisjoint(names) or (
        own is not base and any(getattr(own, name) is not getattr(base, name) for name in names)
    )
