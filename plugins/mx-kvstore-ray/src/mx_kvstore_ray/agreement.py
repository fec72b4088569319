# SPDX-License-Identifier: Apache-2.0
"""What workers say of the same thing, which a server compares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mx_kvstore_ray.errors import ProtocolError

#: of an optimizer: what each push tells, and what its updates count
_GOES_ON = {"lr", "wd", "rescale_grad", "begin_num_update", "num_update", "_index_update_count"}
#: of a schedule: what its rates so far have changed, besides `base_lr`
_STEPPED = {"count", "cur_step_ind", "_earlier"}
_MUST = "all workers must initialise the same keys in the same order"


class Keys:
    """The keys that workers have initialised, compared where all come with the same ones: at pushes and meetings.

    A worker tells at once of new keys, while calls that it made before may still be on their way. So it also says which
    calls it has made since it last told. Who then has more keys than another one brings to a later call differs from
    that one, long before it comes. Nothing is kept in files, as of `Optimizers`.

    Threads: one.
    """

    def __init__(self) -> None:
        #: by worker: its keys, by their number; and how often it had called what when it told of the last one, unless
        #: the server has come back meanwhile
        self._names: dict[int, dict[int, str]] = {}
        self._called: dict[int, dict[Any, int]] = {}
        #: by what is called: the call to which somebody has come, its name, and with how many keys workers came
        self._came: dict[Any, tuple[int, str, dict[int, int]]] = {}
        #: by a number of keys: what somebody has come to with so many
        self._with: dict[int, set[Any]] = {}

    def tell(self, rank: int, begin: int, names: Sequence[str], called: Mapping[Any, int]) -> None:
        """A worker has initialised keys, the first of which is number `begin` of its keys.

        Parameters
        ----------
        called : mapping
            By the places of `come`, how often it has called what it called since it last told.

        Raises
        ------
        ProtocolError  they are others than those of another worker; the message names keys and workers
        """
        mine = self._names.setdefault(rank, {})
        if begin == 0 or (rank in self._called and begin <= len(mine)):
            self._called.setdefault(rank, {}).update(called)
        else:
            self._called.pop(rank, None)
        mine.update(enumerate(names, begin))
        for number in range(begin, begin + len(names)):
            for other, theirs in self._names.items():
                if theirs.get(number, mine[number]) != mine[number]:
                    said = "; ".join(
                        f"worker {each} has initialised key {name}"
                        for each, name in sorted([(rank, mine[number]), (other, theirs[number])])
                    )
                    raise ProtocolError(f"[KVStore] keys differ: {said}; {_MUST}")
            # What others have come to with fewer keys was compared when this worker told of the keys before.
            for place in self._with.get(number, ()):
                n, what, counts = self._came[place]
                if rank not in counts and self._least(rank, place, n) > number:
                    other = min(each for each, count in counts.items() if count == number)
                    self._refuse(what, rank, other, number, len(mine))

    def come(self, place: Any, n: int, what: str, rank: int, count: int) -> None:
        """A worker has come to call `n` of a place, named so for messages, with so many keys.

        Raises
        ------
        ProtocolError  another one has others; the message names keys and workers
        """
        if place not in self._came or self._came[place][0] != n:
            self.over(place)
            self._came[place] = n, what, {}
        counts = self._came[place][2]
        for other in self._names.keys() | counts.keys():
            theirs = counts[other] if other in counts else self._least(other, place, n)
            if other != rank and count < theirs:
                self._refuse(what, other, rank, count, theirs)
            if other != rank and other in counts and count > theirs:
                self._refuse(what, rank, other, theirs, count)
        counts[rank] = count
        self._with.setdefault(count, set()).add(place)

    def over(self, place: Any) -> None:
        """All have come to the call of a place."""
        _, _, counts = self._came.pop(place, (0, "", {}))
        for count in set(counts.values()):
            self._with[count].discard(place)
            if not self._with[count]:
                del self._with[count]

    def forget(self, rank: int) -> None:
        """A worker is waited for no more, or begins anew."""
        self._names.pop(rank, None)
        self._called.pop(rank, None)
        for place, (_, _, counts) in self._came.items():
            count = counts.pop(rank, None)
            if count is not None and count not in counts.values():
                self._with[count].discard(place)

    def _least(self, rank: int, place: Any, n: int) -> int:
        """With how many keys, at least, a worker will come to call `n` of a place."""
        called = self._called.get(rank)
        return len(self._names[rank]) if called is not None and n > called.get(place, 0) else 0

    def _refuse(self, what: str, rank: int, other: int, begin: int, end: int) -> None:
        """Worker `rank` has the keys from `begin` to `end`, and `other` has not."""
        known = self._names.get(rank, {})
        names = ", ".join(f"key {known.get(number, f'number {number}')}" for number in range(begin, end))
        raise ProtocolError(
            f"[KVStore] {what}: initialised by worker {rank} and not by worker {other}: {names}; {_MUST}"
        )


class Optimizers:
    """The optimizers that workers set; not kept in files: a server that comes back compares what comes then.

    Threads: one.
    """

    def __init__(self) -> None:
        #: by store and how many its workers have set: who set it first, and what
        self._first: dict[tuple[int, int], tuple[int, Mapping[str, Any]]] = {}

    def compare(self, rank: int, told: Mapping[str, Any]) -> None:
        """Compares an optimizer with what another worker has set.

        Raises
        ------
        ProtocolError  it is another one, or has other numbers; the message names them, and both workers
        """
        place, mine = (told["store"], told["n"]), told["optimizer"]
        other, theirs = self._first.setdefault(place, (rank, mine))
        if _ordered(mine) != _ordered(theirs):
            texts = sorted([(rank, _text(mine, theirs)), (other, _text(theirs, mine))])
            said = "; ".join(f"worker {each} has {text}" for each, text in texts)
            raise ProtocolError(
                f"[KVStore.set_optimizer] optimizers differ: {said}; all workers must set the same"
            )


def same(optimizer: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether one can go on where the other one has stopped: both as they were told when they were set.

    Rates may differ, which each push tells, and how many updates a worker had made by itself, or asked a schedule for.
    """
    return bool(_ordered(_lasting(optimizer)) == _ordered(_lasting(other)))


