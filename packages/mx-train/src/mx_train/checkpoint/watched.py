# SPDX-License-Identifier: Apache-2.0
"""The data of a training, iterated from the place of the last checkpoint on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from mx_core.errors import ArgumentError
from mx_train.checkpoint import generators

if TYPE_CHECKING:
    from mx_train.checkpoint.training import Training


class Watched:
    """The data of a training; each iteration is an epoch. It has the attributes of the data, too.

    Threads: one at a time.

    Parameters
    ----------
    training : Training
    data : DataIter, DataLoader or other iterable
    """

    def __init__(self, training: Training, data: Any) -> None:
        if iter(data) is data and not hasattr(data, "reset"):
            raise ArgumentError(
                f"[Training.watch] data: expected what can be iterated again, got {data!r:.80}"
            )
        self._training, self._data = training, data
        self._next_epoch = training.epoch
        #: how many batches of the present epoch were done when it was taken from a checkpoint, and whether that was all
        self.done, self.is_over = 0, False

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._data, name)

    def __len__(self) -> int:
        return len(self._data)

    @property
    def epoch(self) -> int:
        """The number of the epoch that the next iteration is."""
        return self._next_epoch

    def restore(self, optimizer: Any = None) -> bool:
        """As `Training.restore`, for `Module.fit`."""
        self._compare()
        return self._training.restore(optimizer)

    def measure(self, metric: Any) -> None:
        """Says what metric the training has, which checkpoints hold."""
        self._training.metric = metric

    def __iter__(self) -> Iterator[Any]:
        training = self._training
        self._compare()
        place = training._take()
        self.is_over = place is not None and bool(place["ended"])
        if place is None:
            training._begin(self._next_epoch)
            begun = self._begun()
            batches, done = iter(self._data), 0
        else:
            begun = {
                "generators": place["begun"],
                "iterator": place["iterator"],
                "data": _described(self._data),
            }
            batches, done = self._found(place), int(place["batch"])
        self._next_epoch, self.done = training.epoch + 1, done
        return self._epoch(batches, done, begun, was_taken=place is not None)

    def _begun(self) -> dict[str, Any]:
        state = getattr(self._data, "state_dict", None)
        return {
            "generators": self._training._generators(),
            "iterator": None if state is None else state(),
            "data": _described(self._data),
        }

    def _compare(self) -> None:
        """Refuses other data than those of the checkpoint that waits, as far as they tell."""
        training = self._training
        if not training.resumed:
            return
        before, now = training._place["data"], _described(self._data)
        for name, what in _DESCRIBED.items():
            if name in before and name in now and before[name] != now[name]:
                raise ArgumentError(
                    f"[Training.watch] data: expected {what} {before[name]}, as in {training._path}, got {now[name]}: "
                    "the data are others; another folder begins anew"
                )

    def _found(self, place: Mapping[str, Any]) -> Iterator[Any]:
        """The iterator at the place of a checkpoint."""
        if place["iterator"] is not None:
            self._load(place["iterator"])
        elif hasattr(self._data, "reset"):
            for _ in range(int(place["epoch"])):
                for _ in self._data:
                    pass
                self._data.reset()
        with self._training._naming():
            generators.go_on(place["begun"])
        batches: Iterator[Any] = iter(self._data)
        for number in range(int(place["batch"])):
            if next(batches, None) is None:
                raise ArgumentError(
                    f"[Training.watch] data: the checkpoint is after batch {place['batch']} of the epoch, got {number} "
                    "batches: the data are others"
                )
        with self._training._naming():
            generators.go_on(place["now"])
        return batches

    def _load(self, state: Mapping[str, Any]) -> None:
        """Gives the data the state that those of the checkpoint had."""
        load = getattr(self._data, "load_state_dict", None)
        kind = type(self._data).__name__
        if load is None:
            raise ArgumentError(
                f"[Training.watch] data: the checkpoint has a state of its data ({', '.join(state)}), and {kind} takes "
                "none: the data are others"
            )
        with self._training._naming():
            try:
                load(state)
            except (LookupError, TypeError, AttributeError) as error:
                raise ArgumentError(
                    f"[Training.watch] data: {kind} cannot take the state of the checkpoint's data "
                    f"({', '.join(state)}): the data are others: {error!r}"
                ) from error

    def _epoch(
        self, batches: Iterator[Any], done: int, begun: Mapping[str, Any], was_taken: bool
    ) -> Iterator[Any]:
        training, fresh = self._training, was_taken
        while True:
            due = training._is_due() and not fresh
            before = training._generators() if due else None
            batch = next(batches, None)
            if batch is None:
                if not fresh:
                    training._write(begun, before or training._generators(), ended=True)
                return
            if before is not None:
                training._write(begun, before, ended=False)
            fresh = False
            yield batch
            done += 1
            training._step += 1
            training._place["batch"] = done


#: what is told of data
_DESCRIBED = {"batch_size": "a batch size of", "batches": "a number of batches of"}


def _described(data: Any) -> dict[str, int]:
    """How many batches an epoch has, and how many examples a batch, of data that say so."""
    found = {"batch_size": getattr(data, "batch_size", None)}
    with suppress(TypeError, NotImplementedError):
        found["batches"] = len(data)
    return {name: int(value) for name, value in found.items() if isinstance(value, int)}
