# SPDX-License-Identifier: Apache-2.0
"""Where an exception comes from: the line of a plug-in that raised it, or called what raised it."""

from __future__ import annotations

import linecache
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

_CORE = str(Path(__file__).parent)
_STANDARD = str(Path(os.__file__).parent)
#: parts of the paths of libraries that plug-ins are written with
_LIBRARIES = tuple(f"{os.sep}{name}{os.sep}" for name in ("numpy", "ml_dtypes", "pluggy"))
#: packages of the project, and what they are called through
_PROJECT = frozenset(
    ("mx", "mxnet", "contextlib", "functools", "importlib", "pluggy", "mx_core", "mx_engine", "mx_storage",
     "mx_operators", "mx_operators_cpu", "mx_operators_cuda", "mx_ndarray", "mx_symbol", "mx_kvstore", "mx_io",
     "mx_train", "mx_gluon")
)  # fmt: skip
#: lines of a traceback that are kept, the last ones, with a plug-in's and without
_FRAMES, _WITHOUT = 8, 3


def last_line(error: BaseException) -> tuple[str, str | None]:
    """The last line of a plug-in that an exception passed, as `FILE:LINE (SOURCE)`, and the file it called.

    The text is empty where there is no such line; the file is None where that line itself raised.
    """
    frames = list(traceback.extract_tb(error.__traceback__))
    own = [i for i, frame in enumerate(frames) if _is_own(frame.filename)]
    if not own:
        return "", None
    frame, called = frames[own[-1]], frames[own[-1] + 1 :]
    return _place(frame.filename, frame.lineno, frame.line), called[0].filename if called else None


def _is_own(file: str) -> bool:
    """A file that belongs neither to mx_core nor to a library."""
    standard = file.startswith(_STANDARD) and "site-packages" not in file
    return not (file.startswith((_CORE, "<frozen")) or standard or any(part in file for part in _LIBRARIES))


def origin_of(error: BaseException) -> str:
    """`file:line` of the last line of a plug-in that an exception passed, or that cannot be compiled; else empty."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno or 1}"
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_own(frame.filename)]
    return f"{own[-1].filename}:{own[-1].lineno}" if own else ""


def users_line() -> str:
    """`file:line` of the innermost line of this thread that is of no package of the project, nor of the import system.

    Empty where there is none.
    """
    frame = sys._getframe(1).f_back
    while frame is not None:
        module = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if module not in _PROJECT and not frame.f_code.co_filename.startswith("<frozen"):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def own_traceback(error: BaseException) -> str:
    """The traceback from the first line of a plug-in on, at most eight lines of it, and those of its causes.

    What called the plug-in, which is the same for all of them, is left out. Without a line of a plug-in it has three.
    """
    return "".join(_shortened(traceback.TracebackException.from_exception(error)).format())


def _shortened(told: traceback.TracebackException) -> traceback.TracebackException:
    for cause in (told.__cause__, told.__context__):
        if cause is not None:
            _shortened(cause)
    frames = [frame for frame in told.stack if not frame.filename.startswith("<frozen")]
    first = next((i for i, frame in enumerate(frames) if _is_own(frame.filename)), -_WITHOUT)
    told.stack = traceback.StackSummary.from_list(frames[first:][-_FRAMES:])
    return told


def first_line(function: Callable[..., Any]) -> str:
    """Where a function begins, as `FILE:LINE (SOURCE)`; empty for one that is not written in Python."""
    code = getattr(function, "__code__", None)
    if code is None:
        return ""
    return _place(
        code.co_filename, code.co_firstlineno, linecache.getline(code.co_filename, code.co_firstlineno)
    )


def told(error: BaseException) -> str:
    """Type and text of an exception, and where it comes from if it does not say itself what is wrong."""
    from mx_core.errors import MXNetError

    said = str(error).strip()
    text = f"{type(error).__name__}: {said}" if said else type(error).__name__
    if said and isinstance(error, (MXNetError, AssertionError)):
        return text
    line, _ = last_line(error)
    return f"{text}, at {line}" if line else text


def _place(file: str, line: int | None, source: str | None) -> str:
    source = (source or "").strip()
    return f"{file}:{line}" + (f" ({source})" if source else "")
