# SPDX-License-Identifier: Apache-2.0
"""Native parts built anew with a sanitizer, in a folder of their own, and how Python runs with them.

`python tests/fuzz/sanitized.py FOLDER [ARGUMENT ...]` builds with AddressSanitizer and runs pytest with arguments.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ROOT / "packages"
#: its kernels need a device; everything else that is native is built
WITHOUT = ("mx-operators-cuda",)
#: tells a worker that a limit on addresses would stop the sanitizer, too
MARK = "MX_FUZZ_SANITIZED"
#: how the sanitizers are told, and what
OPTIONS: dict[str, tuple[str, dict[str, object]]] = {
    "address": (
        "ASAN_OPTIONS",
        {
            "detect_leaks": 0,
            "allocator_may_return_null": 1,
            "max_allocation_size_mb": 1024,
            "hard_rss_limit_mb": 8192,
            "handle_segv": 1,
            "allow_user_segv_handler": 0,
        },
    ),
    "thread": (
        "TSAN_OPTIONS",
        {
            "ignore_noninstrumented_modules": 1,  # Python and OpenMP synchronise in ways it does not see
            "report_signal_unsafe": 0,
            "intercept_tls_get_addr": 0,  # it guesses sizes of blocks from the bytes before them, and aborts
            "exitcode": 66,
            "halt_on_error": 0,
            "history_size": 4,
        },
    ),
}
_LIBRARIES = {"address": "libasan.so", "thread": "libtsan.so"}


def native_packages() -> list[Path]:
    """Folders of packages with an extension, mx-core first."""
    found = [p.parent for p in PACKAGES.glob("*/setup.py") if (p.parent / "csrc").is_dir()]
    return sorted((p for p in found if p.name not in WITHOUT), key=lambda p: (p.name != "mx-core", p.name))


def build(target: Path, sanitizer: str = "address", only: Collection[str] = ()) -> None:
    """Copies packages to `target` and builds their extensions there; what is unchanged is kept.

    Parameters
    ----------
    sanitizer : {"address", "thread"}
    only : collection of str
        Which packages; none means all.

    Raises
    ------
    CalledProcessError  a compiler failed; its words are on standard error
    """
    target = target.absolute()
    ignored = shutil.ignore_patterns("*.cpython-*.so", "build", "__pycache__", "tests", "benchmarks")
    for folder in native_packages():
        if only and folder.name not in only:
            continue
        copy = target / folder.name
        shutil.rmtree(copy / "csrc", ignore_errors=True)  # what is gone is not built
        shutil.copytree(folder, copy, ignore=ignored, dirs_exist_ok=True)
        build_one(copy, sanitizer, target)


def build_one(copy: Path, sanitizer: str, target: Path) -> None:
    """Builds what changed of a package that `build` has copied, with the other copies in `target`; raises the same."""
    command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    environment = os.environ | {"MX_BUILD_SANITIZE": sanitizer, "PYTHONPATH": sources(target)}
    subprocess.run(command, cwd=copy, env=environment, check=True)


def sources(target: Path) -> str:
    """PYTHONPATH with the copies before everything else."""
    folders = [target / folder.name / "src" for folder in native_packages()]
    copies = [str(folder) for folder in folders if folder.is_dir()]
    return os.pathsep.join([*copies, *filter(None, [os.environ.get("PYTHONPATH")])])


def environment(target: Path, sanitizer: str = "address") -> dict[str, str]:
    """What a Python needs to run with the copies; memory is not pooled, so that overruns show."""
    library, runtime = (
        subprocess.check_output(["gcc", f"-print-file-name={name}"], text=True).strip()
        for name in (_LIBRARIES[sanitizer], "libstdc++.so")
    )
    variable, options = OPTIONS[sanitizer]
    return {
        "PYTHONPATH": sources(target),
        "LD_PRELOAD": f"{library} {runtime}",  # libstdc++ too: the sanitizer looks for __cxa_throw at start
        variable: ":".join(f"{name}={value}" for name, value in options.items()),
        "MX_CPU_MEM_POOL_TYPE": "Naive",
        "PYTHONMALLOC": "malloc",
        MARK: "1",
    }


#: packages whose tests run when none are named: native code that users' Python reaches first
TESTED = ("mx-engine", "mx-storage", "mx-ndarray")
#: the sanitizer keeps memory that is freed
WITHOUT_TESTS = ("packages/mx-engine/tests/test_soak.py::test_memory_stays_flat",)


def main() -> int:
    """`python tests/fuzz/sanitized.py FOLDER [ARGUMENT ...]`: builds in FOLDER, and runs pytest there with arguments."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folder", type=Path)
    options, arguments = parser.parse_known_args()
    build(options.folder, only=() if arguments else ("mx-core", *TESTED))
    chosen = arguments or [str(PACKAGES / name / "tests") for name in TESTED]
    left_out = [f"--deselect={name}" for name in WITHOUT_TESTS]
    command = [sys.executable, "-m", "pytest", "-q", "-m", "not slow and not gpu", *left_out, *chosen]
    settings = environment(options.folder.absolute())
    del settings["MX_CPU_MEM_POOL_TYPE"]  # tests of pools choose theirs
    return subprocess.run(command, cwd=ROOT, env=os.environ | settings, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
