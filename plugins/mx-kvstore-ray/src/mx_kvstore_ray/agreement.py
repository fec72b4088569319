# SPDX-License-Identifier: Apache-2.0
"""What workers say of the same thing, which a server compares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mx_kvstore_ray.errors import ProtocolError


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
