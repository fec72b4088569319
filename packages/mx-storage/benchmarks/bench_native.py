# SPDX-License-Identifier: Apache-2.0
"""Question: what do an allocation and its release cost without Python, alone and between threads?

Builds and runs `bench_alloc.cc` beside malloc and, where PyTorch is installed, its allocator. The ratio is
our time over theirs.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

from mx_core.testing import native_benchmark

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
    native_benchmark.run(CPP, "bench_alloc", arguments=torch_library())


if __name__ == "__main__":
    main()
