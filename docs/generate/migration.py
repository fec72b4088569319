# SPDX-License-Identifier: Apache-2.0
"""MXNet 1.9.1's public names, and what became of each here: the same, different, absent.

`tests/oracle/names/public.json` has the names as MXNet itself lists them, with the parameters of what Python can tell
(`"data axis=None **kwargs"`; defaults where they are simple). What is the same is found out by looking;
`mxnet_notes.toml` says why a name is absent and how one differs that looks the same.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import tomllib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

import mx
from generate.differences import by_operator
from generate.naming import found, shown
from generate.operators import place
from mx_core.errors import MXNetError
from mx_core.operator import Operator

NAMES = Path(__file__).parents[2] / "tests" / "oracle" / "names" / "public.json"
NOTES = Path(__file__).parent / "mxnet_notes.toml"
#: what modules say of names that they lack: those of `absent`
ABSENT = Path(mx.__file__).parent / "absent.json"
#: what `mx migrate` says of names that differ or are deprecated
MIGRATION_NOTES = Path(mx.__file__).parent / "migrate" / "notes.json"
#: the group of the names of modules
MODULES = "modules"
#: groups whose functions are those of operators
OPERATORS = ("mx.nd", "mx.sym")


class Name(NamedTuple):
    """One of MXNet's names."""

    name: str
    state: str  # same, differs, absent
    note: str = ""


def write(target: Path, root: Path) -> None:
    """`index.md`."""
    (target / "index.md").write_text(page(states(root)))


def names() -> dict[str, dict[str, str | None]]:
    """Module or class -> name -> parameters."""
    recorded: dict[str, dict[str, str | None]] = json.loads(NAMES.read_text())
    return recorded


def notes() -> Mapping[str, Mapping[str, str]]:
    """`absent`: pattern -> why; `differs`: name -> how."""
    return tomllib.loads(NOTES.read_text())


def instances() -> dict[str, Any]:
    """Objects of classes that have attributes of their own."""
    return {"mx.executor.Executor": mx.sym.Variable("x").bind(mx.cpu(), {"x": mx.nd.ones(1)})}


def states(root: Path) -> dict[str, list[Name]]:
    """Module or class -> its names with their states."""
    said, made, differing = notes(), instances(), by_operator(root)
    result: dict[str, list[Name]] = {}
    for group, members in names().items():
        prefix = "mx" if group == MODULES else group
        where = made.get(prefix) or (mx if prefix == "mx" else found(mx, prefix.removeprefix("mx.")))
        rows = []
        for short, parameters in members.items():
            name = f"{prefix}.{short}"
            here = None if where is None else found(where, short)
            if not has(where, short):
                rows.append(Name(name, "absent", reason(name, said["absent"])))
                continue
            differences = [said["differs"][name]] if name in said["differs"] else []
            differences += deviations(here, parameters, inspect.isclass(where))
            op = getattr(here, "__wrapped_operator__", None) if group.startswith(OPERATORS) else None
            if op is not None and op.name in differing:
                differences.append(f"see [{shown(op)}](../operators/{place(op)}.rst)")
            rows.append(Name(name, "differs" if differences else "same", "; ".join(differences)))
        result[group] = rows
    return result


def absent(root: Path) -> dict[str, dict[str, str]]:
    """Module that is here -> the names that it lacks -> what there is instead."""
    result: dict[str, dict[str, str]] = defaultdict(dict)
    for rows in states(root).values():
        for row in rows:
            module, _, short = row.name.rpartition(".")
            where = mx if module == "mx" else found(mx, module.removeprefix("mx."))
            if row.state == "absent" and inspect.ismodule(where):
                result[module][short] = _plain(row.note)
    return {module: dict(sorted(result[module].items())) for module in sorted(result)}


def migration_notes(root: Path) -> dict[str, dict[str, str]]:
    """What `mx migrate` says: name -> how it differs, and name -> what to use instead of what is deprecated.

    Parameters that are not taken, or are called otherwise, are not among it: the command looks at those that a call
    gives.
    """
    different = {}
    for rows in states(root).values():
        for row in rows:
            said = [
                each
                for each in row.note.split("; ")
                if not re.match(r"does not take|see \[|`\w+` is called", each)
            ]
            if row.state == "differs" and said:
                different[row.name] = _plain("; ".join(said))
    deprecated = {name: _plain(note) for name, note in notes()["deprecated"].items()}
    return {"different": dict(sorted(different.items())), "deprecated": dict(sorted(deprecated.items()))}


def _plain(note: str) -> str:
    """Without targets of links."""
    return re.sub(r"\[(.+?)\]\(.+?\)", r"\1", note)


def write_data(root: Path) -> None:
    """Writes the files of the package mx: `python -c "from generate import migration; …"` in `docs`."""
    for path, content in ((ABSENT, absent(root)), (MIGRATION_NOTES, migration_notes(root))):
        path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def has(where: Any, name: str) -> bool:
    """True for attributes that are None, too."""
    return where is not None and hasattr(where, name)


