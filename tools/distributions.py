# SPDX-License-Identifier: Apache-2.0
"""The distributions of this repository and what they declare."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Distribution:
    """One `pyproject.toml` below `packages/` or `plugins/`.

    Attributes
    ----------
    name : str
        Name in `[project]`.
    folder : Path
        Where its `pyproject.toml` is.
    dependencies : tuple of str
        Requirements as they are written.
    extras : dict
        Requirements of each extra.
    """

    name: str
    folder: Path
    dependencies: tuple[str, ...]
    extras: dict[str, tuple[str, ...]]

    @property
    def native(self) -> bool:
        """Whether it has C++ sources to compile."""
        return (self.folder / "setup.py").exists()

    def requirements(self, extras: Iterable[str] = ()) -> list[str]:
        """Its dependencies and those of some extras."""
        return [*self.dependencies, *(r for extra in extras for r in self.extras.get(extra, ()))]


def read(folder: Path) -> Distribution:
    """The distribution in a folder."""
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    extras = {name: tuple(needed) for name, needed in project.get("optional-dependencies", {}).items()}
    return Distribution(project["name"], folder, tuple(project.get("dependencies", ())), extras)


@functools.cache
def distributions(root: Path = ROOT) -> dict[str, Distribution]:
    """Every distribution by name, in dependency order."""
    folders = [
        path.parent for group in ("packages", "plugins") for path in root.glob(f"{group}/*/pyproject.toml")
    ]
    found = {d.name: d for d in map(read, sorted(folders))}
    ordered: dict[str, Distribution] = {}

    def visit(name: str) -> None:
        if name not in ordered:
            for requirement in found[name].dependencies:
                if base(requirement) in found:
                    visit(base(requirement))
            ordered[name] = found[name]

    for name in found:
        visit(name)
    return ordered


def base(requirement: str) -> str:
    """Name of a requirement without version and extras."""
    return re.split(r"[\s\[<>=~!;]", requirement, maxsplit=1)[0]


def extras_of(requirement: str) -> tuple[str, ...]:
    """`("plot",)` of `mx-train[plot]~=0.1.0`."""
    match = re.match(r"[^\[;]*\[([^\]]*)\]", requirement)
    return tuple(extra.strip() for extra in match[1].split(",")) if match else ()


def lowest(requirement: str) -> str:
    """`numpy==2.0.*` of `numpy>=2.0`: the lowest series that a requirement allows; itself if it names none.

    Indexes do not have every version that is declared: `13.0` may begin with 13.0.48.
    """
    found = re.search(r"(?:>=|~=)\s*([^,;\s]+)[^;]*", requirement)
    if found is None:
        return requirement
    parts = found[1].split(".")
    version = ".".join([*parts, "0"][:2]) + ".*" if len(parts) < 3 else found[1]
    return f"{requirement[: found.start()]}=={version}{requirement[found.end() :]}"


def closure(
    names: Iterable[str], extras: Iterable[str] = (), root: Path = ROOT
) -> tuple[list[str], list[str]]:
    """What some distributions need: own distributions in dependency order, and foreign requirements.

    Raises
    ------
    ValueError
        A name that none of them has.
    """
    found = distributions(root)
    todo = [(name, tuple(extras)) for name in names]
    if unknown := [name for name, _ in todo if name not in found]:
        raise ValueError(f"no package {', '.join(unknown)}; there are: {', '.join(found)}")
    seen = set(todo)
    foreign: set[str] = set()
    for name, wanted in todo:
        for requirement in found[name].requirements(wanted):
            needed = (base(requirement), extras_of(requirement))
            if needed[0] not in found:
                foreign.add(requirement)
            elif needed not in seen:
                seen.add(needed)
                todo.append(needed)
    own = {name for name, _ in seen}
    return [name for name in found if name in own], sorted(foreign)
