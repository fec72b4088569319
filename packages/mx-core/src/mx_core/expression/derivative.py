# SPDX-License-Identifier: Apache-2.0
"""Reverse-mode differentiation of expressions: an expression again, so of any order.

Source: Griewank and Walther, Evaluating Derivatives, SIAM 2008, section 3.2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mx_core.expression import functions as f
from mx_core.expression.ir import Expression
from mx_core.expression.opcodes import Opcode
from mx_core.expression.trace import Builder, Operand, Traced

_LN2 = 0.6931471805599453
_LN10 = 2.302585092994046
_Unary = Callable[[Traced, Traced], Operand | None]
_Binary = Callable[[Traced, Traced, Traced], tuple[Operand | None, Operand | None]]


def _trigamma(x: Traced) -> Traced:
    """Derivative of digamma for x > 0: recurrence up to 6, then the asymptotic series.

    Source: Abramowitz and Stegun, 6.4.6 and 6.4.12.
    """
    total: Operand = 0.0
    for k in range(6):
        total = f.reciprocal(f.square(x + float(k))) + total
    z = f.reciprocal(x + 6.0)
    z2 = f.square(z)
    tail = z * (1 + z * (0.5 + z * (1 / 6 - z2 * (1 / 30 - z2 * (1 / 42 - z2 / 30)))))
    return total + tail


# d op(x) / dx, from x and y = op(x); None where it is zero almost everywhere.
UNARY: dict[Opcode, _Unary] = {
    Opcode.NEG: lambda x, y: -1.0,
    Opcode.ABS: lambda x, y: f.sign(x),
    Opcode.SQRT: lambda x, y: 0.5 / y,
    Opcode.RSQRT: lambda x, y: -0.5 * y / x,
    Opcode.CBRT: lambda x, y: 1 / (3 * f.square(y)),
    Opcode.RCBRT: lambda x, y: -y / (3 * x),
    Opcode.SQUARE: lambda x, y: 2 * x,
    Opcode.RECIPROCAL: lambda x, y: -f.square(y),
    Opcode.EXP: lambda x, y: y,
    Opcode.EXPM1: lambda x, y: y + 1,
    Opcode.LOG: lambda x, y: 1 / x,
    Opcode.LOG1P: lambda x, y: 1 / (1 + x),
    Opcode.LOG2: lambda x, y: 1 / (x * _LN2),
    Opcode.LOG10: lambda x, y: 1 / (x * _LN10),
    Opcode.SIN: lambda x, y: f.cos(x),
    Opcode.COS: lambda x, y: -f.sin(x),
    Opcode.TAN: lambda x, y: 1 + f.square(y),
    Opcode.ARCSIN: lambda x, y: f.rsqrt(1 - f.square(x)),
    Opcode.ARCCOS: lambda x, y: -f.rsqrt(1 - f.square(x)),
    Opcode.ARCTAN: lambda x, y: 1 / (1 + f.square(x)),
    Opcode.SINH: lambda x, y: f.cosh(x),
    Opcode.COSH: lambda x, y: f.sinh(x),
    Opcode.TANH: lambda x, y: 1 - f.square(y),
    Opcode.ARCSINH: lambda x, y: f.rsqrt(f.square(x) + 1),
    Opcode.ARCCOSH: lambda x, y: f.rsqrt(f.square(x) - 1),
    Opcode.ARCTANH: lambda x, y: 1 / (1 - f.square(x)),
    Opcode.ERF: lambda x, y: f.TWO_OVER_SQRT_PI * f.exp(-f.square(x)),
    Opcode.ERFINV: lambda x, y: f.exp(f.square(y)) / f.TWO_OVER_SQRT_PI,
    Opcode.GAMMA: lambda x, y: y * f.digamma(x),
    Opcode.GAMMALN: lambda x, y: f.digamma(x),
    Opcode.DIGAMMA: lambda x, y: _trigamma(x),
    Opcode.SIGMOID: lambda x, y: y * (1 - y),
    Opcode.RELU: lambda x, y: x > 0,
    Opcode.SOFTPLUS: lambda x, y: f.sigmoid(x),
    Opcode.CAST: lambda x, y: 1.0,
}
for _flat in ["SIGN", "ROUND", "RINT", "FLOOR", "CEIL", "TRUNC", "ISNAN", "ISINF", "ISFINITE", "NOT"]:
    UNARY[Opcode[_flat]] = lambda x, y: None

BINARY: dict[Opcode, _Binary] = {
    Opcode.ADD: lambda a, b, y: (1.0, 1.0),
    Opcode.SUB: lambda a, b, y: (1.0, -1.0),
    Opcode.MUL: lambda a, b, y: (b, a),
    Opcode.DIV: lambda a, b, y: (1 / b, -y / b),
    Opcode.MOD: lambda a, b, y: (1.0, -f.floor(a / b)),
    Opcode.POW: lambda a, b, y: (b * f.power(a, b - 1), y * f.log(a)),
    Opcode.MAXIMUM: lambda a, b, y: (a >= b, a < b),
    Opcode.MINIMUM: lambda a, b, y: (a <= b, a > b),
    Opcode.HYPOT: lambda a, b, y: (a / y, b / y),
    Opcode.ARCTAN2: lambda a, b, y: (
        b / (f.square(a) + f.square(b)),
        -a / (f.square(a) + f.square(b)),
    ),
}
for _flat in ["EQ", "NE", "LT", "LE", "GT", "GE", "AND", "OR", "XOR"]:
    BINARY[Opcode[_flat]] = lambda a, b, y: (None, None)


def _times(gradient: Traced, factor: Operand) -> Traced:
    if not isinstance(factor, Traced):
        if factor == 1.0:
            return gradient
        if factor == -1.0:
            return -gradient
    return gradient * factor


def replay(builder: Builder, expression: Expression, inputs: Sequence[Traced]) -> list[Traced]:
    """Writes an expression into another trace; returns all its values in value-number order."""
    values = [*inputs, *(builder.scalar(i) for i in range(expression.n_scalars))]
    values += [builder.constant(c) for c in expression.constants]
    for step in expression.instructions:
        read = [values[v] for v in step.operands]
        values.append(builder.emit(step.opcode, *read, argument=step.argument))
    return values


def differentiate(expression: Expression, wrt: Sequence[int] | None = None) -> Expression:
    """Gradients of an expression.

    Parameters
    ----------
    wrt : sequence of int, optional
        The inputs to differentiate by; all by default.

    Returns
    -------
    Expression
        Inputs: one out-gradient per output, then the inputs of `expression`.
        Outputs: one gradient per entry of `wrt` (the constant 0 where it vanishes).
    """
    n_out = len(expression.outputs)
    builder = Builder(n_out + expression.n_inputs, expression.n_scalars)
    inputs = [builder.input(n_out + i) for i in range(expression.n_inputs)]
    values = replay(builder, expression, inputs)
    adjoint: dict[int, Traced] = {}

    def accumulate(value: int, term: Traced) -> None:
        adjoint[value] = adjoint[value] + term if value in adjoint else term

    for i, output in enumerate(expression.outputs):
        accumulate(output, builder.input(i))
    first = expression.n_inputs + expression.n_scalars + len(expression.constants)
    for position in range(len(expression.instructions) - 1, -1, -1):
        gradient = adjoint.get(first + position)
        if gradient is None:
            continue
        step = expression.instructions[position]
        y = values[first + position]
        read = [values[v] for v in step.operands]
        if step.opcode is Opcode.WHERE:
            zero = builder.constant(0.0)
            accumulate(step.b, f.where(read[0], gradient, zero))
            accumulate(step.c, f.where(read[0], zero, gradient))
            continue
        factors: Sequence[Operand | None] = (
            (UNARY[step.opcode](read[0], y),) if len(read) == 1 else BINARY[step.opcode](read[0], read[1], y)
        )
        for operand, factor in zip(step.operands, factors, strict=True):
            is_leaf_number = expression.n_inputs <= operand < first
            if factor is not None and not is_leaf_number:
                accumulate(operand, _times(gradient, factor))
    chosen = range(expression.n_inputs) if wrt is None else wrt
    return builder.finish([adjoint.get(i, builder.constant(0.0)) for i in chosen])
