# SPDX-License-Identifier: Apache-2.0
"""Where the random streams are, so that a program can go on with the numbers that another one would have drawn."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import Any

from mx_core import plugins, services
from mx_core.context import Context, current_context
from mx_core.errors import ArgumentError
from mx_core.forks import ForkSafeLock

_lock = ForkSafeLock()
#: the seed of all streams, and those of single contexts that were seeded later
_seed = 0
_seeds: dict[Context, int] = {}
#: contexts that a state was asked for
_known: set[Context] = set()


def seed(seed_state: int, ctx: Context | str = "all") -> None:
    """Restarts the random streams.

    Parameters
    ----------
    seed_state : int
    ctx : Context, or "all"
        Of one context only; by default every context gets a stream derived from the seed.

    Raises
    ------
    ArgumentError  the seed is not an integer, or `ctx` neither a context nor "all"
    """
    if not hasattr(seed_state, "__index__"):
        raise ArgumentError(f"[random.seed] expected an integer, got {seed_state!r}")
    state = int(seed_state.__index__()) & 0xFFFFFFFFFFFFFFFF
    if isinstance(ctx, Context):
        services.random(ctx.device_type).seed(state, ctx)
        _note(state, ctx)
    elif ctx != "all":
        raise ArgumentError(f"[random.seed] ctx: expected a Context or 'all', got {ctx!r}")
    else:
        streams = {id(made): made for made in map(services.random, _device_types())}
        for made in streams.values():  # usually one for all devices
            made.seed(state)
        _note(state, None)


def _device_types() -> list[str]:
    """Device types that have random streams and are present."""
    kinds = {entry.value.device for entry in plugins.registry("resources").items()}
    return sorted(kind for kind in kinds if kind.startswith("cpu") or services.device_count(kind))


def _note(seed: int, ctx: Context | None) -> None:
    """Keeps the seed of all streams, or of one."""
    global _seed
    with _lock:
        if ctx is None:
            _seed = seed
            _seeds.clear()
        else:
            _seeds[ctx] = seed


def get_state(contexts: Iterable[Context] = ()) -> dict[str, Any]:
    """The seeds, and how far the streams of contexts are.

    Waits for nothing: numbers are reserved when an operation is called, whenever it runs.

    Threads: any; another thread that draws meanwhile may or may not be counted.

    Parameters
    ----------
    contexts : iterable of Context
        Whose streams are asked for, besides those of the current context, of `cpu(0)` and of contexts with a seed of
        their own.

    Returns
    -------
    dict
        Of numbers, text and lists, which JSON can hold.
    """
    with _lock:
        seed, seeds = _seed, dict(_seeds)
        _known.update(contexts, seeds, (Context("cpu", 0), current_context()))
        asked = sorted(_known, key=str)
    places = []
    for ctx in asked:
        key, offset = services.random(ctx.device_type).reserve(0, ctx)
        places.append([ctx.device_type, ctx.device_id, seeds.get(ctx), key, offset])
    return {"seed": seed, "streams": places}


def set_state(state: Mapping[str, Any]) -> None:
    """Has the streams go on from a state that `get_state` gave, in this process or another one.

    Streams of other contexts begin with the seed that they had.

    Raises
    ------
    ArgumentError  the state is something else, or the random streams of this program come from another provider
    """
    whole, streams = _parsed(state)
    seed(whole)
    for ctx, own, key, offset in streams:
        if own is not None:
            seed(own, ctx)
        provider = services.random(ctx.device_type)
        found, _ = provider.reserve(offset, ctx)
        if found != key:
            raise ArgumentError(
                f"[random.set_state] the stream of {ctx} has the key {found}, expected {key}: the state is of a "
                f"program whose streams {type(provider).__module__} does not make"
            )


def _parsed(state: Mapping[str, Any]) -> tuple[int, list[tuple[Context, int | None, int, int]]]:
    """The seed; and context, seed of its own, key and offset of each stream."""
    try:
        streams = []
        for kind, number, own, key, offset in state["streams"]:
            ctx, place = Context(kind, number), operator.index(offset)
            if not 0 <= place < 1 << 64:
                raise ValueError(f"offset: expected a whole number of 64 bits, got {place}")
            services.random(ctx.device_type)
            streams.append((ctx, None if own is None else operator.index(own), operator.index(key), place))
        return operator.index(state["seed"]), streams
    except (ArgumentError, LookupError, TypeError, ValueError) as error:
        raise ArgumentError(
            f"[random.set_state] expected what get_state gave, got {state!r:.200}: {error}"
        ) from error
