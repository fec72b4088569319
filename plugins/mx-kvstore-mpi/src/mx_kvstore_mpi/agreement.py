# SPDX-License-Identifier: Apache-2.0
"""What workers tell each other of what they do, so that two different things never meet in one exchange."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from mx_core.errors import ArgumentError
from mx_kvstore_mpi.errors import ProtocolError
from mx_ndarray import NDArray
from mx_train.lr_scheduler import LRScheduler
from mx_train.optimizer import SGLD, Optimizer

#: what is done, then its details: shapes, types, settings
Told = tuple[str, ...]

#: before how many keys a worker has initialised
_COUNT = "keys initialised: "
#: what is said of a key that a worker has initialised
_MADE = "initialised"
#: keys, or other texts, that a message lists
_MOST = 4
#: attributes of optimizers that are compared otherwise, or say nothing of numbers
_LEFT = {"param_dict", "sym_info"}


def digest(told: Told) -> int:
    """62 bits of a description."""
    return int.from_bytes(hashlib.blake2b("\0".join(told).encode(), digest_size=8).digest()) >> 2


def of_keys(count: int) -> str:
    """The detail that says how many keys a worker has initialised."""
    return f"{_COUNT}{count}"


def some(texts: Sequence[str]) -> str:
    """Texts in a message, the first of many."""
    return ", ".join(texts[:_MOST]) + (f" and {len(texts) - _MOST} more" if len(texts) > _MOST else "")


def listed(keys: Sequence[str]) -> str:
    """Keys in a message, the first of many."""
    return some([f"key {key}" for key in keys])


def _named(told: Told, keys: Sequence[str]) -> tuple[Told, list[str] | None]:
    """What is told without the number of keys, and the keys themselves; None where it has no such number."""
    counts = [int(each.removeprefix(_COUNT)) for each in told if each.startswith(_COUNT)]
    plain = tuple(each for each in told if not each.startswith(_COUNT))
    return plain, [f"key {key} {_MADE}" for key in keys[: counts[0]]] if counts else None


def differences(tellings: Sequence[Told]) -> str:
    """What each worker says, without the details that all have; workers that say the same are named together."""
    common = set(tellings[0][1:]).intersection(*(told[1:] for told in tellings))
    workers: dict[str, list[int]] = {}
    for rank, (called, *details) in enumerate(tellings):
        rest = ", ".join(each for each in details if each not in common)
        workers.setdefault(f"{called} ({rest})" if rest else called, []).append(rank)
    return "; ".join(
        f"{'worker' if len(ranks) == 1 else 'workers'} {', '.join(map(str, ranks))}: {text}"
        for text, ranks in workers.items()
    )


def compare(comm: Any, wait: Callable[[Any], object], told: Told, keys: Sequence[str] = ()) -> None:
    """Waits until all workers say what they do, which must be the same; raises as `disagree`.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
        Of workers.
    wait : callable
        (request of MPI) -> None; returns when it is complete.
    told, keys
        As of `disagree`.
    """
    from mpi4py import MPI

    mark, least = digest(told), np.empty(2, np.int64)
    wait(comm.Iallreduce(np.array([mark, -mark], np.int64), least, op=MPI.MIN))
    if least[0] != -least[1]:
        disagree(comm, wait, told, keys)


def disagree(comm: Any, wait: Callable[[Any], object], told: Told, keys: Sequence[str] = ()) -> NoReturn:
    """Ends the job, as workers do different things at the same place; all of them call it.

    Parameters
    ----------
    comm, wait
        As of `compare`.
    told : tuple of str
    keys : sequence of str
        That this worker has initialised, in that order. Where `told` has the detail `of_keys`, those up to that number
        count, and keys that not all workers have are named.

    Raises
    ------
    ProtocolError  always
    """
    from mpi4py import MPI

    data = np.frombuffer(json.dumps(_named(told, keys)).encode(), np.uint8)
    most = np.empty(1, np.int64)
    wait(comm.Iallreduce(np.array([data.size], np.int64), most, op=MPI.MAX))
    mine = np.full(int(most[0]), ord(" "), np.uint8)
    mine[: data.size] = data
    gathered = np.empty((comm.Get_size(), mine.size), np.uint8)
    wait(comm.Iallgather(mine, gathered))
    found = [json.loads(each.tobytes()) for each in gathered]
    compared = all(names is not None for _, names in found)
    every = dict.fromkeys(name for _, names in found for name in names) if compared else {}
    tellings = [
        (*said, *((name if name in set(names) else f"{name[: -len(_MADE)]}not {_MADE}") for name in every))
        for said, names in found
    ]
    raise ProtocolError(
        f"[KVStore] workers do different things at the same place: {differences(tellings)}; all workers must call "
        "the same methods in the same order, with the same settings"
    )


def of_optimizer(optimizer: Any) -> Told:
    """The details of an optimizer: its class, and all numbers and texts that it holds."""
    details = [f"optimizer {type(optimizer).__name__}"]
    for name, value in sorted(getattr(optimizer, "__dict__", {}).items()):
        if name not in _LEFT:
            details.append(f"{name} {_text(value)}")
    for kind in ("lr_mult", "wd_mult"):
        for index, param in sorted(getattr(optimizer, "param_dict", {}).items(), key=repr):
            if getattr(param, kind, 1.0) != 1.0:
                details.append(f"{kind} of {index!r} {_text(getattr(param, kind))}")
    return tuple(details)


def rates(optimizer: Any) -> dict[str, Any]:
    """What may change of an optimizer from push to push, and is the same for all keys."""
    names = [name for name in ("lr", "wd", "rescale_grad") if hasattr(optimizer, name)]
    if getattr(optimizer, "lr_scheduler", None) is not None:
        names = [name for name in names if name != "lr"]  # the schedule's, which was compared
    found = {name: getattr(optimizer, name) for name in names}
    return {name: rate.item() if isinstance(rate, np.generic) else rate for name, rate in found.items()}


def _inner(optimizer: Any) -> list[Optimizer]:
    """The optimizers that one asks, such as SVRG's."""
    return [
        each for _, each in sorted(getattr(optimizer, "__dict__", {}).items()) if isinstance(each, Optimizer)
    ]


