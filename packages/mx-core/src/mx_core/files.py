# SPDX-License-Identifier: Apache-2.0
"""Files that appear complete or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any


@contextmanager
def atomic_write(path: str | os.PathLike[str], mode: str = "wb", **options: Any) -> Iterator[IO[Any]]:
    """A file that takes the place of `path` when the block ends, and nothing when it raises.

    It is written beside the target, flushed to disk and renamed; the folder is flushed too. It
    gets the permissions of the file it replaces, or those a new file would get.

    Parameters
    ----------
    mode, **options
        As for `open`: `"wb"`, or `"w"` with an encoding.

    Raises
    ------
    OSError  the folder does not exist, the disk is full, …; the old file is untouched

    Examples
    --------
    >>> with atomic_write("weights.bin") as file:
    ...     file.write(data)
    """
    target = Path(path)
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    except OSError as error:  # names the file that was asked for, not the one beside it
        raise type(error)(error.errno, error.strerror, str(target)) from None
    try:
        with os.fdopen(handle, mode, **options) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, _permissions(target))
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)


def _permissions(target: Path) -> int:
    try:
        return target.stat().st_mode & 0o777
    except OSError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
