# SPDX-License-Identifier: Apache-2.0
"""Tar files in the layout of WebDataset as a source: an example is the files of one name with several extensions."""

from __future__ import annotations

import json
import os
import tarfile
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from mx_core.errors import ArgumentError, FileFormatError
from mx_core.files import naming
from mx_io.codecs import readable_extensions
from mx_io.pipeline.source import Example, Source

#: Of the file that has the label: a number as text, or JSON: a number, a list, or a dict with `label`.
_LABELS = ("cls", "json")
_STEP = 64 * tarfile.BLOCKSIZE  # bytes that are read at once behind the last file


class _Member(NamedTuple):
    shard: int
    offset: int
    size: int


class TarSource(Source):
    """Examples of tar files (WebDataset): `000.jpg` with `000.cls` or `000.json`, in the order of the files.

    The files are not compressed. They stay open, and their heads are read at construction.

    Parameters
    ----------
    paths : path or list of paths
        The shards.

    Raises
    ------
    FileFormatError
        A file is no tar file, or is damaged or cut, or an example has no image; by `read` also when a label is no
        number.
    """

    def __init__(self, paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> None:
        given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
        self.paths = [os.fspath(path) for path in given]
        if not self.paths:
            raise ArgumentError("[TarSource] paths: expected at least one tar file, got none")
        self._images = tuple(extension[1:] for extension in readable_extensions())
        self._examples: list[tuple[str, dict[str, _Member]]] = []
        self._files: list[Any] = []
        try:
            for shard, path in enumerate(self.paths):
                with naming(path):
                    self._files.append(open(path, "rb", buffering=0))  # noqa: SIM115  # until close
                self._index(shard, path)
        except BaseException:
            self.close()
            raise

    def _index(self, shard: int, path: str) -> None:
        found: dict[str, dict[str, _Member]] = {}
        try:
            with tarfile.open(path, "r:") as archive:
                _walk(archive, path, shard, found)
                _check_end(archive, path)
        except FileFormatError:
            raise
        except (tarfile.TarError, ValueError, OverflowError) as error:
            raise FileFormatError(
                f"[TarSource] {path}: expected a tar file that is not compressed: {error}"
            ) from error
        for stem, parts in found.items():
            if not any(extension in parts for extension in self._images):
                raise FileFormatError(
                    f"[TarSource] {path}: {stem}: expected an image (.{', .'.join(self._images)}), got "
                    f".{', .'.join(sorted(parts))}"
                )
            self._examples.append((stem, parts))

    def __len__(self) -> int:
        return len(self._examples)

    def read(self, positions: Sequence[int]) -> list[Example]:
        return [self._one(position) for position in positions]

    def _one(self, position: int) -> Example:
        _, parts = self._examples[position]
        extension = next(each for each in self._images if each in parts)
        label: Any = 0.0
        for kind in _LABELS:
            if kind in parts:
                label = self._label(self._content(parts[kind]), kind)
                break
        return Example(self._content(parts[extension]), label, position)

    def _label(self, text: bytes, kind: str) -> Any:
        try:
            value = json.loads(text)
            if isinstance(value, dict):
                value = value["label"]
            return np.asarray(value, np.float32).ravel()
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise FileFormatError(f"expected a label in .{kind}, got {text[:40]!r}") from error

    def _content(self, member: _Member) -> bytes:
        with naming(self.paths[member.shard]):
            data = os.pread(self._files[member.shard].fileno(), member.size, member.offset)
        if len(data) != member.size:
            raise FileFormatError(f"expected {member.size} bytes at {member.offset}, got {len(data)}")
        return data

    def place(self, position: int) -> str:
        stem, parts = self._examples[position]
        return f"{self.paths[next(iter(parts.values())).shard]}: {stem}"

    def close(self) -> None:
        for file in self._files:
            file.close()


def _walk(archive: tarfile.TarFile, path: str, shard: int, found: dict[str, dict[str, _Member]]) -> None:
    for member in archive:
        folder, name = os.path.split(member.name)
        stem, _, extension = name.partition(".")
        if member.size < 0:
            raise FileFormatError(
                f"[TarSource] {path}: at byte {member.offset}: expected a size of 0 or more, got {member.size}: "
                "the file is damaged"
            )
        if member.isreg() and extension:
            parts = found.setdefault(os.path.join(folder, stem), {})
            parts[extension.lower()] = _Member(shard, member.offset_data, member.size)


def _check_end(archive: tarfile.TarFile, path: str) -> None:
    """Refuses what follows the last file if it is not zeros: tarfile takes a damaged or cut head for the end."""
    place = archive.offset
    with naming(path), open(path, "rb") as file:
        file.seek(place)
        while rest := file.read(_STEP):
            if rest.strip(b"\0"):
                at = place + len(rest) - len(rest.lstrip(b"\0"))
                at -= (at - archive.offset) % tarfile.BLOCKSIZE
                raise FileFormatError(
                    f"[TarSource] {path}: at byte {at}: expected the head of a file, or zeros to the end, got "
                    f"{_told(rest[at - place :])}"
                )
            place += len(rest)


def _told(head: bytes) -> str:
    if len(head) < tarfile.BLOCKSIZE:
        return f"{len(head)} bytes: the file is cut"
    return f"{head[:20]!r}: the file is damaged, or several are joined"
