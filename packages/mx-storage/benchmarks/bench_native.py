# SPDX-License-Identifier: Apache-2.0
"""Question: what do an allocation and its release cost without Python, alone and between threads?

Builds and runs `bench_alloc.cc` beside malloc and, where PyTorch is installed, its allocator. The ratio is
our time over theirs.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

import mx_core

CPP = Path(__file__).parents[1] / "tests" / "cpp"


def torch_library() -> list[str]:
    """Path of the library with PyTorch's allocator, without importing it."""
    found = importlib.util.find_spec("torch")
    if found is None or found.origin is None:
        print("no baseline: PyTorch is not installed")
        return []
    library = Path(found.origin).parent / "lib" / "libc10.so"
    return [str(library)] if library.exists() else []


def main() -> None:
    include = Path(mx_core.__file__).parent / "include"
    options = ["-DCMAKE_BUILD_TYPE=Release", f"-DMX_CORE_INCLUDE={include}"]
    with tempfile.TemporaryDirectory() as out:
        for command in (
            ["cmake", "-S", str(CPP), "-B", out, *options],
            ["cmake", "--build", out, "--target", "bench_alloc", "-j2"],
        ):
            built = subprocess.run(command, capture_output=True, text=True, check=False)
            if built.returncode != 0:
                sys.exit(built.stdout + built.stderr)
        subprocess.run([f"{out}/bench_alloc", *torch_library()], check=True)


if __name__ == "__main__":
    main()
