# SPDX-License-Identifier: Apache-2.0
"""What the workers of a distributed store tell each other of their checkpoints."""

from __future__ import annotations

import mx_kvstore
from mx_core.errors import ArgumentError
from mx_ndarray import nd


def check_workers(kvstore: str | mx_kvstore.KVStoreBase, keep: int) -> None:
    """Refuses settings with which workers may have no checkpoint in common.

    A worker computes no step more than others have begun, so that it is ahead of them by one checkpoint at most.

    Raises
    ------
    ArgumentError  it is another thing than a store, workers do not wait for each other, or keep one checkpoint only
    """
    name = kvstore if isinstance(kvstore, str) else getattr(kvstore, "type", None)
    if not isinstance(name, str):
        raise ArgumentError(
            f"[checkpoint.Training] kvstore: expected a store or its name, got {kvstore!r:.80}"
        )
    if "async" in name.lower():
        raise ArgumentError(
            f"[checkpoint.Training] kvstore: workers of {name!r} do not wait for each other, so no step is one of all "
            "of them; expected a store such as 'dist_sync'"
        )
    if keep < 2:
        raise ArgumentError(
            f"[checkpoint.Training] keep: expected at least 2 with a kvstore, as one worker may have written a "
            f"checkpoint that another one has not, got {keep}"
        )


def least_of(kvstore: str | mx_kvstore.KVStoreBase, step: int) -> int:
    """The least number of what all workers call it with; blocks until all have.

    Parameters
    ----------
    kvstore : str or KVStore
        Another one of this type is made, as keys of one store are all numbers or all names. It sums what is pushed.
    step : int
        At least 0.
    """
    store = mx_kvstore.create(kvstore if isinstance(kvstore, str) else kvstore.type)
    steps = nd.zeros((store.num_workers,), dtype="float64")
    store.broadcast("step", steps.copy(), out=steps)
    steps[store.rank] = step
    store.pushpull("step", steps, out=steps)
    return int(steps.asnumpy().min())
