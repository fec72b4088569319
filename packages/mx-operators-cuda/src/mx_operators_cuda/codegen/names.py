# SPDX-License-Identifier: Apache-2.0
"""Names of element types and opcodes in `elementwise.cuh`."""

from __future__ import annotations

import math

from mx_core import dtypes
from mx_core.expression import Opcode

#: type code -> C++ type in memory
STORAGE = {
    0: "float", 1: "double", 2: "mx::half", 3: "mx::uint8", 4: "mx::int32", 5: "mx::int8",
    6: "mx::int64", 7: "mx::boolean", 8: "mx::int16", 9: "mx::uint16", 10: "mx::uint32",
    11: "mx::uint64", 12: "mx::bfloat16",
}  # fmt: skip
#: compute type code -> C++ type in registers
COMPUTE = {0: "float", 1: "double", 4: "mx::int32", 6: "mx::int64"}

_FUNCTIONS = {
    Opcode.POW: "power", Opcode.ABS: "absolute", Opcode.ROUND: "round_away", Opcode.RINT: "round_even",
    Opcode.ISNAN: "is_nan", Opcode.ISINF: "is_infinite", Opcode.ISFINITE: "is_finite",
    Opcode.NOT: "logical_not", Opcode.AND: "logical_and", Opcode.OR: "logical_or",
    Opcode.XOR: "logical_xor", Opcode.EQ: "equal", Opcode.NE: "not_equal", Opcode.LT: "less",
    Opcode.LE: "less_equal", Opcode.GT: "greater", Opcode.GE: "greater_equal",
}  # fmt: skip
#: opcodes that read as C++ operators; with integers they must wrap around, so only in floats
_FLOAT_OPERATORS = {Opcode.ADD: "+", Opcode.SUB: "-", Opcode.MUL: "*", Opcode.DIV: "/"}
FLOATS = (0, 1)


def function(opcode: Opcode) -> str:
    """The device function of an opcode."""
    return f"mx::{_FUNCTIONS.get(opcode, opcode.name.lower())}"


def call(opcode: Opcode, argument: int, operands: list[str], compute: int) -> str:
    """The C++ expression of one instruction."""
    if opcode in _FLOAT_OPERATORS and compute in FLOATS:
        return f" {_FLOAT_OPERATORS[opcode]} ".join(operands)
    if opcode is Opcode.NEG and compute in FLOATS:
        return f"-{operands[0]}"
    if opcode is Opcode.CAST:
        return f"mx::cast<{STORAGE[argument]}>({operands[0]})"
    return f"{function(opcode)}({', '.join(operands)})"


def literal(value: float, compute: int) -> str:
    """A constant in the compute type, exactly as `mx_core.expression.evaluate` converts it."""
    kind = COMPUTE[compute]
    if compute in FLOATS:
        if math.isnan(value):
            return f"mx::not_a_number<{kind}>()"
        exact = _float32(value) if compute == 0 else value
        if math.isinf(exact):
            return f"{'-' if exact < 0 else ''}mx::infinity<{kind}>()"
        return f"{exact!r}{'f' if compute == 0 else ''}"
    bits = 8 * dtypes.itemsize(compute)
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    whole = int(value) if low <= value <= high else low
    if whole == low:
        return f"mx::limits<{kind}>::low"
    return f"{whole}LL" if bits == 64 else str(whole)


def _float32(value: float) -> float:
    import numpy as np

    with np.errstate(over="ignore"):
        return float(np.float32(value))