def reason(name: str, reasons: Mapping[str, str]) -> str:
    """Why a name is absent: the first pattern that matches; empty if none does."""
    return next((why for pattern, why in reasons.items() if fnmatchcase(name, pattern)), "")


def deviations(here: Any, parameters: str | None, method: bool = False) -> list[str]:
    """What becomes of parameters that MXNet's function takes: unknown here, called otherwise, another default."""
    try:
        ours = list(inspect.signature(here).parameters.values()) if parameters is not None else []
    except (TypeError, ValueError):
        return []
    op = getattr(here, "__wrapped_operator__", None)
    ours = [p for p in ours if p.name != "self"][op is not None and method :]
    known = {p.name: p.default for p in ours}
    order = list(known)
    anything = op is None and any(p.kind is p.VAR_KEYWORD for p in ours)
    theirs = [word.partition("=") for word in (parameters or "").split() if not word.startswith("*")]
    names_there = {name for name, _, _ in theirs}
    said = []
    for i, (name, _, default) in enumerate(theirs):
        if name in known:
            said += [f"`{name}` {how}" for how in other_default(known[name], default)]
        elif not (anything or not ours or op is not None and accepts(op, name)):
            renamed = (op is None or method) and i < len(order) and order[i] not in names_there
            said.append(f"`{name}` is called `{order[i]}`" if renamed else f"does not take `{name}`")
    return said


def other_default(ours: Any, theirs: str) -> list[str]:
    """How a default differs; None here may stand for any, and None there is often refused by the function."""
    if not theirs or ours is None or theirs == "None" and ours is inspect.Parameter.empty:
        return []
    if ours is inspect.Parameter.empty:
        return [f"has to be given, in MXNet it is `{theirs}`"]
    return [] if ours == ast.literal_eval(theirs) else [f"is `{ours!r}` by default, in MXNet `{theirs}`"]


def accepts(op: Operator, name: str) -> bool:
    """Whether an operator knows a parameter that its signature calls otherwise."""
    try:
        op.Param.parse({name: "1"}, op=op.name)
    except MXNetError as error:
        return "cannot find argument" not in str(error)
    return True


# ---- the page -----------------------------------------------------------------------------------


def page(found_states: Mapping[str, Sequence[Name]]) -> str:
    """All groups, the modules first."""
    groups = sorted(found_states, key=lambda group: (group != MODULES, group.lower()))
    total = [row for rows in found_states.values() for row in rows]
    lines = [
        "# Every public name of MXNet 1.9.1",
        "",
        f"{len(total)} names of modules, functions, classes and their members, as MXNet 1.9.1 lists them, and",
        f"what became of them here: {count(total, 'same')} are the same, {count(total, 'differs')} differ, "
        f"{count(total, 'absent')} are absent.",
        "The table is made when this documentation is built: a name is *the same* when it exists, takes every",
        "parameter that MXNet's takes, and has the same defaults.",
        "[Moving from MXNet](../../../guides/move_from_mxnet.md) says how to change a script,",
        "[the decision on deviations](../../../decisions/0008-deviations-from-mxnet.md) what is computed",
        "differently on purpose.",
        "",
        "| | same | differs | absent |",
        "|---|---|---|---|",
    ]
    for group in groups:
        rows = found_states[group]
        lines.append(
            f"| [{group}](#{heading_anchor(group)}) | "
            + " | ".join(str(count(rows, s) or "") for s in ("same", "differs", "absent"))
            + " |"
        )
    for group in groups:
        lines += section(group, found_states[group])
    return "\n".join(lines) + "\n"


def count(rows: Sequence[Name], state: str) -> int:
    """How many are in a state."""
    return sum(row.state == state for row in rows)


def heading_anchor(group: str) -> str:
    """The anchor of a group's heading."""
    return group.lower().replace(".", "")


def section(group: str, rows: Sequence[Name]) -> list[str]:
    """One module or class."""
    lines = ["", f"## {group}", ""]
    same = [row.name for row in rows if row.state == "same"]
    if same:
        lines += ["Same: " + ", ".join(f"`{short(name)}`" for name in same) + ".", ""]
    differs = [row for row in rows if row.state == "differs"]
    if differs:
        lines += ["| differs | how |", "|---|---|", *(f"| `{r.name}` | {r.note} |" for r in differs), ""]
    absent: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        if row.state == "absent":
            absent[row.note].append(short(row.name))
    if absent:
        lines += ["| absent | why, and what to use |", "|---|---|"]
        lines += [f"| {', '.join(f'`{name}`' for name in those)} | {why} |" for why, those in absent.items()]
    return lines


def short(name: str) -> str:
    """The last part."""
    return name.rpartition(".")[2]
