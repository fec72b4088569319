# SPDX-License-Identifier: Apache-2.0
"""Wheels and source archives of our distributions, built once for each state of their files.

Each distribution is built in a folder of its own below `.nox/wheelhouse`, which stays: objects whose
source and headers did not change are not compiled again. The distributions are built side by side; a
GNU make jobserver hands out as many compiler slots as there are cores.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path

from .distributions import ROOT, Distribution, distributions

BUILD_TOOLS = (
    "setuptools>=77", "wheel", "pybind11>=3.0", "onednn-cpu-gomp==2023.2.0",
    "onednn-devel-cpu-gomp==2023.2.0",
)  # fmt: skip

#: Folders of a distribution that no wheel contains.
UNSHIPPED = frozenset({"tests", "benchmarks", "examples", "build", "dist", "__pycache__"})
_BACKEND = (
    "import sys; from setuptools import build_meta as b; getattr(b, 'build_' + sys.argv[1])(sys.argv[2])"
)


def sources(distribution: Distribution) -> dict[str, Path]:
    """The files that a wheel is made from, by their path in the distribution."""
    found = {}
    for folder, subfolders, names in os.walk(distribution.folder):
        subfolders[:] = sorted(s for s in subfolders if s not in UNSHIPPED and not s.endswith(".egg-info"))
        for name in sorted(names):
            if not name.endswith((".so", ".pyc")) and ".so." not in name:
                path = Path(folder, name)
                found[path.relative_to(distribution.folder).as_posix()] = path
    return found


def fingerprint(distribution: Distribution, python: str, core: Path | None = None) -> str:
    """Changes when anything that goes into a wheel does.

    Parameters
    ----------
    distribution : Distribution
        What is built.
    python : str
        Tag of the interpreter, `"cpython-311"`.
    core : Path, optional
        Sources of mx-core, whose headers and build helpers go into native wheels.
    """
    files = sources(distribution)
    digest = hashlib.sha256(python.encode())
    if distribution.native:
        digest.update(repr(BUILD_TOOLS).encode())
        core = core or ROOT / "packages" / "mx-core" / "src" / "mx_core"
        shared = [*(core / "include").rglob("*.h*"), *core.glob("build*.py")]
        files |= {f"mx_core/{path.relative_to(core).as_posix()}": path for path in shared}
    for name in sorted(files):
        content = files[name].read_bytes()
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:16]


def stage(distribution: Distribution, target: Path) -> None:
    """Brings a build folder up to date; what did not change keeps its time, so that it is not rebuilt."""
    target.mkdir(parents=True, exist_ok=True)
    listing = target / ".staged.json"
    files = sources(distribution)
    for name in json.loads(listing.read_text()) if listing.exists() else []:
        if name not in files:
            (target / name).unlink(missing_ok=True)
    for name, source in files.items():
        copy = target / name
        if not copy.exists() or copy.read_bytes() != source.read_bytes():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, copy)
    listing.write_text(json.dumps(sorted(files)))
    for stale in (*target.glob("build/lib*"), *target.glob("build/bdist*"), *target.rglob("*.egg-info")):
        shutil.rmtree(stale)


@contextlib.contextmanager
def jobserver(slots: int) -> Iterator[str]:
    """MAKEFLAGS by which programs share so many slots: GNU make's protocol, with a named pipe."""
    with tempfile.TemporaryDirectory() as folder:
        pipe = os.path.join(folder, "slots")
        os.mkfifo(pipe)
        descriptor = os.open(pipe, os.O_RDWR)
        try:
            os.write(descriptor, b"+" * slots)
            yield f"-j{slots} --jobserver-auth=fifo:{pipe}"
        finally:
            os.close(descriptor)


def check_licences(archive: Path) -> None:
    """Looks for the licence and the notice in a wheel or a source archive.

    Raises
    ------
    ValueError
        One of them is missing.
    """
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as file:
            names = file.namelist()
    else:
        with tarfile.open(archive) as tar:
            names = tar.getnames()
    for wanted in ("LICENSE", "NOTICE"):
        if not any(Path(name).name == wanted for name in names):
            raise ValueError(f"{archive.name} has no {wanted}")


