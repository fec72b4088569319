# SPDX-License-Identifier: Apache-2.0
"""Benchmarks written in C++: built with a package's C++ tests, run once."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import mx_core


def run(folder: Path, target: str, options: Sequence[str] = (), arguments: Sequence[str] = ()) -> None:
    """Builds a target of a CMake project in a temporary folder and runs it.

    Parameters
    ----------
    folder : where its CMakeLists.txt is
    options : of CMake, in addition to the type Release and MX_CORE_INCLUDE
    arguments : of the program

    Raises
    ------
    SystemExit  it cannot be built; with what the tools said
    CalledProcessError  the program failed
    """
    include = Path(mx_core.__file__).parent / "include"
    fixed = ["-DCMAKE_BUILD_TYPE=Release", f"-DMX_CORE_INCLUDE={include}"]
    with tempfile.TemporaryDirectory() as out:
        for command in (
            ["cmake", "-S", str(folder), "-B", out, *fixed, *options],
            ["cmake", "--build", out, "--target", target, "-j2"],
        ):
            built = subprocess.run(command, capture_output=True, text=True, check=False)
            if built.returncode != 0:
                sys.exit(built.stdout + built.stderr)
        subprocess.run([f"{out}/{target}", *arguments], check=True)
