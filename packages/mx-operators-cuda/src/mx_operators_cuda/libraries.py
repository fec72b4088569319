# SPDX-License-Identifier: Apache-2.0
"""Paths of NVIDIA's libraries: in wheels, else where the system looks."""

from __future__ import annotations

import ctypes.util
import importlib.util
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from mx_core.errors import MXNetError

T = TypeVar("T")


def load(what: str, cure: str, candidates: Iterable[str], opened: Callable[[str], T]) -> tuple[str, T]:
    """Loads the first file that can be.

    Parameters
    ----------
    what, cure : str
        For the message: the library, and how it is installed.
    opened : function
        Loads a file; raises OSError or MXNetError where it cannot.

    Returns
    -------
    (str, object)
        Where it was found, and what `opened` returned.

    Raises
    ------
    MXNetError  none can be loaded
    """
    tried = []
    for path in candidates:
        try:
            return path, opened(path)
        except (OSError, MXNetError) as error:
            tried.append(f"{path}: {error}")
    raise MXNetError(f"{what} was not found; {cure}. Tried {'; '.join(tried)}")


def absent(variable: str, cure: str, error: MXNetError) -> str:
    """What `mx doctor` says of a library that was not loaded.

    Parameters
    ----------
    variable : str
        Environment variable that may name the file.
    cure : str
        How it is installed.
    error : MXNetError
        That of `load`; it is shown where a file was named, or one that is there was refused.
    """
    refused = any(said in str(error) for said in (" has version ", " has no "))
    return str(error) if refused or os.environ.get(variable) else f"not installed; {cure}"


def places(variable: str, patterns: Sequence[str], name: str, sonames: Sequence[str]) -> Iterator[str]:
    """Paths and names to try, in order.

    Parameters
    ----------
    variable : str
        Environment variable that names the file; then nothing else is tried.
    patterns : sequence of str
        Under the folder of the `nvidia` wheels.
    name : str
        What `ctypes.util.find_library` takes.
    sonames : sequence of str
        For the dynamic loader, not on Windows.
    """
    chosen = os.environ.get(variable)
    if chosen:
        yield chosen
        return
    spec = importlib.util.find_spec("nvidia")
    for root in (spec.submodule_search_locations or ()) if spec else ():
        for pattern in patterns:
            yield from (str(path) for path in sorted(Path(root).glob(pattern)) if ".alt." not in path.name)
    found = ctypes.util.find_library(name)
    yield from ((found,) if found else ())
    yield from sonames if sys.platform != "win32" else ()
