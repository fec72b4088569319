# SPDX-License-Identifier: Apache-2.0
"""Atomic file writes, and reads and writes of large files that Ctrl-C interrupts."""

from __future__ import annotations

import errno
import io
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from mx_core import drafts
from mx_core.certain import Call, certainly
from mx_core.errors import FileError

if TYPE_CHECKING:
    from typing_extensions import Buffer

#: Bytes that one system call moves. Between two calls the interpreter looks for signals.
CHUNK = 1 << 20


@contextmanager
def atomic_write(path: str | os.PathLike[str], mode: str = "wb", **options: Any) -> Iterator[IO[Any]]:
    """A file that takes the place of `path` when the block ends, and nothing when it raises.

    It is written next to the target, as `.NAME.….partial`, flushed to disk and renamed; the folder is
    flushed too. It gets the permissions (and, where the process may, the owner) of the file it replaces,
    or those of any new file. Drafts that killed processes left in the folder are removed.

    A symbolic link stays; the file it leads to is replaced. What is not a regular file (a device, a FIFO,
    a pipe behind `/dev/stdout`) is opened and written through.

    Parameters
    ----------
    path : path
    mode, **options
        As for `open`: `"wb"`, or `"w"` with an encoding.

    Raises
    ------
    FileError  the folder does not exist, the disk is full, …; names `path`. The old file is untouched.

    Notes
    -----
    Threads: safe; of several writers to one name the last to end wins. Blocks; on the main thread Ctrl-C
    interrupts it within 200 ms, however large the file is.

    Examples
    --------
    >>> import os, tempfile
    >>> name = os.path.join(tempfile.mkdtemp(), "weights.bin")
    >>> with atomic_write(name) as file:
    ...     _ = file.write(b"data")
    >>> os.listdir(os.path.dirname(name))
    ['weights.bin']
    """
    if mode not in ("w", "wb"):
        raise ValueError(f"[atomic_write] mode: expected 'w' or 'wb', got {mode!r}")
    named = os.fspath(path)
    with naming(named):
        target = _replaceable(named)
    if target is None:
        with naming(named):
            handle = os.open(named, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC | os.O_NOCTTY)
        with _writer(handle, named, True, mode, options) as file:
            yield file
        return
    with _named_draft(target, named) as draft:
        with _writer(draft.handle, named, False, mode, options) as file:
            yield file
        with naming(named):
            _synchronise(draft.handle)
            # while it is locked, so that no other process takes it for stale
            certainly(lambda: _publish(draft.path, target))


@contextmanager
def _named_draft(target: Path, named: str) -> Iterator[drafts.Draft]:
    """A draft; errors of making it name the file that was asked for, those of the block are its own."""
    entered = False
    try:
        with drafts.file_for(target) as draft:
            entered = True
            yield draft
    except OSError:
        if entered:
            raise
        with naming(named):
            raise


def _writer(handle: int, path: str, owner: bool, mode: str, options: dict[str, Any]) -> IO[Any]:
    buffered = io.BufferedWriter(_NamedFile(handle, path, owner), 1 << 16)
    return buffered if mode == "wb" else io.TextIOWrapper(buffered, **options)


def _publish(draft: Path, target: Path) -> None:
    os.replace(draft, target)
    _synchronise_folder(target.parent)


@contextmanager
def atomic_group(path: str | os.PathLike[str], *dependents: str | os.PathLike[str]) -> Iterator[list[Path]]:
    """Drafts of several files that replace `path` and what depends on it (an index) when the block ends.

    The drafts lie in a folder of this process alone, next to `path`. When the block ends they are flushed to
    disk, the old dependents are set aside, and all are renamed, `path` first: a process killed in between
    leaves `path` without its dependents, never next to those of another version. When the block raises, or
    `path` cannot be renamed, the old files stay.

    Raises
    ------
    FileError  as for `atomic_write`; also when one of the names is not a regular file
    """
    names = [os.fspath(name) for name in (path, *dependents)]
    targets = []
    for name in names:
        with naming(name):
            target = _replaceable(name)
            if target is None:
                raise FileError(errno.EINVAL, "not a regular file", name)
            targets.append(target)
    with drafts.folder_for(targets[0]) as folder:
        made = [folder / f"{number}{target.suffix}" for number, target in enumerate(targets)]
        yield made
        for name, draft, target in zip(names, made, targets, strict=True):
            with naming(name):
                _settle(draft, target)
        certainly(lambda: _publish_group(names, made, targets, folder))


