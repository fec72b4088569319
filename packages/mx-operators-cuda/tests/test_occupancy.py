# SPDX-License-Identifier: Apache-2.0
import pytest

from mx_operators_cuda.occupancy import Needs, needs, occupancy

LOG = """ptxas info    : Compiling entry function 'f' for 'sm_90'
ptxas info    : Function properties for f
    16 bytes stack frame, 24 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 4096 bytes smem, 600 bytes cmem[0]
"""


def test_needs_are_read_from_the_log() -> None:
    assert needs(LOG) == Needs(40, 4096, 24)
    assert needs("Used 8 registers, 300 bytes cmem[0]") == Needs(8, 0, 0)
    with pytest.raises(ValueError, match="'nothing'"):
        needs("nothing")


@pytest.mark.parametrize(
    ("registers", "shared", "block", "wanted"),
    [
        (32, 0, 256, 1.0),  # 64 warps use all registers
        (33, 0, 256, 0.75),  # 40 registers are given: 6 blocks of 8 warps
        (128, 0, 256, 0.25),
        (255, 0, 256, 0.125),
        (16, 0, 32, 0.5),  # 32 blocks at most
        (16, 113 << 10, 256, 0.25),  # two blocks by shared memory
        (16, 228 << 10, 256, 0.0),
        (255, 0, 1024, 0.0),
    ],
)
def test_occupancy(registers: int, shared: int, block: int, wanted: float) -> None:
    assert occupancy(registers, shared, block) == wanted
