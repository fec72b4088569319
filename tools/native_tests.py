# SPDX-License-Identifier: Apache-2.0
"""The C++ tests of the distributions, built with CMake and Ninja below `.nox/cpp`."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Collection
from pathlib import Path

from . import guarded
from .distributions import ROOT, distributions

INCLUDE = ROOT / "packages" / "mx-core" / "src" / "mx_core" / "include"


def run(names: Collection[str], kind: str, python: str, *options: str) -> None:
    """Builds and runs `tests/cpp` of some distributions, or of all that have it.

    Parameters
    ----------
    names : collection of str
        Which; none means all.
    kind : str
        Part of the build folder's name, which stays for the next run.
    python : str
        An interpreter that has oneDNN beside it, so that the builds fetch none.
    options : str
        Of CMake.

    Raises
    ------
    CalledProcessError
        A build or a test failed.
    """
    for name, distribution in distributions().items():
        source = distribution.folder / "tests" / "cpp"
        if not (source / "CMakeLists.txt").exists() or (names and name not in names):
            continue
        out = ROOT / ".nox" / "cpp" / f"{name}-{kind}"
        configure(source, out, python, *options)
        build(out)
        test(out)


def configure(source: Path, out: Path, python: str, *options: str) -> None:
    """Prepares a build folder; the last of options that contradict each other counts."""
    fixed = (
        f"-DMX_CORE_INCLUDE={INCLUDE}",
        f"-DPython_EXECUTABLE={python}",
        "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
    )
    _shown("cmake", "-S", str(source), "-B", str(out), "-G", "Ninja", *fixed, *options)


def build(out: Path, *targets: str) -> None:
    """Builds some programs, or all."""
    _shown("cmake", "--build", str(out), *(word for target in targets for word in ("--target", target)))


def test(out: Path, *programs: str) -> None:
    """Runs some programs, or all."""
    chosen = ("-R", f"^({'|'.join(programs)})$") if programs else ()
    _shown("ctest", "--test-dir", str(out), "--output-on-failure", "--timeout", "300", *chosen)


def _shown(*command: str) -> None:
    print("+", *command, flush=True)
    subprocess.run(command, check=True)


def judge(out: Path, limit: float, program: str | None = None) -> tuple[str, str]:
    """Builds what changed and runs the tests, silently, until one fails.

    Parameters
    ----------
    out : Path
        A configured build folder.
    limit : float
        Seconds for the tests, not for the build.
    program : str, optional
        The only test that is built and run.

    Returns
    -------
    kind : str
        `invalid` if it does not compile, `killed` if a test fails or does not end, `survived`.
    detail : str
        Which test said it.
    """
    target = () if program is None else ("--target", program)
    built = subprocess.run(
        ("cmake", "--build", str(out), *target), capture_output=True, text=True, check=False
    )
    if built.returncode != 0:
        return "invalid", built.stdout[-2000:]
    chosen = () if program is None else ("-R", f"^{program}$")
    command = ("ctest", "--test-dir", str(out), "--stop-on-failure", "--output-on-failure", *chosen)
    code, output = guarded.run(command, limit)
    if code is None:
        return "killed", f"no end within {limit:.0f} s"
    if code == 0:
        return "survived", "all C++ tests passed" if program is None else f"{program} passed"
    failed = re.search(r"Test +#\d+: (\w+) \.*(.*?)\*\*\*(.*?):? +[\d.]+ sec", output)
    return "killed", f"{failed[1]}: {failed[2] or failed[3]}" if failed else output[-300:]
