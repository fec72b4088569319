# SPDX-License-Identifier: Apache-2.0
"""Elementwise functions for traced values: what a SimpleOp is written with."""

from __future__ import annotations

from mx_core import dtypes
from mx_core.errors import ArgumentError
from mx_core.expression.opcodes import Opcode
from mx_core.expression.trace import Operand, Traced

TWO_OVER_SQRT_PI = 1.1283791670955126  # 2 / sqrt(pi)


def emit(opcode: Opcode, *operands: Operand, argument: int = 0) -> Traced:
    """One instruction over operands of which at least one is traced."""
    for operand in operands:
        if isinstance(operand, Traced):
            return operand.builder.emit(opcode, *operands, argument=argument)
    raise ArgumentError(f"[expression] {opcode.name.lower()} needs a traced operand, got {operands}")


def maximum(a: Operand, b: Operand) -> Traced:
    """The larger one; NaN if either is NaN."""
    return emit(Opcode.MAXIMUM, a, b)


def minimum(a: Operand, b: Operand) -> Traced:
    """The smaller one; NaN if either is NaN."""
    return emit(Opcode.MINIMUM, a, b)


def hypot(a: Operand, b: Operand) -> Traced:
    """sqrt(a² + b²) without undue overflow."""
    return emit(Opcode.HYPOT, a, b)


def arctan2(a: Operand, b: Operand) -> Traced:
    """Angle of the point (b, a), radians."""
    return emit(Opcode.ARCTAN2, a, b)


def power(a: Operand, b: Operand) -> Traced:
    """a to the power b."""
    return emit(Opcode.POW, a, b)


def sign(x: Operand) -> Traced:
    """−1, 0 or 1."""
    return emit(Opcode.SIGN, x)


def round(x: Operand) -> Traced:
    """To the nearest integer, halves away from zero."""
    return emit(Opcode.ROUND, x)


def rint(x: Operand) -> Traced:
    """To the nearest integer, halves to even."""
    return emit(Opcode.RINT, x)


def floor(x: Operand) -> Traced:
    """The largest integer not above x."""
    return emit(Opcode.FLOOR, x)


def ceil(x: Operand) -> Traced:
    """The smallest integer not below x."""
    return emit(Opcode.CEIL, x)


def trunc(x: Operand) -> Traced:
    """Towards zero."""
    return emit(Opcode.TRUNC, x)


def sqrt(x: Operand) -> Traced:
    """Square root."""
    return emit(Opcode.SQRT, x)


def rsqrt(x: Operand) -> Traced:
    """1 / sqrt(x)."""
    return emit(Opcode.RSQRT, x)


def cbrt(x: Operand) -> Traced:
    """Cube root."""
    return emit(Opcode.CBRT, x)


def rcbrt(x: Operand) -> Traced:
    """1 / cbrt(x)."""
    return emit(Opcode.RCBRT, x)


def square(x: Operand) -> Traced:
    """x · x."""
    return emit(Opcode.SQUARE, x)


def reciprocal(x: Operand) -> Traced:
    """1 / x."""
    return emit(Opcode.RECIPROCAL, x)


def exp(x: Operand) -> Traced:
    """Exponential."""
    return emit(Opcode.EXP, x)


def expm1(x: Operand) -> Traced:
    """exp(x) − 1, accurate near 0."""
    return emit(Opcode.EXPM1, x)


def log(x: Operand) -> Traced:
    """Natural logarithm."""
    return emit(Opcode.LOG, x)


def log1p(x: Operand) -> Traced:
    """log(1 + x), accurate near 0."""
    return emit(Opcode.LOG1P, x)


def log2(x: Operand) -> Traced:
    """Logarithm to base 2."""
    return emit(Opcode.LOG2, x)


def log10(x: Operand) -> Traced:
    """Logarithm to base 10."""
    return emit(Opcode.LOG10, x)


