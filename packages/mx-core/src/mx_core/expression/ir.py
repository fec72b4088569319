# SPDX-License-Identifier: Apache-2.0
"""Expressions as data: validated, hashable, serialisable (format: `mx_core/expression.h`)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import NamedTuple

from mx_core import dtypes
from mx_core.cached import cached_property
from mx_core.errors import FileFormatError
from mx_core.expression.opcodes import Opcode, arity

MAGIC = 0x5845584D
MAJOR, MINOR = 1, 0
UNUSED = 0xFFFFFFFF
_HEAD = struct.Struct("<IHHIIIIII")
_INSTRUCTION = struct.Struct("<HHIII")

_FLOAT32, _FLOAT64, _INT32, _INT64 = 0, 1, 4, 6
_COMPUTE = {0: 0, 1: 1, 2: 0, 3: 4, 4: 4, 5: 4, 6: 6, 7: 4, 8: 4, 9: 4, 10: 6, 11: 6, 12: 0}


class Instruction(NamedTuple):
    """One step: `opcode` over value numbers; unused operands are 0xffffffff."""

    opcode: Opcode
    argument: int = 0
    a: int = UNUSED
    b: int = UNUSED
    c: int = UNUSED

    @property
    def operands(self) -> tuple[int, ...]:
        """The value numbers this instruction reads."""
        return (self.a, self.b, self.c)[: arity(self.opcode)]


@dataclass(frozen=True, eq=False)
class Expression:
    """An elementwise function of arrays and run-time scalars, in single-assignment form.

    Expressions are equal where their bytes are: 0.0 and -0.0 are different constants.
    Values are numbered: inputs, then scalars, then constants, then one per instruction.
    """

    n_inputs: int
    n_scalars: int
    constants: tuple[float, ...]
    instructions: tuple[Instruction, ...]
    outputs: tuple[int, ...]

    def __post_init__(self) -> None:
        first = self.n_inputs + self.n_scalars + len(self.constants)
        for position, step in enumerate(self.instructions):
            for operand in step.operands:
                if not 0 <= operand < first + position:
                    raise FileFormatError(
                        f"[expression] instruction {position} ({step.opcode.name}) reads value "
                        f"{operand}; only 0 to {first + position - 1} exist there"
                    )
        for output in self.outputs:
            if not 0 <= output < first + len(self.instructions):
                raise FileFormatError(f"[expression] output is value {output}, which does not exist")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expression) and self.serialized == other.serialized

    def __hash__(self) -> int:
        return hash(self.serialized)

    @cached_property
    def serialized(self) -> bytes:
        """The bytes that cross to kernel generators."""
        head = _HEAD.pack(
            MAGIC, MAJOR, MINOR, self.n_inputs, self.n_scalars,
            len(self.constants), len(self.instructions), len(self.outputs), 0,
        )  # fmt: skip
        return b"".join(
            (
                head,
                struct.pack(f"<{len(self.constants)}d", *self.constants),
                *(_INSTRUCTION.pack(*step) for step in self.instructions),
                struct.pack(f"<{len(self.outputs)}I", *self.outputs),
            )
        )

    @classmethod
    def parse(cls, data: bytes) -> Expression:
        """The inverse of `serialized`.

        Raises
        ------
        FileFormatError  magic, version, length or a value number is wrong
        """
        if len(data) < _HEAD.size:
            raise FileFormatError(f"[expression] {len(data)} bytes, the header alone has {_HEAD.size}")
        magic, major, minor, n_inputs, n_scalars, n_constants, n_steps, n_outputs, _ = _HEAD.unpack_from(data)
        if magic != MAGIC or major != MAJOR:
            raise FileFormatError(
                f"[expression] magic {magic:#x} version {major}.{minor}; expected {MAGIC:#x} {MAJOR}.x"
            )
        expected = _HEAD.size + 8 * n_constants + _INSTRUCTION.size * n_steps + 4 * n_outputs
        if len(data) != expected:
            raise FileFormatError(f"[expression] {len(data)} bytes, the header states {expected}")
        offset = _HEAD.size
        constants = struct.unpack_from(f"<{n_constants}d", data, offset)
        offset += 8 * n_constants
        steps = []
        for opcode, *rest in _INSTRUCTION.iter_unpack(data[offset : offset + 16 * n_steps]):
            try:
                steps.append(Instruction(Opcode(opcode), *rest))
            except ValueError:
                raise FileFormatError(f"[expression] unknown opcode {opcode}") from None
        outputs = struct.unpack_from(f"<{n_outputs}I", data, offset + 16 * n_steps)
        return cls(n_inputs, n_scalars, constants, tuple(steps), outputs)

    def __str__(self) -> str:
        names = [f"x{i}" for i in range(self.n_inputs)]
        names += [f"s{i}" for i in range(self.n_scalars)]
        names += [f"{c:g}" for c in self.constants]
        lines = []
        for i, step in enumerate(self.instructions):
            names.append(f"t{i}")
            extra = f"<{dtypes.name(step.argument)}>" if step.opcode is Opcode.CAST else ""
            read = ", ".join(names[v] for v in step.operands)
            lines.append(f"t{i} = {step.opcode.name.lower()}{extra}({read})")
        lines.append("return " + ", ".join(names[v] for v in self.outputs))
        return "\n".join(lines)


def compute_dtype(inputs: tuple[int, ...]) -> int:
    """Type code in which an expression over inputs of these types is evaluated.

    float32 for float32, float16 and bfloat16; float64; int32 or int64, whichever holds every
    input; with mixed inputs the widest, floating point before integer.
    """
    wanted = {_COMPUTE.get(code, -1) for code in inputs} or {_FLOAT32}
    for code in (_FLOAT64, _FLOAT32, _INT64, _INT32):
        if code in wanted and -1 not in wanted:
            if code == _FLOAT32 and _INT64 in wanted:
                return _FLOAT64
            return code
    bad = [dtypes.name(code) for code in inputs if code not in _COMPUTE]
    raise TypeError(f"[expression] no elementwise computation in {', '.join(bad)}")
