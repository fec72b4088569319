# SPDX-License-Identifier: Apache-2.0
"""Weak containers forget what has ended, and run no code when it ends."""

from __future__ import annotations

from mx_core.weak import WeakGroup, WeakTable


class Value:
    pass


def test_a_table_has_what_is_alive() -> None:
    table: WeakTable[int, Value] = WeakTable()
    kept = [Value() for _ in range(3)]
    for key, value in enumerate([*kept, Value()]):
        table[key] = value
    del value
    assert table.get(1) is kept[1] and table.get(3) is None and table.get(9) is None
    assert table.items() == list(enumerate(kept)) and len(table) == 3


def test_a_group_keeps_the_order() -> None:
    group: WeakGroup[Value] = WeakGroup()
    kept = [Value() for _ in range(3)]
    for member in kept:
        group.add(member)
        group.add(Value())
    assert list(group) == kept


def test_references_to_nothing_do_not_pile_up() -> None:
    group: WeakGroup[Value] = WeakGroup()
    kept = [Value() for _ in range(100)]
    for member in kept:
        group.add(member)
    for _ in range(10_000):
        group.add(Value())
    assert len(group._members._references) <= 512
    assert list(group) == kept