class Builder:
    """Builds for one interpreter.

    Parameters
    ----------
    python : str
        The interpreter that the wheels are for.
    log : callable
        Takes a line of text.
    root : Path
        The repository.
    """

    def __init__(self, python: str, log: Callable[[str], object] = print, root: Path = ROOT) -> None:
        self._interpreter = python
        self._log = log
        self._root = root
        self._distributions = distributions(root)

    @cached_property
    def tag(self) -> str:
        """Tag of the interpreter, `"cpython-311"`."""
        command = [self._interpreter, "-c", "import sys; print(sys.implementation.cache_tag)"]
        return subprocess.check_output(command, text=True).strip()

    @property
    def home(self) -> Path:
        """Where everything is kept."""
        return self._root / ".nox" / "wheelhouse" / self.tag

    def wheels(self, names: Iterable[str]) -> list[Path]:
        """Wheels of some distributions, in the same order; those that exist are not built again."""
        names = list(names)
        with self._alone():
            return self._wheels(names)

    def _wheels(self, names: list[str]) -> list[Path]:
        places = {name: self.home / "wheels" / f"{name}-{self._fingerprint(name)}" for name in names}
        missing = {name: place for name, place in places.items() if not list(place.glob("*.whl"))}
        if missing:
            self._build("wheel", missing)
        return [next(places[name].glob("*.whl")) for name in names]

    def collect(self, names: Iterable[str], target: Path) -> None:
        """Fills a folder with wheels and source archives of some distributions, and logs their sizes.

        What the folder held before is removed.
        """
        names = list(names)
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        for path in self.wheels(names):
            shutil.copy(path, target)
        with self._alone():
            self._build("sdist", dict.fromkeys(names, target))
        for path in sorted(target.iterdir()):
            self._log(f"{path.stat().st_size / 1e6:7.2f} MB  {path.name}")

    @cached_property
    def tools(self) -> str:
        """The interpreter of an environment with what builds need."""
        python = self.home / "tools" / "bin" / "python"
        done = self.home / "tools" / "installed.txt"
        if not done.exists() or done.read_text() != repr(BUILD_TOOLS):
            subprocess.run([self._interpreter, "-m", "venv", "--clear", str(self.home / "tools")], check=True)
            subprocess.run([str(python), "-m", "pip", "install", "-q", *BUILD_TOOLS], check=True)
            done.write_text(repr(BUILD_TOOLS))
        return str(python)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Waits until no other process builds here."""
        self.home.mkdir(parents=True, exist_ok=True)
        with (self.home / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _fingerprint(self, name: str) -> str:
        core = self._distributions["mx-core"].folder / "src" / "mx_core"
        return fingerprint(self._distributions[name], self.tag, core)

    def _build(self, kind: str, targets: dict[str, Path]) -> None:
        cores = len(os.sched_getaffinity(0))
        python = self.tools
        core = self._distributions["mx-core"].folder / "src"
        started = time.monotonic()
        with jobserver(cores) as flags, ThreadPoolExecutor(max(2, cores)) as pool:
            settings = {"MAKEFLAGS": flags, "PYTHONPATH": str(core), "PYTHONDONTWRITEBYTECODE": "1"}
            environment = os.environ | settings
            order = sorted(targets, key=self._size, reverse=True)
            for _ in pool.map(lambda name: self._one(kind, name, targets[name], python, environment), order):
                pass
        self._log(f"{kind}s of {', '.join(targets)}: {time.monotonic() - started:.0f} s")

    def _one(self, kind: str, name: str, target: Path, python: str, environment: dict[str, str]) -> None:
        folder = self.home / "build" / name
        stage(self._distributions[name], folder)
        if kind == "wheel":
            for old in target.parent.glob(f"{name}-{'[0-9a-f]' * 16}"):
                shutil.rmtree(old)
        target.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as fresh:
            done = subprocess.run(
                [python, "-c", _BACKEND, kind, fresh], cwd=folder, env=environment, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
            )  # fmt: skip
            if done.returncode:
                raise RuntimeError(f"the {kind} of {name} cannot be built:\n{done.stdout}")
            for made in Path(fresh).iterdir():
                check_licences(made)
                shutil.move(made, target / made.name)

    def _size(self, name: str) -> int:
        """How much there is to compile, in bytes."""
        csrc = self._distributions[name].folder / "csrc"
        return sum(path.stat().st_size for path in csrc.rglob("*.cc"))