def sin(x: Operand) -> Traced:
    """Sine of radians."""
    return emit(Opcode.SIN, x)


def cos(x: Operand) -> Traced:
    """Cosine of radians."""
    return emit(Opcode.COS, x)


def tan(x: Operand) -> Traced:
    """Tangent of radians."""
    return emit(Opcode.TAN, x)


def arcsin(x: Operand) -> Traced:
    """Inverse sine, radians."""
    return emit(Opcode.ARCSIN, x)


def arccos(x: Operand) -> Traced:
    """Inverse cosine, radians."""
    return emit(Opcode.ARCCOS, x)


def arctan(x: Operand) -> Traced:
    """Inverse tangent, radians."""
    return emit(Opcode.ARCTAN, x)


def sinh(x: Operand) -> Traced:
    """Hyperbolic sine."""
    return emit(Opcode.SINH, x)


def cosh(x: Operand) -> Traced:
    """Hyperbolic cosine."""
    return emit(Opcode.COSH, x)


def tanh(x: Operand) -> Traced:
    """Hyperbolic tangent."""
    return emit(Opcode.TANH, x)


def arcsinh(x: Operand) -> Traced:
    """Inverse hyperbolic sine."""
    return emit(Opcode.ARCSINH, x)


def arccosh(x: Operand) -> Traced:
    """Inverse hyperbolic cosine."""
    return emit(Opcode.ARCCOSH, x)


def arctanh(x: Operand) -> Traced:
    """Inverse hyperbolic tangent."""
    return emit(Opcode.ARCTANH, x)


def erf(x: Operand) -> Traced:
    """Error function."""
    return emit(Opcode.ERF, x)


def erfinv(x: Operand) -> Traced:
    """Inverse error function."""
    return emit(Opcode.ERFINV, x)


def gamma(x: Operand) -> Traced:
    """Gamma function."""
    return emit(Opcode.GAMMA, x)


def gammaln(x: Operand) -> Traced:
    """Logarithm of the absolute value of the gamma function."""
    return emit(Opcode.GAMMALN, x)


def digamma(x: Operand) -> Traced:
    """Derivative of gammaln."""
    return emit(Opcode.DIGAMMA, x)


def sigmoid(x: Operand) -> Traced:
    """1 / (1 + exp(−x))."""
    return emit(Opcode.SIGMOID, x)


def relu(x: Operand) -> Traced:
    """max(x, 0)."""
    return emit(Opcode.RELU, x)


def softplus(x: Operand) -> Traced:
    """log(1 + exp(x)) without overflow."""
    return emit(Opcode.SOFTPLUS, x)


def isnan(x: Operand) -> Traced:
    """1 where x is NaN."""
    return emit(Opcode.ISNAN, x)


def isinf(x: Operand) -> Traced:
    """1 where x is infinite."""
    return emit(Opcode.ISINF, x)


def isfinite(x: Operand) -> Traced:
    """1 where x is neither infinite nor NaN."""
    return emit(Opcode.ISFINITE, x)


def logical_not(x: Operand) -> Traced:
    """1 where x is 0."""
    return emit(Opcode.NOT, x)


def logical_and(a: Operand, b: Operand) -> Traced:
    """1 where both are non-zero."""
    return emit(Opcode.AND, a, b)


def logical_or(a: Operand, b: Operand) -> Traced:
    """1 where either is non-zero."""
    return emit(Opcode.OR, a, b)


def logical_xor(a: Operand, b: Operand) -> Traced:
    """1 where exactly one is non-zero."""
    return emit(Opcode.XOR, a, b)


def where(condition: Operand, a: Operand, b: Operand) -> Traced:
    """`a` where the condition is non-zero, else `b`."""
    return emit(Opcode.WHERE, condition, a, b)


def cast(x: Operand, dtype: object) -> Traced:
    """x with the rounding and range of another element type."""
    return emit(Opcode.CAST, x, argument=dtypes.code(dtype))
