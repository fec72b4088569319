# SPDX-License-Identifier: Apache-2.0
"""Files that appear complete or not at all."""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

try:
    import fcntl
except ImportError:  # not on this system
    fcntl = None  # type: ignore[assignment]

_SUFFIX = ".partial"
#: Seconds after its last change in which a file is left alone: it may not be locked yet, or no more.
_SETTLED = 60.0


@contextmanager
def atomic_write(path: str | os.PathLike[str], mode: str = "wb", **options: Any) -> Iterator[IO[Any]]:
    """A file that takes the place of `path` when the block ends, and nothing when it raises.

    It is written beside the target, as `.NAME.xxxxxxxx.partial`, flushed to disk and renamed; the
    folder is flushed too. It gets the permissions of the file it replaces, or those a new file
    would get. What a process that was killed has left of an earlier attempt is removed.

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
        handle, temporary = tempfile.mkstemp(_SUFFIX, f".{target.name}.", target.parent)
    except OSError as error:  # names the file that was asked for, not the one beside it
        raise type(error)(error.errno, error.strerror, str(target)) from None
    try:
        with os.fdopen(handle, mode, **options) as file:
            _lock(file.fileno())
            _remove_stale(target, temporary)
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, _permissions(target))
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)


def _lock(handle: int) -> bool:
    """Marks a file as being written, until it is closed or its process dies; False when it is already."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # another's, or a file system without locks
        return False
    return True


def _remove_stale(target: Path, own: str) -> None:
    """Removes what dead processes left of files that were to become `target`."""
    pattern = re.compile(re.escape(f".{target.name}.") + r"[a-z0-9_]{8}" + re.escape(_SUFFIX))
    with os.scandir(target.parent) as entries:
        found = [entry.path for entry in entries if pattern.fullmatch(entry.name)]
    for path in found:
        if not os.path.samefile(path, own):
            _remove_if_stale(path)


def _remove_if_stale(path: str) -> None:
    try:
        with open(path, "rb") as file:
            settled = time.time() - os.fstat(file.fileno()).st_mtime > _SETTLED
            if settled and _lock(file.fileno()):
                os.unlink(path)
    except OSError:  # it has just become the target, or belongs to another user: then it stays
        return


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
