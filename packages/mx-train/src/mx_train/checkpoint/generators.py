# SPDX-License-Identifier: Apache-2.0
"""The random generators of a program: mx's streams, NumPy's global generator, and Python's."""

from __future__ import annotations

import operator
import random as python
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from mx_core.context import Context
from mx_core.errors import ArgumentError, FileFormatError
from mx_ndarray import random


def states(contexts: Iterable[Context]) -> dict[str, Any]:
    """Where they are: cheap, so that it may be asked before each batch.

    Parameters
    ----------
    contexts : iterable of Context
        Whose streams are asked for.
    """
    return {
        "mx": random.get_state(contexts),
        "numpy": np.random.get_state(legacy=True),
        "python": python.getstate(),
    }


def told(found: Mapping[str, Any]) -> dict[str, Any]:
    """What `states` gave as numbers, text and lists."""
    name, keys, place, has_gauss, gauss = found["numpy"]
    version, numbers, following = found["python"]
    return {
        "mx": found["mx"],
        "numpy": [name, [int(key) for key in keys], int(place), int(has_gauss), float(gauss)],
        "python": [version, list(numbers), following],
    }


def check(state: Mapping[str, Any]) -> None:
    """Refuses what `told` did not give, by trying it with generators of its own.

    Raises
    ------
    FileFormatError  it is something else
    """
    try:
        name, keys, place, *rest = state["numpy"]
        if not (len(keys) == 624 and 0 <= place <= 624):  # NumPy would read what is behind them
            raise ValueError(f"{len(keys)} numbers of NumPy, of which {place} are used")
        np.random.RandomState().set_state((name, np.array(keys, np.uint32), place, *rest))
        version, numbers, following = state["python"]
        python.Random().setstate((version, tuple(numbers), following))
        operator.index(state["mx"]["seed"])
        for kind, device, seed, key, offset in state["mx"]["streams"]:
            Context(kind, device)
            for each in (0 if seed is None else seed, key, offset):
                operator.index(each)
    except (ArgumentError, LookupError, TypeError, ValueError, OverflowError) as error:
        raise FileFormatError(f"the states of random generators are something else: {error!r}") from error


def go_on(state: Mapping[str, Any]) -> None:
    """Takes states that `states` or `told` gave."""
    random.set_state(state["mx"])
    name, keys, *rest = state["numpy"]
    np.random.set_state((name, np.array(keys, np.uint32), *rest))
    version, numbers, following = state["python"]
    python.setstate((version, tuple(numbers), following))
