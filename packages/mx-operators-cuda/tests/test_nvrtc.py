# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's compiler accepts what is generated, for the machine code of an H200; no GPU is needed."""

from __future__ import annotations

import re
import struct
from typing import Any

import pytest

from mx_core import dtypes
from mx_core import expression as X
from mx_core.expression import Expression, Instruction, Opcode, arity
from mx_core.expression.ir import UNUSED
from mx_operators_cuda import ledger
from mx_operators_cuda.codegen import layout_of, write_kernel

EVERY = tuple(range(13))
EM_CUDA = 190
VERBOSE = ("--ptxas-options=-v",)
#: opcodes a kernel of these tests has at most, so that registers suffice for their results
GROUP = 16


def architecture(cubin: bytes) -> int:
    """`sm_` number in the ELF header's flags: bits 8-15 in files of ABI version 8, else bits 0-7."""
    flags = struct.unpack_from("<I", cubin, 48)[0]
    return flags >> 8 & 0xFF if cubin[8] >= 8 else flags & 0xFF


def check_cubin(code: bytes, name: str) -> None:
    assert code[:4] == b"\x7fELF"
    assert struct.unpack_from("<H", code, 18)[0] == EM_CUDA
    assert architecture(code) == 90
    assert f".text.{name}\0".encode() in code


@pytest.mark.long
@pytest.mark.parametrize("code", [0, 1, 4, 6], ids=dtypes.name)
def test_every_opcode(code: int, nvrtc: Any) -> None:
    opcodes = list(Opcode)
    for start in range(0, len(opcodes), GROUP):
        group = opcodes[start : start + GROUP]
        steps = tuple(Instruction(op, 2 if op is Opcode.CAST else 0, *([*range(arity(op))] + [UNUSED] * 3)[:3])
                      for op in group)  # fmt: skip
        e = Expression(3, 0, (), steps, tuple(3 + i for i in range(len(group))))
        layout = layout_of((2, 3), [(2, 3), (1, 3), (2, 1)])
        source = write_kernel("every", e, [code] * 3, [code] * len(group), layout)
        made = nvrtc.compile_kernel(source.text, "every", options=VERBOSE)
        check_cubin(made.code, "every")
        assert "warning" not in made.log


@pytest.mark.long
@pytest.mark.parametrize("target", EVERY, ids=dtypes.name)
def test_every_element_type(target: int, nvrtc: Any) -> None:
    """From each type to `target`, flat (with vectors) and broadcast."""
    e = Expression(13, 1, (0.5,), (Instruction(Opcode.MUL, 0, 0, 13), Instruction(Opcode.ADD, 0, 14, 15)),
                   (*range(1, 13), 16))  # fmt: skip
    for shapes in ([(64,)] * 13, [(8, 1), (1, 8), (8, 8)] * 4 + [()]):
        layout = layout_of((64,) if len(shapes[0]) == 1 else (8, 8), shapes)
        source = write_kernel("types", e, EVERY, [target] * 13, layout)
        check_cubin(nvrtc.compile_kernel(source.text, "types").code, "types")


@pytest.mark.long
def test_ptx_moves_16_bytes_at_once_and_spills_nothing(nvrtc: Any) -> None:
    for name, sample in ledger.samples().items():
        for launch in sample.launches:
            source = launch.source
            ptx = nvrtc.compile_kernel(source.text, source.name, "compute_90").code.decode()
            assert ".target sm_90" in ptx
            assert f".visible .entry {source.name}(" in ptx
            if source.pack > 1:
                assert re.search(r"ld\.(global\.)?v4\.|ld\.(global\.)?v2\.b64", ptx), name
            log = nvrtc.compile_kernel(source.text, source.name, options=VERBOSE).log
            assert "0 bytes spill stores, 0 bytes spill loads" in log, log
            registers = int(re.search(r"Used (\d+) registers", log)[1])  # type: ignore[index]
            assert registers <= 64, f"{name}: {registers} registers leave less than half of the threads"


def test_64_bit_indices(nvrtc: Any) -> None:
    layout = layout_of((1 << 16, 1 << 16), [(1 << 16, 1), (1 << 16,)])
    source = write_kernel("wide", X.trace(lambda x, y: x + y, 2), [0, 0], [0], layout)
    assert "using Index = mx::uint64;" in source.text
    check_cubin(nvrtc.compile_kernel(source.text, "wide").code, "wide")


def test_a_refused_source_shows_the_log(nvrtc: Any) -> None:
    with pytest.raises(nvrtc.CompileError, match=r"\[broken\] NVRTC, sm_90.*\n.*nothing"):
        nvrtc.compile_kernel('extern "C" __global__ void broken() { nothing; }', "broken")
    with pytest.raises(nvrtc.CompileError, match="sm_1"):
        nvrtc.compile_kernel("", "none", "sm_1")


def test_version_and_memory(nvrtc: Any) -> None:
    assert nvrtc.version() >= (12, 0)
    text = 'extern "C" __global__ void once() {}'
    assert nvrtc.compile_kernel(text, "once") is nvrtc.compile_kernel(text, "once")