def of_rates(updater: Any) -> Told:
    """The rates of an updater's optimizer."""
    optimizer = getattr(updater, "optimizer", None)
    every = [rates(each) for each in (optimizer, *_inner(optimizer))]
    return tuple(f"{name} {_text(rate)}" for found in every for name, rate in found.items())


def of_states(updater: Any) -> Told:
    """A digest of each state that an updater has."""
    states = getattr(updater, "states", {})
    return tuple(f"state of {key!r} {_print(state)}" for key, state in sorted(states.items(), key=repr))


def _print(state: Any) -> str:
    if isinstance(state, (list, tuple)):
        return "[" + ", ".join(map(_print, state)) + "]"
    if not isinstance(state, NDArray):
        return _text(state)
    values = state.asnumpy()
    return f"{values.shape} {hashlib.blake2b(values.tobytes(), digest_size=8).hexdigest()}"


def _text(value: Any) -> str:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return repr(value)
    if isinstance(value, LRScheduler):
        return f"{type(value).__name__} {_text(vars(value))}"
    if isinstance(value, Optimizer):  # which another one asks, such as SVRG's
        return ", ".join(of_optimizer(value))
    if isinstance(value, Mapping):
        found = sorted((_text(key), _text(each)) for key, each in value.items())
        return "{" + ", ".join(f"{key}: {each}" for key, each in found) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_text, value)) + "]"
    return f"a {type(value).__name__}"


def check_draws_nothing(optimizer: Any, workers: int) -> None:
    """Refuses an optimizer that draws random numbers, where each worker would draw its own.

    Raises
    ------
    ArgumentError  it draws some, and there are several workers
    """
    if workers > 1 and any(isinstance(each, SGLD) for each in (optimizer, *_inner(optimizer))):
        raise ArgumentError(
            f"[KVStore.set_optimizer] {type(optimizer).__name__} draws random numbers, and without servers each of the "
            f"{workers} workers would draw its own, so that their values drift apart; start the job with a server, "
            f"which draws for all: `mx launch -n {workers} -s 1 python train.py`"
        )
