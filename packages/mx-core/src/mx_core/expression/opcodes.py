# SPDX-License-Identifier: Apache-2.0
"""The closed set of opcodes, the Python side of `mx_core/expression.h`."""

from __future__ import annotations

from enum import IntEnum


class Opcode(IntEnum):
    """What one instruction computes; values are part of the serialised format."""

    ADD = 1
    SUB = 2
    MUL = 3
    DIV = 4
    MOD = 5
    POW = 6
    MAXIMUM = 7
    MINIMUM = 8
    HYPOT = 9
    ARCTAN2 = 10
    NEG = 20
    ABS = 21
    SIGN = 22
    ROUND = 23
    RINT = 24
    FLOOR = 25
    CEIL = 26
    TRUNC = 27
    SQRT = 28
    RSQRT = 29
    CBRT = 30
    RCBRT = 31
    SQUARE = 32
    RECIPROCAL = 33
    EXP = 34
    EXPM1 = 35
    LOG = 36
    LOG1P = 37
    LOG2 = 38
    LOG10 = 39
    SIN = 40
    COS = 41
    TAN = 42
    ARCSIN = 43
    ARCCOS = 44
    ARCTAN = 45
    SINH = 46
    COSH = 47
    TANH = 48
    ARCSINH = 49
    ARCCOSH = 50
    ARCTANH = 51
    ERF = 52
    ERFINV = 53
    GAMMA = 54
    GAMMALN = 55
    DIGAMMA = 56
    SIGMOID = 57
    RELU = 58
    SOFTPLUS = 59
    ISNAN = 60
    ISINF = 61
    ISFINITE = 62
    NOT = 63
    EQ = 80
    NE = 81
    LT = 82
    LE = 83
    GT = 84
    GE = 85
    AND = 86
    OR = 87
    XOR = 88
    WHERE = 100
    CAST = 110


def arity(opcode: Opcode) -> int:
    """Number of operands of an opcode: 1, 2 or 3."""
    if opcode is Opcode.WHERE:
        return 3
    return 2 if opcode <= Opcode.ARCTAN2 or Opcode.EQ <= opcode <= Opcode.XOR else 1


COMMUTATIVE = frozenset((Opcode.ADD, Opcode.MUL, Opcode.EQ, Opcode.NE, Opcode.AND, Opcode.OR, Opcode.XOR))
