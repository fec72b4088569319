# SPDX-License-Identifier: Apache-2.0
"""Image files as sources: those of a list file, and those in a folder."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from mx_core.errors import ArgumentError
from mx_core.files import read_bytes
from mx_io.codecs import readable_extensions
from mx_io.im2rec.listing import ListEntry, find_images, read_list
from mx_io.pipeline.source import Example, Source


class ListSource(Source):
    """The image files that a list names.

    Parameters
    ----------
    entries : path of a list file, or ListEntry objects
    root : path
        Folder that the paths of the list are relative to.

    Notes
    -----
    A list is trusted: its paths may lead out of `root`.
    """

    def __init__(
        self, entries: str | os.PathLike[str] | Iterable[ListEntry], root: str | os.PathLike[str]
    ) -> None:
        found = read_list(entries) if isinstance(entries, str | os.PathLike) else list(entries)
        if not found:
            raise ArgumentError(f"[{type(self).__name__}] {os.fspath(root)}: expected images, got none")
        self.entries = found
        self.root = Path(root)

    def __len__(self) -> int:
        return len(self.entries)

    def read(self, positions: Sequence[int]) -> list[Example]:
        return [self._one(self.entries[position]) for position in positions]

    def _one(self, entry: ListEntry) -> Example:
        return Example(
            read_bytes(self.root / entry.path), np.array(entry.labels, np.float32), max(entry.number, 0)
        )

    def place(self, position: int) -> str:
        return os.fspath(self.root / self.entries[position].path)


class FolderSource(ListSource):
    """The images in a folder; each folder below it that holds images is a class, in sorted order.

    Images are files whose extension an installed codec reads.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        super().__init__(find_images(root, True, readable_extensions()), root)
