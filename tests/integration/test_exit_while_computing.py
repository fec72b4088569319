# SPDX-License-Identifier: Apache-2.0
"""Operations that outlast the exit: nothing that they use is destroyed under them."""

import os
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.long

#: a worker computes for seconds when the exit gives up on it
PROGRAM = """
import sys
from mx_ndarray import nd
x = nd.ones((int(sys.argv[1]),) * 2)
for _ in range(60):
    x = nd.dot(x, x) * 1e-4
sys.exit(3)
"""


@pytest.mark.parametrize("size", [300, 900, 1800])
def test_the_process_ends_with_its_status(size):
    environment = os.environ | {"MX_SHUTDOWN_TIMEOUT": "0.05"}
    begun = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(size)],
        env=environment, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    assert set(done.stderr.splitlines()) <= {line for line in done.stderr.splitlines() if "given up" in line}
    assert time.monotonic() - begun < 60
