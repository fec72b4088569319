# SPDX-License-Identifier: Apache-2.0
"""Every public name of MXNet has a state here, and one that is absent a reason."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from generate import migration

import mx

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def rows() -> dict[str, migration.Name]:
    return {row.name: row for group in migration.states(ROOT).values() for row in group}


def in_state(rows: dict[str, migration.Name], state: str) -> dict[str, str]:
    return {name: row.note for name, row in rows.items() if row.state == state}


@pytest.mark.long
def test_every_name_of_mxnet_has_a_state(rows: dict[str, migration.Name]) -> None:
    recorded = sum(map(len, migration.names().values()))
    assert sum(len(group) for group in migration.states(ROOT).values()) == recorded > 2500
    assert {row.state for row in rows.values()} == {"same", "differs", "absent"}


def test_every_absence_has_a_reason(rows: dict[str, migration.Name]) -> None:
    assert [name for name, why in in_state(rows, "absent").items() if not why] == []


def test_every_reason_is_the_first_for_some_absent_name(rows: dict[str, migration.Name]) -> None:
    patterns = list(migration.notes()["absent"])
    used = {next((p for p in patterns if fnmatchcase(name, p)), None) for name in in_state(rows, "absent")}
    assert [p for p in patterns if p not in used] == []


def test_every_note_on_a_difference_is_of_a_name_that_is_here(rows: dict[str, migration.Name]) -> None:
    differing = in_state(rows, "differs")
    for name, how in migration.notes()["differs"].items():
        assert how in differing.get(name, ""), f"{name} is not here, or has no such note"
    assert all(differing.values())


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("mx.nd.dot", "same"), ("mx.sym.Symbol.simple_bind", "differs"), ("mx.gluon.Block", "same"), ("mx.gluon.rnn.LSTM", "same"),
        ("mx.executor.Executor.arg_dict", "same"), ("mx.kvstore.create", "differs"), ("mx.nd.LeakyReLU", "differs"),
        ("mx.nd.contrib.AdaptiveAvgPooling2D", "same"), ("mx.nd.contrib.SyncBatchNorm", "differs"),
        ("mx.nd.sparse.dot", "absent"),
    ],
)  # fmt: skip
def test_states(name: str, state: str, rows: dict[str, migration.Name]) -> None:
    assert rows[name].state == state


def test_parameters_that_are_not_taken_are_told() -> None:
    def ours(data: object, *, flag: bool = False, **rest: object) -> None: ...

    assert migration.deviations(ours, "data other flag **kwargs") == []
    assert migration.deviations(mx.nd.from_numpy, "ndarray zero_copy array_cls") == [
        "does not take `array_cls`"
    ]
    assert migration.deviations(mx.kv.create, "label") == ["`label` is called `name`"]
    assert migration.deviations(mx.nd.relu, "data other") == ["does not take `other`"]
    assert migration.deviations(mx.nd.relu, None) == []
    assert migration.deviations(ours, "data flag=True") == ["`flag` is `False` by default, in MXNet `True`"]
    assert migration.deviations(ours, "data=1 flag=False") == ["`data` has to be given, in MXNet it is `1`"]
    assert migration.deviations(ours, "data=None") == []


@pytest.mark.long
def test_the_page_names_every_group_and_every_absent_name() -> None:
    page = migration.page(migration.states(ROOT))
    for group, members in migration.names().items():
        assert f"\n## {group}\n" in page
        assert all(f"`{name}`" in page or f".{name}`" in page for name in members)


@pytest.mark.long
def test_modules_tell_of_every_absent_name() -> None:
    """`from generate import migration; migration.write_data(root)` in `docs` writes the file anew."""
    assert json.loads(migration.ABSENT.read_text()) == migration.absent(ROOT)


@pytest.mark.long
def test_the_command_tells_of_every_difference() -> None:
    """As above."""
    written = json.loads(migration.MIGRATION_NOTES.read_text())
    assert written == migration.migration_notes(ROOT)
    known = {f"{group}.{name}" for group, members in migration.names().items() for name in members}
    assert set(written["deprecated"]) <= known