def _publish_group(names: Sequence[str], made: Sequence[Path], targets: Sequence[Path], folder: Path) -> None:
    with _aside(targets[1:], folder, made[0]), naming(names[0]):
        for parent in {target.parent for target in targets}:
            _synchronise_folder(parent)
        _publish(made[0], targets[0])
    for name, draft, target in zip(names[1:], made[1:], targets[1:], strict=True):
        with naming(name):
            _publish(draft, target)


def read_bytes(path: str | os.PathLike[str]) -> bytearray:
    """The content of a file, read in pieces: Ctrl-C interrupts it within 200 ms, however large the file is.

    Raises
    ------
    FileError  there is none, or it cannot be read
    MemoryError  it does not fit; nothing is kept
    """
    with naming(path), open(path, "rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        data = bytearray(min(size, CHUNK))  # it grows: to fill all of a large one with zeros takes long
        position = 0
        with memoryview(data) as view:
            while position < len(view) and (count := file.readinto(view[position:])):
                position += count
        del data[position:]
        piece = memoryview(bytearray(CHUNK if size > CHUNK else 1 << 16))
        while count := file.readinto(piece):
            data += piece[:count]
    return data


def write_pieces(file: IO[bytes], data: Buffer) -> None:
    """Writes bytes of any length to any binary file in pieces: Ctrl-C interrupts it within 200 ms."""
    with memoryview(data) as whole, whole.cast("B") as view:
        for start in range(0, len(view), CHUNK):
            file.write(view[start : start + CHUNK])


@contextmanager
def _aside(targets: Sequence[Path], folder: Path, draft: Path) -> Iterator[None]:
    """Files are in a folder of drafts when the block begins; if it raises before `draft` is renamed, they go back."""
    moved: list[tuple[Path, Path]] = []
    try:
        for number, target in enumerate(targets):
            kept = folder / f"old{number}"
            with suppress(FileNotFoundError):
                os.replace(target, kept)
                moved.append((kept, target))
        yield
    except BaseException:
        if draft.exists():
            for kept, target in moved:
                os.replace(kept, target)
        raise


class _NamedFile(io.FileIO):
    """A file whose errors name it, and of which one call writes one piece."""

    def __init__(self, handle: int, path: str, owner: bool) -> None:
        super().__init__(handle, "wb", closefd=owner)
        self._path = path

    def write(self, data: Buffer, /) -> int:
        with naming(self._path), memoryview(data) as whole, whole.cast("B") as view:
            return super().write(view[:CHUNK])


@contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Errors of the system become a FileError of the file that was asked for, not of none and not of its draft."""
    try:
        yield
    except OSError as error:
        if isinstance(error, FileError) and error.errno is None:
            raise  # it has words of its own
        # NumPy's readers say that a file is not there without a number.
        number = errno.ENOENT if isinstance(error, FileNotFoundError) else error.errno
        if number is None:
            raise
        raise FileError.of(number, os.fspath(path)) from None


def _replaceable(path: str) -> Path | None:
    """The regular file that a name leads to or would make; None for what has to be written through."""
    target = Path(os.path.realpath(path))
    try:
        known = os.stat(path)
    except FileNotFoundError:
        return target
    if stat.S_ISDIR(known.st_mode):
        raise FileError.of(errno.EISDIR, path)
    try:
        # A file without a name of its own, such as a deleted one behind /dev/stdout, is not to be renamed.
        same = os.path.samestat(known, os.stat(target))
    except OSError:
        same = False
    return target if same and stat.S_ISREG(known.st_mode) else None


def _synchronise(handle: int) -> None:
    """Flushes a file to disk; on the main thread such that Ctrl-C does not wait for the disk."""
    _leaving(Call(lambda: os.fsync(handle)))


def _settle(draft: Path, target: Path) -> None:
    """Gives a draft the permissions of its target and flushes it to disk, as `_synchronise` does."""

    def settle() -> None:
        handle = os.open(draft, os.O_RDWR | os.O_CLOEXEC)
        try:
            drafts.take_over(handle, target)
            os.fsync(handle)
        finally:
            os.close(handle)

    _leaving(Call(settle))


def _leaving(call: Call) -> None:
    """Makes a call; an interrupt leaves it alone."""
    try:
        call.begin()
    except RuntimeError:  # no thread to be had, or the interpreter is ending
        call.run()
    call.wait(patience=0)


def _synchronise_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
