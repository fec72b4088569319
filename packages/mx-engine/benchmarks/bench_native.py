# SPDX-License-Identifier: Apache-2.0
"""Question: how many empty native operations a second, beside a flow graph of oneTBB?

Builds and runs `bench_push.cc`; the baseline is there when `tbb-devel` is installed. The ratio is
the baseline's time over ours.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mx_core.testing import native_benchmark

CPP = Path(__file__).parents[1] / "tests" / "cpp"


def main() -> None:
    prefix = Path(sys.prefix)
    options = []
    if (prefix / "include" / "oneapi" / "tbb").is_dir():
        options.append(f"-DMX_BENCH_TBB={prefix}")
    else:
        print("no baseline: tbb-devel is not installed")
    native_benchmark.run(CPP, "bench_push", options)


if __name__ == "__main__":
    main()
