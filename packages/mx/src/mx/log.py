# SPDX-License-Identifier: Apache-2.0
"""`mx.log`: loggers whose lines begin with a letter for the level, the time, the process and the place."""

from __future__ import annotations

import logging
import os
import sys as _sys
import warnings
from logging import CRITICAL, DEBUG, ERROR, INFO, NOTSET, WARNING

from mx.absent import explain as _explain

__all__ = [
    "CRITICAL", "DEBUG", "ERROR", "INFO", "NOTSET", "WARNING", "getLogger", "get_logger",
]  # fmt: skip

_COLOURS = {logging.DEBUG: 34, logging.INFO: 32}
_RED = 31


class _Lines(logging.Formatter):
    """`D1124 19:15:32 12348 file.py:function:7] message`; the head in colour for terminals."""

    def __init__(self, colour: bool) -> None:
        super().__init__(datefmt="%m%d %H:%M:%S")
        self._colour = colour

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record, and its traceback if it has one."""
        level = record.levelname[:1] if record.levelno in logging.getLevelNamesMapping().values() else "U"
        head = "%(asctime)s %(process)d %(pathname)s:%(funcName)s:%(lineno)d]"
        head = level + head
        if self._colour:
            head = f"\x1b[{_COLOURS.get(record.levelno, _RED)}m{head}\x1b[0m"
        self._style._fmt = head + " %(message)s"
        return super().format(record)


def get_logger(
    name: str | None = None,
    filename: str | os.PathLike[str] | None = None,
    filemode: str | None = None,
    level: int = WARNING,
) -> logging.Logger:
    """A logger that writes to the error output or a file; the same one when it is asked for again.

    Parameters
    ----------
    name : str, optional
        Without one it is Python's root logger, as it is.
    filename : path, optional
        A file that gets the messages, without head.
    filemode : str, optional
        `"a"` by default: a file goes on.
    level : int
        Set when the logger is made; later calls leave it.

    Returns
    -------
    logging.Logger
    """
    logger = logging.getLogger(name)
    if name is None or getattr(logger, "_init_done", False):
        return logger
    logger._init_done = True  # type: ignore[attr-defined]  # MXNet's mark
    handler: logging.Handler
    if filename is not None:
        handler = logging.FileHandler(filename, filemode or "a")
    else:
        handler = logging.StreamHandler()
        handler.setFormatter(_Lines(colour=True))
    logger.addHandler(handler)
    logger.setLevel(level)
    return logger


def getLogger(
    name: str | None = None,
    filename: str | os.PathLike[str] | None = None,
    filemode: str | None = None,
    level: int = WARNING,
) -> logging.Logger:
    """The former name of `get_logger`; warns."""
    warnings.warn("[log.getLogger] deprecated: use log.get_logger", DeprecationWarning, stacklevel=2)
    return get_logger(name, filename, filemode, level)


_explain(_sys.modules[__name__], [__name__])
