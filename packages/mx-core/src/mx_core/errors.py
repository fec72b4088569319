# SPDX-License-Identifier: Apache-2.0
"""The error hierarchy, and its translation from and to the C interfaces' status codes."""

from __future__ import annotations

import errno
import os


class MXNetError(RuntimeError):
    """Root of every error mx raises."""


class ShapeError(MXNetError, ValueError):
    """A shape is wrong or contradicts another."""


class DTypeError(MXNetError, TypeError):
    """An element type is wrong or contradicts another."""


class ArgumentError(MXNetError, ValueError):
    """A parameter has a wrong name, type or value."""


class SettingError(ArgumentError):
    """An environment variable holds a value that is not allowed."""


class IndexOutOfBoundsError(MXNetError, IndexError):
    """An index lies outside its axis."""


class OutOfMemoryError(MXNetError, MemoryError):
    """A device has not enough memory; the message has bytes asked, in use, pooled."""


class NoKernelError(MXNetError, NotImplementedError):
    """No registered kernel computes this operator for these inputs on this device."""


class UnknownOperatorError(MXNetError, AttributeError):
    """No operator of this name is registered."""


class FileFormatError(MXNetError, ValueError):
    """A file or byte string is truncated, corrupt or of another format."""


class FileError(OSError, MXNetError):
    """The system refused to read or write a file: the disk is full, for example.

    MXNet's programs catch it as MXNetError, Python's as OSError, or as its class for some numbers below.
    """

    @staticmethod
    def of(number: int, path: str) -> FileError:
        """The error of a number in `errno`, which names the file."""
        return _FILE_ERRORS.get(number, FileError)(number, os.strerror(number), path)


class MissingFileError(FileError, FileNotFoundError):
    """A file to read, or the folder of one to write, does not exist."""


class FilePermissionError(FileError, PermissionError):
    """A file may not be read or written."""


class IsAFolderError(FileError, IsADirectoryError):
    """A folder has the name of a file to read or write."""


class NotAFolderError(FileError, NotADirectoryError):
    """A file has the name of a folder that a path leads through."""


class ExistingFileError(FileError, FileExistsError):
    """A file that is to be made is there already."""


class ClosedPipeError(FileError, BrokenPipeError):
    """Nobody reads any more from the pipe that a file name leads to."""


_FILE_ERRORS: dict[int, type[FileError]] = {
    errno.ENOENT: MissingFileError,
    errno.EACCES: FilePermissionError,
    errno.EPERM: FilePermissionError,
    errno.EISDIR: IsAFolderError,
    errno.ENOTDIR: NotAFolderError,
    errno.EEXIST: ExistingFileError,
    errno.EPIPE: ClosedPipeError,
}


class PluginError(MXNetError):
    """A plug-in declares something wrong, or something that it should provide is missing."""


class OperatorError(PluginError):
    """What an operator declares is wrong: the message names the function and the line that is at fault."""


class AbiError(MXNetError, ImportError):
    """Two packages were built for different versions of a C interface."""


class EngineShutdownError(MXNetError):
    """The engine no longer takes work."""


class MXUnsafeReadWarning(RuntimeWarning):
    """A result was read that never came into being, since its operation failed."""


class PluginWarning(RuntimeWarning):
    """A plug-in could not be used; everything else works."""


# mx_status of mx_core/abi.h
_CLASSES: dict[int, type[MXNetError]] = {
    1: MXNetError,
    2: ShapeError,
    3: DTypeError,
    4: ArgumentError,
    5: IndexOutOfBoundsError,
    6: OutOfMemoryError,
    7: NoKernelError,
    8: AbiError,
    9: EngineShutdownError,
}


def from_status(code: int, message: str) -> MXNetError:
    """The exception (not raised) for an `mx_status` code; unknown codes give MXNetError."""
    return _CLASSES.get(code, MXNetError)(message)


def status_of(exception: BaseException) -> int:
    """The `mx_status` code of an exception; 10 (MX_ERROR_PYTHON) for foreign ones."""
    codes = {kind: code for code, kind in _CLASSES.items()}
    return next((codes[kind] for kind in type(exception).__mro__ if kind in codes), 10)
