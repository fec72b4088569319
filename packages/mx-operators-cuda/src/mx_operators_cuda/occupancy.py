# SPDX-License-Identifier: Apache-2.0
"""How many threads of a kernel a multiprocessor holds, from what the assembler says that they need.

Source: NVIDIA, CUDA C++ Programming Guide 13.0, compute capabilities: limits of 9.0.
"""

from __future__ import annotations

import re
from typing import NamedTuple

#: of a multiprocessor of sm_90: threads, blocks, registers, bytes of shared memory
_THREADS, _BLOCKS, _REGISTERS, _SHARED = 2048, 32, 65536, 228 << 10
#: registers are given to warps of 32 threads in multiples, and each block needs some shared memory of its own
_WARP, _STEP, _OWN = 32, 256, 1 << 10


class Needs(NamedTuple):
    """Of a kernel: registers of a thread, bytes of shared memory of a block, bytes of registers that are spilled."""

    registers: int
    shared: int
    spilled: int


def needs(log: str) -> Needs:
    """From the log of a compilation with `--ptxas-options=-v`.

    Raises
    ------
    ValueError  the log does not say
    """
    registers = re.search(r"Used (\d+) registers", log)
    if registers is None:
        raise ValueError(f"the log does not say how many registers are used: {log!r}")
    shared = re.search(r"(\d+) bytes smem", log)
    spilled = re.search(r"(\d+) bytes spill stores", log)
    return Needs(int(registers[1]), int(shared[1]) if shared else 0, int(spilled[1]) if spilled else 0)


def occupancy(registers: int, shared: int, block: int) -> float:
    """Share of the threads that a multiprocessor of sm_90 can hold: 0 if not even one block fits.

    Parameters
    ----------
    registers : int
        Of a thread.
    shared : int
        Bytes of shared memory of a block.
    block : int
        Threads of a block.
    """
    warps = -(-block // _WARP)
    of_warp = -(-registers * _WARP // _STEP) * _STEP
    by_registers = _REGISTERS // of_warp // warps if of_warp else _BLOCKS
    blocks = min(_BLOCKS, _THREADS // (warps * _WARP), by_registers, _SHARED // (shared + _OWN))
    return blocks * warps * _WARP / _THREADS
