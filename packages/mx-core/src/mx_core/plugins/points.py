# SPDX-License-Identifier: Apache-2.0
"""Entry points of distributions that lie in folders of `sys.path`, as nearly all do.

Importing `importlib.metadata`, with the parser of e-mail that it reads metadata with, takes longer than all else of
finding plug-ins. What is unusual, such as archives, other finders and metadata that are damaged, is left to it.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from functools import reduce
from importlib.machinery import PathFinder
from typing import Any, NamedTuple

from mx_core.errors import PluginError
from mx_core.imports import import_by_name

_VALUE = re.compile(r"(?P<module>[\w.]+)\s*(:\s*(?P<attribute>[\w.]+)\s*)?(\[.*\]\s*)?$")


class Unusual(Exception):
    """Something that `importlib.metadata` is to read."""


class Point(NamedTuple):
    """An entry point and what is known of its distribution."""

    name: str
    value: str
    group: str
    #: in lower case, with hyphens
    distribution: str
    version: str
    #: the lines `Requires-Dist`
    requires: tuple[str, ...] = ()

    @property
    def module(self) -> str:
        """The module that it names.

        Raises
        ------
        PluginError  its value is of another form
        """
        return self._parts()["module"]

    def load(self) -> Any:
        """What it names; its module is imported."""
        parts = self._parts()
        attributes = (parts["attribute"] or "").split(".")
        return reduce(getattr, filter(None, attributes), import_by_name(parts["module"]))

    def _parts(self) -> dict[str, str]:
        found = _VALUE.match(self.value)
        if found is None:
            raise PluginError(f"entry point {self.value!r}: expected 'module' or 'module:attribute'")
        return found.groupdict()


def normalised(name: str) -> str:
    """A distribution's name as indices write it: in lower case, with hyphens."""
    return re.sub(r"[-_.]+", "-", name).lower()


def in_folders(groups: re.Pattern[str]) -> list[Point]:
    """Entry points in the groups that match; of two distributions of one name those of the first on `sys.path`.

    Raises
    ------
    Unusual  some of what is installed is in another form
    """
    if any(hasattr(finder, "find_distributions") and finder is not PathFinder for finder in sys.meta_path):
        raise Unusual
    found: list[Point] = []
    seen: set[str] = set()
    for folder, name in _distributions():
        key = normalised(name.rpartition(".")[0].partition("-")[0])
        if key not in seen:
            seen.add(key)
            pairs = [pair for pair in _sections(folder, name) if groups.fullmatch(pair[0])]
            if pairs:
                distribution, version, requires = _metadata(folder, name)
                found += [
                    Point(point, value, group, distribution, version, requires)
                    for group, point, value in pairs
                ]
    return found


def _distributions() -> Iterator[tuple[str, str]]:
    """Folders of `sys.path`, and names in them of what has a distribution's metadata."""
    for entry in sys.path:
        if not isinstance(entry, str) or entry.lower().endswith(".egg"):
            raise Unusual
        try:
            names = os.listdir(entry or ".")
        except NotADirectoryError:
            raise Unusual from None
        except OSError:
            continue
        for name in names:
            if name.lower().endswith((".dist-info", ".egg-info")):
                yield entry, name


def _sections(folder: str, name: str) -> Iterator[tuple[str, str, str]]:
    """Group, name and value of each entry point."""
    group = None
    for line in map(str.strip, _lines(folder, name, "entry_points.txt")):
        if not line or line.startswith("#"):
            continue
        if line.startswith("[") and line.endswith("]"):
            group = line.strip("[]")
        elif "=" not in line:
            raise Unusual
        elif group is not None:
            point, _, value = line.partition("=")
            yield group, point.strip(), value.strip()


def _metadata(folder: str, name: str) -> tuple[str, str, tuple[str, ...]]:
    """Name, version and requirements of a distribution."""
    fields: dict[str, list[str]] = {"name": [], "version": [], "requires-dist": []}
    field = ""
    for line in _lines(folder, name, "METADATA"):
        if not line:
            break
        if line[0].isspace():
            if field in fields:
                raise Unusual
            continue
        field, _, value = line.partition(":")
        field = field.lower()
        if field in fields:
            fields[field].append(value.strip())
    if not name.endswith(".dist-info") or len(fields["name"]) != 1 or len(fields["version"]) != 1:
        raise Unusual
    return normalised(fields["name"][0]), fields["version"][0], tuple(fields["requires-dist"])


def _lines(folder: str, name: str, file: str) -> list[str]:
    """The lines of a file of metadata; none where it is not there."""
    try:
        with open(f"{folder or '.'}/{name}/{file}", encoding="utf-8") as stream:
            return stream.read().splitlines()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError):
        return []
    except (OSError, UnicodeDecodeError):
        raise Unusual from None
