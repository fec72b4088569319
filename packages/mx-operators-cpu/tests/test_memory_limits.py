# SPDX-License-Identifier: Apache-2.0
"""Memory that runs out while primitives are prepared is an error, and the process stays usable."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

CODE = """
import resource, sys
from pathlib import Path
from mx_core.errors import OutOfMemoryError
from mx_operators_cpu.library import native

WINDOW = native.ConvolutionOptions(
    kernel=[3, 3], stride=[1, 1], dilate=[1, 1], pad=[0, 0], groups=1, channels_last=False
)

def convolution(channels):
    return native.convolution(
        inputs=[((8, channels, 56, 56), 0), ((channels, channels, 3, 3), 0)], outputs=[((8, channels, 54, 54), 0)],
        options=WINDOW,
    )

assert convolution(16) is not None
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
limit = used + (int(sys.argv[1]) << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
made, refused = [], 0
for channels in range(16, 4096, 8):
    try:
        made.append(convolution(channels))
    except (OutOfMemoryError, MemoryError):
        refused += 1
        if refused == 20:
            break
count = len(made)
made.clear()
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert convolution(24) is not None
print(count, refused)
"""


@pytest.mark.parametrize("more", [1, 8, 15, 17, 24, 40])
def test_limits_of_memory(more: int) -> None:
    """`more`: MiB above what the process has."""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", CODE, str(more)],
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"MX_WINOGRAD": "0"},
    )
    assert done.returncode == 0, f"{done.returncode} {done.stderr[-2000:]}"
    _, refused = map(int, done.stdout.split())
    assert refused == 20
