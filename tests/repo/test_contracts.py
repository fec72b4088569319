# SPDX-License-Identifier: Apache-2.0
"""The page of contracts names what there is: arguments of hooks, members of operators, errors, fields of records."""

from __future__ import annotations

import dataclasses
import inspect
import re
from pathlib import Path

import pytest

from mx_core import errors, plugins, testing
from mx_core.operator import Operator
from mx_core.plugins.discovery import PluginRecord
from mx_core.plugins.registrars import REGISTRARS
from mx_core.plugins.registries import Entry

PAGE = (Path(__file__).parents[2] / "docs" / "architecture" / "contracts.md").read_text(encoding="utf-8")


def arguments(kind: str) -> str:
    """`name, make, priority=0`"""
    signature = inspect.signature(REGISTRARS[kind].add)  # type: ignore[attr-defined]
    bare = [p.replace(annotation=p.empty) for p in signature.parameters.values() if p.name != "self"]
    return ", ".join(map(str, bare)).replace("'", '"')


@pytest.mark.parametrize(
    ("hooks", "given"),
    re.findall(r"^\| (`mx_register_.*?) \| `([^`]+)`", PAGE, re.M),
    ids=lambda text: text[:40],
)
def test_hooks_have_their_arguments(hooks: str, given: str) -> None:
    for name in re.findall(r"`(\w+)`", hooks):
        kind = name.removeprefix("mx_register").removeprefix("_")
        assert arguments(kind) == given, kind


def test_every_registering_hook_is_listed() -> None:
    rows = re.findall(r"^\| (`mx_register_.*?) \|", PAGE, re.M)
    listed = {n.removeprefix("mx_register").strip("_") for row in rows for n in re.findall(r"`(\w+)`", row)}
    assert listed == set(REGISTRARS)


def test_members_of_operators_exist() -> None:
    table = PAGE.partition("| member | default | meaning |")[2].partition("\n\n")[0]
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    members = [name for cell in cells for name in re.findall(r"`(\w+)", cell)]
    stated = set(Operator.__annotations__)
    assert len(members) > 30 and [m for m in members if m not in stated and not hasattr(Operator, m)] == []


def test_methods_have_their_arguments() -> None:
    table = PAGE.partition("| member | default | meaning |")[2].partition("\n\n")[0]
    for name, given in re.findall(r"`(\w+)\(([^)…]*)\)`", table):
        if name in ("inplace", "backward_inplace") or name in Operator.__dict__:
            parameters = list(inspect.signature(getattr(Operator, name)).parameters)[1:]
            assert ", ".join(parameters) == given, name


def test_every_error_is_listed_with_its_bases() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (?:`(\w+)`)? ?\|", PAGE, re.M))
    own = {
        name: error
        for name, error in vars(errors).items()
        if inspect.isclass(error) and issubclass(error, errors.MXNetError) and error is not errors.MXNetError
    }
    assert {name for name in rows if name.endswith("Error")} == set(own)
    for name, error in own.items():
        shared = (errors.MXNetError, errors.FileError)
        builtin = [base.__name__ for base in error.__bases__ if base not in shared]
        assert rows[name] == "".join(builtin)


def test_fields_of_records_exist() -> None:
    line = re.search(r"gives a `PluginRecord` for each: (.*?)\. After", PAGE, re.S)
    assert line is not None
    assert re.findall(r"`(\w+)`", line[1]) == [field.name for field in dataclasses.fields(PluginRecord)]
    entry = re.search(r"An entry has (.*?), the line", PAGE, re.S)
    assert entry is not None
    known = {field.name for field in dataclasses.fields(Entry)}
    assert [n for n in re.findall(r"`(\w+)`", entry[1]) if n not in known and not hasattr(Entry, n)] == []


def test_every_contract_is_listed() -> None:
    listed = PAGE.partition("## Contract tests")[2].partition("\n## ")[0]
    assert {n for n in testing.__all__ if n.endswith("Contract")} == set(
        re.findall(r"`(\w+Contract)`", listed)
    )


@pytest.mark.parametrize("kind", ["engines", "commands", "kvstores", "profiler_sinks"])
def test_who_provides_what(kind: str) -> None:
    rows = dict(re.findall(r"^\| (mx[\w-]*) \| (.+) \|$", PAGE.partition("## Who provides what")[2], re.M))
    for entry in plugins.registry(kind).items():
        assert entry.distribution not in rows or f"`{entry.name}`" in rows[entry.distribution], entry


def test_storage_and_random_streams_are_named_with_their_devices() -> None:
    row = next(line for line in PAGE.splitlines() if line.startswith("| mx-storage | "))
    managers, streams = row.split("; random streams of ")
    for kind, text in (("storage_managers", managers), ("resources", streams)):
        own = [e.value for e in plugins.registry(kind).items() if e.distribution == "mx-storage"]
        assert own and {value.device for value in own} == set(re.findall(r"`(\w+)`", text)) - {
            value.name for value in own if kind == "storage_managers"
        }
