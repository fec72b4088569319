# SPDX-License-Identifier: Apache-2.0
"""The C++ tests of the distributions, built with CMake and Ninja below `.nox/cpp`."""

from __future__ import annotations

import subprocess
from collections.abc import Collection

from .distributions import ROOT, distributions


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
    include = ROOT / "packages" / "mx-core" / "src" / "mx_core" / "include"
    fixed = (
        f"-DMX_CORE_INCLUDE={include}",
        f"-DPython_EXECUTABLE={python}",
        "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
    )
    for name, distribution in distributions().items():
        source = distribution.folder / "tests" / "cpp"
        if not (source / "CMakeLists.txt").exists() or (names and name not in names):
            continue
        out = str(ROOT / ".nox" / "cpp" / f"{name}-{kind}")
        for command in (
            (
                "cmake",
                "-S",
                str(source),
                "-B",
                out,
                "-G",
                "Ninja",
                *fixed,
                "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
                *options,
            ),
            ("cmake", "--build", out),
            ("ctest", "--test-dir", out, "--output-on-failure", "--timeout", "300"),
        ):
            print("+", *command, flush=True)
            subprocess.run(command, check=True)
