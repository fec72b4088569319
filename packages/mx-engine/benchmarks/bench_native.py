# SPDX-License-Identifier: Apache-2.0
"""Question: how many empty native operations a second, beside a flow graph of oneTBB?

Builds and runs `bench_push.cc`; the baseline is there when `tbb-devel` is installed. The ratio is
the baseline's time over ours.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import mx_core

CPP = Path(__file__).parents[1] / "tests" / "cpp"


def main() -> None:
    options = ["-DCMAKE_BUILD_TYPE=Release", f"-DMX_CORE_INCLUDE={Path(mx_core.__file__).parent / 'include'}"]
    prefix = Path(sys.prefix)
    if (prefix / "include" / "oneapi" / "tbb").is_dir():
        options.append(f"-DMX_BENCH_TBB={prefix}")
    else:
        print("no baseline: tbb-devel is not installed")
    with tempfile.TemporaryDirectory() as out:
        for command in (
            ["cmake", "-S", str(CPP), "-B", out, *options],
            ["cmake", "--build", out, "--target", "bench_push", "-j2"],
        ):
            built = subprocess.run(command, capture_output=True, text=True, check=False)
            if built.returncode != 0:
                sys.exit(built.stdout + built.stderr)
        subprocess.run([f"{out}/bench_push"], check=True)


if __name__ == "__main__":
    main()
