# SPDX-License-Identifier: Apache-2.0
"""Drafts: files and folders being written next to what they will replace, and the removal of stale ones.

A draft's name is random and it is made exclusively, so no other process can prepare a link in its place. It is locked
(`flock`) while its process lives: a draft that can be locked has no owner. Between the making and the
locking another process may take a new draft for stale; its maker notices and makes another one.

Ctrl-C may arrive at any moment: drafts are made and removed by calls that it does not interrupt. It waits for a
removal, but not long: to remove a large file may take the disk seconds, and then goes on by itself.
"""

from __future__ import annotations

import fcntl
import functools
import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from mx_core.certain import Call

_SUFFIX = ".partial"
_NAME = re.compile(r"\..+\.([0-9a-f]{8})[0-9a-f]{16}" + re.escape(_SUFFIX), re.DOTALL)
#: Seconds since its last change after which a draft of another machine, or of an earlier boot, is stale.
_SETTLED = 60.0
#: Seconds that Ctrl-C waits for the removal of a draft.
_HURRIED = 0.1
_LONGEST_STEM = 40  # characters of the target's name in the draft's: at most 160 bytes of 255


class Draft(NamedTuple):
    """A draft, locked as long as its descriptor is open."""

    path: Path
    handle: int


@contextmanager
def file_for(target: Path) -> Iterator[Draft]:
    """A new file next to `target`, with its permissions; closed at the end, and removed unless it has been renamed."""
    with _held(target, _open_file) as draft:
        take_over(draft.handle, target)
        yield draft


@contextmanager
def folder_for(target: Path) -> Iterator[Path]:
    """A new folder next to `target` that only this user enters; removed with what is in it at the end."""
    with _held(target, _open_folder) as draft:
        yield draft.path


@contextmanager
def _held(target: Path, opened: Callable[[Path, Path], int]) -> Iterator[Draft]:
    held: list[Draft] = []
    making = Call(lambda: held.append(_made(target, opened)))

    def remove() -> None:
        making.settle()
        for draft in held:
            try:
                _remove(draft.path)
            finally:
                os.close(draft.handle)  # which unlocks it

    removing, hurried = Call(remove), False
    try:
        try:
            making.begin()
        except (RuntimeError, MemoryError):
            making.run()
        making.wait()
        yield held[0]
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        hurried = True
        raise
    finally:
        try:
            try:
                removing.begin()
            except (RuntimeError, MemoryError):
                removing.run()
            if hurried:
                removing.settle(_HURRIED)
            else:
                removing.wait()
        except BaseException:
            removing.settle(_HURRIED)
            raise


def take_over(handle: int, target: Path) -> None:
    """Gives a file the permissions and the owner of the file at `target`, if there is one."""
    try:
        old = os.stat(target)
    except FileNotFoundError:
        return
    own = os.fstat(handle)
    if (own.st_uid, own.st_gid) != (old.st_uid, old.st_gid):
        with suppress(PermissionError):  # only a privileged process gives files away
            os.fchown(handle, old.st_uid, old.st_gid)
    os.fchmod(handle, stat.S_IMODE(old.st_mode) & 0o777)


def _open_file(path: Path, target: Path) -> int:
    try:
        permissions = stat.S_IMODE(os.stat(target).st_mode) & 0o777
    except FileNotFoundError:
        permissions = 0o666
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, permissions)


def _open_folder(path: Path, target: Path) -> int:
    path.mkdir(mode=0o700)
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def _made(target: Path, make: Callable[[Path, Path], int]) -> Draft:
    while True:
        name = f".{target.name[:_LONGEST_STEM]}.{_machine()}{os.urandom(8).hex()}{_SUFFIX}"
        path = target.with_name(name)
        try:
            handle = make(path, target)
        except FileExistsError:
            continue
        try:
            if _lock(handle) is not False and _is_at(path, handle):
                _remove_stale(target.parent, path)
                return Draft(path, handle)
        except BaseException:
            os.close(handle)
            _remove(path)
            raise
        os.close(handle)
        _remove(path)


@functools.cache
def _machine() -> str:
    """Eight digits for this boot of this machine, within which file locks are certain to be seen."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
    except OSError:
        return "0" * 8


def _lock(handle: int) -> bool | None:
    """Locks a draft until it is closed or its process dies.

    False if it is locked already, None on a file system without locks.
    """
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _is_at(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(os.lstat(path), os.fstat(handle))
    except FileNotFoundError:
        return False


def _remove_stale(folder: Path, own: Path) -> None:
    """Removes what dead processes left of drafts in a folder."""
    with os.scandir(folder) as entries:
        found = [(Path(entry.path), match[1]) for entry in entries if (match := _NAME.fullmatch(entry.name))]
    for path, machine in found:
        if path.name != own.name:
            _remove_if_stale(path, machine)


def _remove_if_stale(path: Path, machine: str) -> None:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:  # it has just become its target, or belongs to another user: then it stays
        return
    try:
        here = machine == _machine() != "0" * 8
        settled = here or time.time() - os.fstat(handle).st_mtime > _SETTLED
        if settled and _lock(handle) is True and _is_at(path, handle):
            with suppress(OSError):  # in a folder where only the owner removes
                _remove(path)
    finally:
        os.close(handle)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        import shutil  # with all that it compresses with

        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
