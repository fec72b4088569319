# SPDX-License-Identifier: Apache-2.0
"""Native parts built anew with AddressSanitizer, in a folder of their own, and how Python runs with them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ROOT / "packages"
#: its kernels need a device; everything else that is native is built
WITHOUT = ("mx-operators-cuda",)
#: tells a worker that a limit on addresses would stop the sanitizer, too
MARK = "MX_FUZZ_SANITIZED"
OPTIONS = {
    "detect_leaks": 0,
    "allocator_may_return_null": 1,
    "max_allocation_size_mb": 1024,
    "hard_rss_limit_mb": 8192,
    "handle_segv": 1,
    "allow_user_segv_handler": 0,
}


def native_packages() -> list[Path]:
    """Folders of packages with an extension, mx-core first."""
    found = [p.parent for p in PACKAGES.glob("*/setup.py") if (p.parent / "csrc").is_dir()]
    return sorted((p for p in found if p.name not in WITHOUT), key=lambda p: (p.name != "mx-core", p.name))


def build(target: Path) -> None:
    """Copies the packages to `target` and builds their extensions there; what is unchanged is kept.

    Raises
    ------
    CalledProcessError  a compiler failed; its words are on standard error
    """
    ignored = shutil.ignore_patterns("*.cpython-*.so", "build", "__pycache__", "tests", "benchmarks")
    for folder in native_packages():
        copy = target / folder.name
        shutil.rmtree(copy / "csrc", ignore_errors=True)  # what is gone is not built
        shutil.copytree(folder, copy, ignore=ignored, dirs_exist_ok=True)
        command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
        subprocess.run(
            command, cwd=copy, check=True,
            env=os.environ | {"MX_BUILD_SANITIZE": "address", "PYTHONPATH": sources(target)},
        )  # fmt: skip


def sources(target: Path) -> str:
    """PYTHONPATH with the copies before everything else."""
    copies = [str(target / folder.name / "src") for folder in native_packages()]
    return os.pathsep.join([*copies, *filter(None, [os.environ.get("PYTHONPATH")])])


def environment(target: Path) -> dict[str, str]:
    """What a Python needs to run with the copies; memory is not pooled, so that overruns show."""
    library = subprocess.check_output(["gcc", "-print-file-name=libasan.so"], text=True).strip()
    runtime = subprocess.check_output(["gcc", "-print-file-name=libstdc++.so"], text=True).strip()
    return {
        "PYTHONPATH": sources(target),
        "LD_PRELOAD": f"{library} {runtime}",  # libstdc++ too: the sanitizer looks for __cxa_throw at start
        "ASAN_OPTIONS": ":".join(f"{name}={value}" for name, value in OPTIONS.items()),
        "MX_CPU_MEM_POOL_TYPE": "Naive",
        "PYTHONMALLOC": "malloc",
        MARK: "1",
    }
