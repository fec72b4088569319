# SPDX-License-Identifier: Apache-2.0
"""List files: one line `index<TAB>label[<TAB>label…]<TAB>path` an image."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from mx_core.errors import ArgumentError, FileFormatError
from mx_core.files import atomic_write
from mx_io.codecs import listed_extensions


class ListEntry(NamedTuple):
    """One image: its number, its labels, its path relative to the root folder."""

    number: int
    labels: tuple[float, ...]
    path: str


def find_images(
    root: str | os.PathLike[str], recursive: bool, exts: Sequence[str] | None = None
) -> list[ListEntry]:
    """The images under a folder, in the order of their sorted paths: files with one of some extensions.

    With `recursive`, each folder that holds images is a class: 0, 1, 2, … in sorted order. Without, all
    labels are 0. Links to folders are followed, but not to one that they lie in.
    """
    root = Path(root)
    wanted = tuple(ext.lower() for ext in exts or listed_extensions())
    entries: list[ListEntry] = []
    classes: dict[str, int] = {}
    for folder, folders, files in os.walk(root, followlinks=True, onerror=_raise):
        folders[:] = sorted(name for name in folders if _is_below(folder, name)) if recursive else []
        for name in sorted(files):
            if not name.lower().endswith(wanted):
                continue
            label = classes.setdefault(folder, len(classes)) if recursive else 0
            path = (Path(folder) / name).relative_to(root).as_posix()
            entries.append(ListEntry(len(entries), (float(label),), path))
    return entries


def _is_below(folder: str, name: str) -> bool:
    """False for a link that leads back to a folder above it, where the walk would never end."""
    path = os.path.join(folder, name)
    return not os.path.islink(path) or not Path(os.path.realpath(folder)).is_relative_to(
        os.path.realpath(path)
    )


def _raise(error: OSError) -> None:
    raise error


def make_list(
    prefix: str | os.PathLike[str],
    root: str | os.PathLike[str],
    *,
    recursive: bool = False,
    exts: Sequence[str] | None = None,
    chunks: int = 1,
    train_ratio: float = 1.0,
    test_ratio: float = 0.0,
    shuffle: bool = True,
    seed: int = 100,
) -> list[Path]:
    """Write the list files of the images under a folder.

    Parameters
    ----------
    prefix : str or path
        The files are `prefix[_chunk][_train|_val|_test].lst`.
    root : str or path
    recursive : bool
        Go through the folders below, too; each that holds images is a class.
    exts : sequence of str, optional
        Extensions of images: `.jpeg`, `.jpg`, `.png` and those of codecs that plug-ins bring, by default.
    chunks : int
        Number of equal pieces.
    train_ratio, test_ratio : float
        Shares of each piece, 0 to 1; what is left over is for validation.

    Returns
    -------
    list of Path
        The files written.
    """
    if (
        chunks < 1
        or not 0 <= train_ratio <= 1
        or not 0 <= test_ratio <= 1
        or train_ratio + test_ratio > 1 + 1e-9
    ):
        raise ArgumentError(
            f"[im2rec] expected chunks >= 1 and ratios of 0 to 1 in sum, got chunks={chunks}, "
            f"train_ratio={train_ratio}, test_ratio={test_ratio}"
        )
    entries = find_images(root, recursive, exts)
    if not entries:
        raise ArgumentError(
            f"[im2rec] {os.fspath(root)}: expected files ending with {', '.join(exts or listed_extensions())}, got none"
            f"{'' if recursive else '; recursive (--recursive) goes through the folders below, too'}"
        )
    if shuffle:
        random.Random(seed).shuffle(entries)
    size = -(-len(entries) // chunks)
    written = []
    for number in range(chunks):
        chunk = entries[number * size : (number + 1) * size]
        stem = os.fspath(prefix) + (f"_{number}" if chunks > 1 else "")
        for name, part in _split(chunk, size, train_ratio, test_ratio):
            written.append(write_list(f"{stem}{name}.lst", part))
    return written


def _split(
    chunk: list[ListEntry], size: int, train_ratio: float, test_ratio: float
) -> Iterator[tuple[str, list[ListEntry]]]:
    if train_ratio == 1.0:
        yield "", chunk
        return
    test_end = int(size * test_ratio)
    train_end = test_end + int(size * train_ratio)
    if test_ratio:
        yield "_test", chunk[:test_end]
    if train_ratio + test_ratio < 1.0:
        yield "_val", chunk[train_end:]
    yield "_train", chunk[test_end:train_end]


def write_list(path: str | os.PathLike[str], entries: Iterable[ListEntry]) -> Path:
    """Write a list file, replacing it at once."""
    target = Path(path)
    with atomic_write(target, "w", encoding="utf-8", errors="surrogateescape", newline="\n") as file:
        for entry in entries:
            if any(c in entry.path for c in "\t\r\n"):
                raise ArgumentError(
                    f"[im2rec] expected a path without tabs and line ends, got {entry.path!r}"
                )
            labels = "".join(f"{label:f}\t" for label in entry.labels)
            file.write(f"{entry.number}\t{labels}{entry.path}\n")
    return target


def read_list(path: str | os.PathLike[str]) -> list[ListEntry]:
    """Read a list file.

    Raises
    ------
    FileFormatError
        A line is not `index<TAB>label…<TAB>path`; names the line.
    """
    entries = []
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        for number, line in enumerate(file, 1):
            fields = line.strip("\r\n").split("\t")
            try:
                if len(fields) < 3:
                    raise ValueError(f"{len(fields)} fields")
                labels = tuple(float(label) for label in fields[1:-1])
                entries.append(ListEntry(int(float(fields[0])), labels, fields[-1]))
            except (ValueError, OverflowError) as error:
                raise FileFormatError(
                    f"[im2rec] {os.fspath(path)}: line {number}: expected 'index<TAB>label…<TAB>path', "
                    f"got {line[:80]!r}"
                ) from error
    return entries