def check_goes_on(earlier: Sequence[Mapping[str, Any]], optimizer: Mapping[str, Any], folder: Path) -> None:
    """Compares an optimizer with those that jobs before have set from there on, the last of which is in the files.

    Raises
    ------
    ProtocolError  it is neither the next of them nor the last; the message names it and the last
    """
    if not earlier or same(earlier[0], optimizer) or same(earlier[-1], optimizer):
        return
    theirs, mine = _lasting(earlier[-1]), _lasting(optimizer)
    raise ProtocolError(
        f"[KVStore.set_optimizer] the files in {folder} are of a job with {_text(theirs, mine)}, and this one sets "
        f"{_text(mine, theirs)}; set the same, name another folder, or have mx launch --new-optimizer take the new one"
    )


def check_last(given: Sequence[Mapping[str, Any]], count: int, folder: Path) -> None:
    """Compares the last of the `count` optimizers that a job has set with the one that runs: the last in the files.

    Raises
    ------
    ProtocolError  it is another one; the message names both
    """
    if not 0 < count < len(given) or same(given[count - 1], given[-1]):
        return
    theirs, mine = _lasting(given[-1]), _lasting(given[count - 1])
    raise ProtocolError(
        f"[KVStore] the files in {folder} are of a job that has set {_text(theirs, mine)} after {_text(mine, theirs)}, "
        "and this one pushes without it; set it, too, or alone, or name another folder"
    )


def _lasting(optimizer: Mapping[str, Any]) -> dict[str, Any]:
    attributes = {name: each for name, each in optimizer["attributes"].items() if name not in _GOES_ON}
    found = {**optimizer, "attributes": attributes}
    if "lr_scheduler" in found:
        found["lr_scheduler"] = _first(found["lr_scheduler"])
    return found


def _first(schedule: Mapping[str, Any]) -> dict[str, Any]:
    """A schedule as it was made, whatever rates a worker has asked it for."""
    told = schedule["attributes"]
    found = {name: each for name, each in told.items() if name not in _STEPPED}
    if told.get("_earlier", {}).get("list"):  # counts and rates before each change
        found["base_lr"] = told["_earlier"]["list"][0]["list"][1]
    if "base_lr_orig" in found:  # of which all rates are made
        del found["base_lr"]
    return {**schedule, "attributes": found}


def _text(optimizer: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """The name of an optimizer, and what another one has otherwise."""
    mine, theirs = _numbers(optimizer), _numbers(other)
    differing = [
        f"{name} {value!r}"
        for name, value in mine.items()
        if name not in theirs or _ordered(theirs[name]) != _ordered(value)
    ]
    return f"{optimizer['name']} with {', '.join(differing)}" if differing else str(optimizer["name"])


def _numbers(optimizer: Mapping[str, Any]) -> dict[str, Any]:
    return {**optimizer["attributes"], "lr_scheduler": optimizer.get("lr_scheduler")}


def _ordered(value: Any) -> Any:
    """The same for the same numbers: a mapping's pairs come in the order in which each worker has put them in."""
    if isinstance(value, Mapping):
        found = {name: _ordered(each) for name, each in value.items()}
        return {**found, "pairs": sorted(found["pairs"], key=repr)} if "pairs" in found else found
    if isinstance(value, list):
        return [_ordered(each) for each in value]
    return repr(value) if value != value else value  # NaN is no other number than NaN
