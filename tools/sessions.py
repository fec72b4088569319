# SPDX-License-Identifier: Apache-2.0
"""Shared steps of nox sessions."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nox

from .distributions import ROOT, closure, distributions, lowest
from .isolation import run as run_alone
from .wheels import BUILD_TOOLS, Builder

TEST_TOOLS = (
    "pytest>=8", "pytest-xdist>=3.6", "pytest-timeout>=2.3", "hypothesis>=6.100", "pip", *BUILD_TOOLS,
    "scikit-learn>=1.5", "matplotlib>=3.9", "psutil", "mypy>=1.14", "safetensors>=0.4", "tensorboardX>=2.6", "nox",
    "cosmic-ray>=8.4", "coverage>=7.6",
)  # fmt: skip
#: which tests a run has: the default one, and one of what takes longer; `nightly` has those that are slow
DEFAULT, LONG = "not long and not slow and not gpu", "long and not slow and not gpu"
#: cuDNN, and what it opens
CUDNN = ("nvidia-cudnn-cu13>=9.8,<10", "nvidia-cublas>=13,<14", "nvidia-cuda-runtime>=13,<14")
TYPE_TOOLS = ("mypy>=1.14", "types-setuptools", "nox", "pytest>=8", "coverage>=7")
DOCS_TOOLS = ("sphinx>=8", "myst-parser>=4", "pydata-sphinx-theme>=0.16", "setuptools>=77")


def builder(session: nox.Session) -> Builder:
    """Builds wheels for the session's interpreter."""
    folders = session.virtualenv.bin_paths
    return Builder(f"{folders[0]}/python" if folders else sys.executable, session.log)


def develop(session: nox.Session, folder: Path) -> None:
    """Editable installs of everything into a virtual environment, which is made if it does not exist."""
    python = str(folder / "bin" / "python")
    if not folder.exists():
        session.run(sys.executable, "-m", "venv", str(folder), external=True)
    pip = (python, "-m", "pip", "install", "-q")
    foreign = closure(distributions(), ("test",))[1]
    session.run(*pip, *TEST_TOOLS, "ruff", "pre-commit", *foreign, external=True)
    for distribution in distributions().values():
        session.run(*pip, "--no-deps", "--no-build-isolation", "-e", str(distribution.folder), external=True)
    session.log(f"ready: . {folder.name}/bin/activate")


def install(
    session: nox.Session, names: Sequence[str], *extras: str, more: Sequence[str] = (), pin: bool = False
) -> None:
    """Installs distributions from wheels of this checkout; never asks an index for our own names.

    Parameters
    ----------
    session : nox.Session
        Where to.
    names : sequence of str
        Distributions, which bring those that they depend on.
    extras : str
        Of these distributions.
    more : sequence of str
        Further requirements.
    pin : bool
        Install the lowest version that is declared of each foreign distribution.
    """
    own, foreign = closure(names, extras)
    with ThreadPoolExecutor(1) as pool:  # the index answers while compilers run
        building = pool.submit(builder(session).wheels, own)
        session.install("-q", *(map(lowest, foreign) if pin else foreign), *more)
        wheels = building.result()
    session.install("-q", "--no-deps", "--no-index", "--force-reinstall", *map(str, wheels))


def run_python(session: nox.Session, names: Sequence[str], *words: str) -> None:
    """Installs distributions and what tests need, and runs the session's Python; it finds what harnesses share."""
    install(session, names, "test", more=TEST_TOOLS)
    session.run("python", *words, env={"PYTHONPATH": str(ROOT / "tests" / "fuzz")})


def run_isolated(session: nox.Session, marks: str) -> None:
    """Tests each distribution, or those that the session names, with nothing installed but what it declares."""
    failed = run_alone(session.posargs, ROOT / ".nox" / "isolated", builder(session), marks)
    if failed:
        session.error(f"tests of {', '.join(failed)} failed")


def benchmark_folders(root: Path = ROOT) -> list[Path]:
    """Where distributions have benchmarks, in dependency order."""
    folders = [distribution.folder / "benchmarks" for distribution in distributions(root).values()]
    return [folder for folder in folders if any(folder.rglob("*.py"))]


def check_types(session: nox.Session) -> None:
    """Runs mypy over every distribution's src, from source, over the tools, and over each folder of benchmarks."""
    session.install("-q", *TYPE_TOOLS, *closure(distributions())[1])
    roots = [distribution.folder / "src" for distribution in distributions().values()]
    packages = [init.parent.name for root in roots for init in root.glob("*/__init__.py")]
    chosen = [word for package in (*packages, "tools") for word in ("-p", package)]
    # Modules of benchmarks have equal names in several folders, so that each folder is checked by itself.
    for base, words in ((ROOT, chosen), *((folder, [str(folder)]) for folder in benchmark_folders())):
        path = ":".join(map(str, (*roots, base)))
        session.run("mypy", "--explicit-package-bases", *words, env={"MYPYPATH": path})


def pytest_options(given: Sequence[str], marks: str) -> list[str]:
    """Options and arguments for pytest: three processes and some marks, unless `given` has others.

    Three keep two cores busy, as many tests wait: for programs that they start, or for time. Each process begins with
    its share of the files, so that what tests of a module share is made once, and takes half of what is left to
    another when it has none.
    """
    defaults = {"-n": "3", "--dist": "worksteal", "-m": marks}
    missing = [option for option in defaults if not any(word.startswith(option) for word in given)]
    return [*(word for option in missing for word in (option, defaults[option])), *given]


def pytest(session: nox.Session, *options: str, marks: str = DEFAULT) -> None:
    """Runs pytest with the session's arguments, a broken plug-in being an error."""
    words = pytest_options([*options, *session.posargs], marks)
    session.run("python", "-m", "pytest", *words, env={"MX_STRICT_PLUGINS": "1"})
