# SPDX-License-Identifier: Apache-2.0
"""What tests compile: kept in pytest's cache from one run to the next, as long as its sources stay the same."""

from __future__ import annotations

import fcntl
import hashlib
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

#: seconds after which what no run has used is deleted
UNUSED = 30 * 24 * 3600.0


def kept(
    factory: pytest.TempPathFactory,
    config: pytest.Config,
    inputs: Iterable[Path],
    build: Callable[[Path], object] = lambda _: None,
) -> Path:
    """A folder that `build` has filled, in this run or in an earlier one.

    Fixtures and processes of one run share it: the first one fills it while the others wait. Without pytest's cache it
    lives as long as the run.

    Parameters
    ----------
    inputs : paths
        Files and folders that decide what is built.
    build : callable
        Fills an empty folder.
    """
    cache = getattr(config, "cache", None)
    root = _of_this_run(factory, config) if cache is None else cache.mkdir("compiled")
    _forget_unused(root)
    folder = root / _digest(inputs)
    folder.mkdir(exist_ok=True)
    ready = folder / "ready"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not ready.exists():
            build(folder)
        ready.touch()
    return folder


def _of_this_run(factory: pytest.TempPathFactory, config: pytest.Config) -> Path:
    base = factory.getbasetemp()
    if hasattr(config, "workerinput"):  # a worker's folder lies in that of the run
        base = base.parent
    root = base / "compiled"
    root.mkdir(exist_ok=True)
    return root


def included(source: Path, folders: Iterable[Path]) -> list[Path]:
    """A C++ file and the files of its own folder and of others that it includes in quotes, also through others."""
    places, found = tuple(folders), [source]
    for path in found:
        for name in re.findall(r'^ *# *include +"([^"]+)"', path.read_text(), re.MULTILINE):
            known = (folder / name for folder in (path.parent, *places) if (folder / name).is_file())
            found += [header for header in [next(known, source)] if header not in found]
    return found


def _digest(inputs: Iterable[Path]) -> str:
    found = hashlib.sha256(subprocess.check_output(["g++", "-dumpfullversion", "-dumpmachine"]))
    for given in inputs:
        files = sorted(path for path in given.rglob("*") if path.is_file()) if given.is_dir() else [given]
        for path in files:
            if "__pycache__" not in path.parts:
                found.update(path.name.encode() + b"\0" + path.read_bytes())
    return found.hexdigest()[:16]


def _forget_unused(root: Path) -> None:
    for ready in root.glob("*/ready"):
        if ready.stat().st_mtime < time.time() - UNUSED:
            shutil.rmtree(ready.parent, ignore_errors=True)
