# SPDX-License-Identifier: Apache-2.0
"""What MXNet 1.9.1's Gluon computes, names and writes, as `tests/oracle/gluon` has it recorded."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from testkit.oracle import ORACLE

FOLDER = ORACLE / "gluon"


@cache
def cases(kind: str) -> list[dict[str, Any]]:
    """The cases of `layers`, `losses` or `trainers`."""
    found: list[dict[str, Any]] = json.loads((FOLDER / "cases.json").read_text())[kind]
    return found


@cache
def _all() -> Mapping[str, Any]:
    with np.load(FOLDER / "arrays.npz") as file:
        return dict(file)


def arrays(prefix: str) -> dict[str, Any]:
    """The arrays whose names begin so, by the rest of their names."""
    return {name.removeprefix(prefix): value for name, value in _all().items() if name.startswith(prefix)}


def chain(net: Any, make: Callable[[], Sequence[Any]], scoped: bool = True) -> Any:
    """A chain with blocks that are made within its scope or outside of it, as the recorder makes it."""
    with net.name_scope() if scoped else contextlib.nullcontext():
        net.add(*make())
    return net
