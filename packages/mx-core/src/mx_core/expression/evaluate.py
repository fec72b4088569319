# SPDX-License-Identifier: Apache-2.0
"""Expressions evaluated with NumPy: the readable definition of every opcode.

Integers: + − × wrap around; a / b truncates towards zero; a / 0 and a % 0 are 0; functions
without an integer meaning (exp, pow, …) are computed in float64 and truncated.
Everywhere: a % b has the sign of b, and is 0 for b = 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from mx_core import dtypes
from mx_core.expression.ir import Expression, compute_dtype
from mx_core.expression.opcodes import Opcode

if TYPE_CHECKING:
    import numpy as np

Array = Any


def _elementwise(function: Callable[[float], float]) -> Callable[[Array], Array]:
    def apply(x: Array) -> Array:
        import numpy as np

        flat = (function(float(v)) for v in np.ravel(x))
        return np.fromiter(flat, np.float64, np.size(x)).reshape(np.shape(x)).astype(x.dtype)

    return apply


def _gamma(v: float) -> float:
    if v == 0:
        return math.copysign(math.inf, v)
    try:
        return math.gamma(v)
    except OverflowError:
        return math.inf
    except ValueError:
        return math.nan


def _gammaln(v: float) -> float:
    try:
        return math.lgamma(v)
    except (OverflowError, ValueError):
        return math.inf


def _digamma(v: float) -> float:
    """Reflection, recurrence to 10, asymptotic series (Abramowitz and Stegun 6.3.7, 6.3.5, 6.3.18)."""
    if not math.isfinite(v):
        return v if v > 0 else math.nan
    if v <= 0:
        return math.nan if v == math.floor(v) else _digamma(1 - v) - math.pi / math.tan(math.pi * v)
    shift = 0.0
    while v < 10:
        shift -= 1 / v
        v += 1
    z = 1 / (v * v)
    series = z * (1 / 12 - z * (1 / 120 - z * (1 / 252 - z * (1 / 240 - z * (1 / 132)))))
    return shift + math.log(v) - 0.5 / v - series


def _erfinv(v: float) -> float:
    """Giles' single-precision polynomial as a start, then two Newton steps in float64.

    Source: M. Giles, Approximating the erfinv function, GPU Computing Gems, 2011.
    """
    if not -1 < v < 1:
        return math.copysign(math.inf, v) if abs(v) == 1 else math.nan
    w = -math.log((1 - v) * (1 + v))
    if w < 5:
        w -= 2.5
        powers = (2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
                  -0.00125372503, -0.00417768164, 0.246640727, 1.50140941)  # fmt: skip
    else:
        w = math.sqrt(w) - 3
        powers = (-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
                  -0.0076224613, 0.00943887047, 1.00167406, 2.83297682)  # fmt: skip
    p = 0.0
    for c in powers:
        p = p * w + c
    y = p * v
    for _ in range(2):
        y -= (math.erf(y) - v) / (2 / math.sqrt(math.pi) * math.exp(-y * y))
    return y


def _sigmoid(x: Array) -> Array:
    import numpy as np

    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, np.ones_like(e)) / (1.0 + e)


def _mod(a: Array, b: Array) -> Array:
    import numpy as np

    return np.where(b == 0, np.zeros_like(a), np.mod(a, np.where(b == 0, np.ones_like(b), b)))


def _divide_integers(a: Array, b: Array) -> Array:
    import numpy as np

    safe = np.where(b == 0, np.ones_like(b), b)
    quotient = np.floor_divide(a, safe)
    inexact = (np.remainder(a, safe) != 0) & ((a < 0) != (safe < 0))
    return np.where(b == 0, np.zeros_like(a), quotient + inexact.astype(a.dtype))


def _power_of_integers(base: Array, exponent: Array) -> Array:
    """Exact, wrapping around; what a negative exponent gives is truncated, and that of 0 is the lowest number."""
    import numpy as np

    result, factor, left = np.ones_like(base + exponent), base, np.maximum(exponent, 0)
    while left.any():
        result = np.where(left & 1, result * factor, result)
        factor, left = factor * factor, left >> 1
    ends = (exponent >= 0, base == 0, base == 1, base == -1)
    values = (result, np.iinfo(base.dtype).min, 1, 1 - 2 * (exponent & 1))
    return np.select(ends, values, 0)


def _round_half_away(x: Array) -> Array:
    import numpy as np

    return np.trunc(x + np.copysign(np.nextafter(x.dtype.type(0.5), x.dtype.type(0)), x))


def _float_table() -> dict[Opcode, Callable[..., Array]]:
    import numpy as np

    one = 1.0
    return {
        Opcode.ADD: np.add, Opcode.SUB: np.subtract, Opcode.MUL: np.multiply,
        Opcode.DIV: np.divide, Opcode.MOD: _mod, Opcode.POW: np.power,
        Opcode.MAXIMUM: np.maximum, Opcode.MINIMUM: np.minimum,
        Opcode.HYPOT: np.hypot, Opcode.ARCTAN2: np.arctan2,
        Opcode.NEG: np.negative, Opcode.ABS: np.abs, Opcode.SIGN: np.sign,
        Opcode.ROUND: _round_half_away, Opcode.RINT: np.rint, Opcode.FLOOR: np.floor,
        Opcode.CEIL: np.ceil, Opcode.TRUNC: np.trunc, Opcode.SQRT: np.sqrt,
        Opcode.RSQRT: lambda x: one / np.sqrt(x), Opcode.CBRT: np.cbrt,
        Opcode.RCBRT: lambda x: one / np.cbrt(x), Opcode.SQUARE: np.square,
        Opcode.RECIPROCAL: lambda x: one / x, Opcode.EXP: np.exp, Opcode.EXPM1: np.expm1,
        Opcode.LOG: np.log, Opcode.LOG1P: np.log1p, Opcode.LOG2: np.log2, Opcode.LOG10: np.log10,
        Opcode.SIN: np.sin, Opcode.COS: np.cos, Opcode.TAN: np.tan, Opcode.ARCSIN: np.arcsin,
        Opcode.ARCCOS: np.arccos, Opcode.ARCTAN: np.arctan, Opcode.SINH: np.sinh,
        Opcode.COSH: np.cosh, Opcode.TANH: np.tanh, Opcode.ARCSINH: np.arcsinh,
        Opcode.ARCCOSH: np.arccosh, Opcode.ARCTANH: np.arctanh, Opcode.ERF: _elementwise(math.erf),
        Opcode.ERFINV: _elementwise(_erfinv), Opcode.GAMMA: _elementwise(_gamma),
        Opcode.GAMMALN: _elementwise(_gammaln), Opcode.DIGAMMA: _elementwise(_digamma),
        Opcode.SIGMOID: _sigmoid,
        Opcode.RELU: lambda x: np.where(x <= 0, np.zeros_like(x), x),
        Opcode.SOFTPLUS: lambda x: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))),
        Opcode.ISNAN: np.isnan, Opcode.ISINF: np.isinf, Opcode.ISFINITE: np.isfinite,
        Opcode.NOT: lambda x: x == 0, Opcode.EQ: np.equal, Opcode.NE: np.not_equal,
        Opcode.LT: np.less, Opcode.LE: np.less_equal, Opcode.GT: np.greater,
        Opcode.GE: np.greater_equal, Opcode.AND: np.logical_and, Opcode.OR: np.logical_or,
        Opcode.XOR: np.logical_xor, Opcode.WHERE: lambda c, a, b: np.where(c != 0, a, b),
    }  # fmt: skip


_KEEPS_INTEGERS = frozenset(
    (Opcode.ADD, Opcode.SUB, Opcode.MUL, Opcode.MOD, Opcode.MAXIMUM, Opcode.MINIMUM, Opcode.NEG,
     Opcode.ABS, Opcode.SIGN, Opcode.SQUARE, Opcode.RELU, Opcode.NOT, Opcode.EQ, Opcode.NE,
     Opcode.LT, Opcode.LE, Opcode.GT, Opcode.GE, Opcode.AND, Opcode.OR, Opcode.XOR, Opcode.WHERE)
)  # fmt: skip
_INTEGER_IDENTITIES = frozenset((Opcode.ROUND, Opcode.RINT, Opcode.FLOOR, Opcode.CEIL, Opcode.TRUNC))


def convert(value: Array, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """`value` in another type.

    Real numbers become integers by truncation to int32 (uint32 and 64-bit types: int64), which then
    wraps around; what that type does not hold, NaN too, becomes its lowest value.
    """
    import numpy as np

    if dtype.kind in "iu" and value.dtype.kind not in "iub":
        wide = np.dtype(np.int64 if dtype.itemsize == 8 or dtype == np.uint32 else np.int32)
        numbers, lowest = np.trunc(value.astype(np.float64)), -(2.0 ** (8 * wide.itemsize - 1))
        inside = (numbers >= lowest) & (numbers < -lowest)
        return np.where(inside, numbers, lowest).astype(wide).astype(dtype)
    return np.asarray(value).astype(dtype)


def evaluate(
    expression: Expression,
    inputs: Sequence[np.ndarray[Any, Any]],
    scalars: Sequence[float] = (),
    *,
    output_dtypes: Sequence[int] | None = None,
) -> tuple[np.ndarray[Any, Any], ...]:
    """The values of an expression on arrays that broadcast together.

    Returns
    -------
    tuple of ndarray
        One per output, of the broadcast shape, in `output_dtypes` (type codes) or, without
        them, in the type of the first input.

    Raises
    ------
    TypeError  an input's type has no elementwise computation
    """
    import numpy as np

    codes = tuple(dtypes.code(x.dtype) for x in inputs)
    compute = dtypes.numpy_dtype(compute_dtype(codes))
    table = _float_table()
    integral = compute.kind == "i"
    values: list[Any] = [np.asarray(x).astype(compute) for x in inputs]
    for number in (*scalars, *expression.constants):
        values.append(convert(np.asarray(number, np.float64), compute) if integral else compute.type(number))
    with np.errstate(all="ignore"):
        for step in expression.instructions:
            read = [values[v] for v in step.operands]
            values.append(_step(step.opcode, step.argument, read, compute, table))
        shape = np.broadcast_shapes(*(np.shape(x) for x in inputs)) if inputs else ()
        wanted = output_dtypes or [codes[0] if codes else 0] * len(expression.outputs)
        return tuple(
            convert(np.broadcast_to(np.asarray(values[v]), shape), dtypes.numpy_dtype(code))
            for v, code in zip(expression.outputs, wanted, strict=True)
        )


def _step(
    opcode: Opcode,
    argument: int,
    read: list[Array],
    compute: np.dtype[Any],
    table: dict[Opcode, Callable[..., Array]],
) -> Array:
    import numpy as np

    if opcode is Opcode.CAST:
        return convert(convert(np.asarray(read[0]), dtypes.numpy_dtype(argument)), compute)
    read = [np.asarray(x, compute) for x in read]
    if compute.kind != "i":
        return np.asarray(table[opcode](*read)).astype(compute)
    if opcode is Opcode.DIV:
        return _divide_integers(*read)
    if opcode is Opcode.POW:
        return _power_of_integers(*read).astype(compute)
    if opcode in _INTEGER_IDENTITIES:
        return read[0]
    if opcode in _KEEPS_INTEGERS:
        return np.asarray(table[opcode](*read)).astype(compute)
    return convert(np.asarray(table[opcode](*(x.astype(np.float64) for x in read))), compute)
