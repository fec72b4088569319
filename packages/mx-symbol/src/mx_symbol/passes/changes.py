# SPDX-License-Identifier: Apache-2.0
"""Who is told that other passes run in every graph from now on, and so compiles again."""

from __future__ import annotations

from typing import Protocol

from mx_core.weak import WeakGroup


class Compiling(Protocol):
    """Keeps what it has compiled."""

    def forget_compiled(self) -> None:
        """Compiles again at the next call. Threads: any."""


_told: WeakGroup[Compiling] = WeakGroup()


def tell(compiling: Compiling) -> None:
    """Has an object told of changes as long as it lives."""
    _told.add(compiling)


def changed() -> None:
    """Tells all."""
    for each in _told:
        each.forget_compiled()
