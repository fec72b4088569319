# SPDX-License-Identifier: Apache-2.0
"""Formulas of elementwise operators as text, from their expressions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mx_core import dtypes
from mx_core.errors import MXNetError
from mx_core.expression.ir import Expression, Instruction
from mx_core.expression.opcodes import Opcode
from mx_core.operator import Operator, Params
from mx_core.operator.simple import Elementwise

#: signs between two values, and how tightly they bind
INFIX: Mapping[Opcode, tuple[str, int]] = {
    Opcode.OR: ("or", 0), Opcode.XOR: ("xor", 0), Opcode.AND: ("and", 1),
    Opcode.EQ: ("=", 2), Opcode.NE: ("≠", 2), Opcode.LT: ("<", 2), Opcode.LE: ("≤", 2),
    Opcode.GT: (">", 2), Opcode.GE: ("≥", 2),
    Opcode.ADD: ("+", 3), Opcode.SUB: ("−", 3), Opcode.MUL: ("·", 4), Opcode.DIV: ("/", 4),
    Opcode.MOD: ("mod", 4), Opcode.POW: ("^", 6),
}  # fmt: skip
#: after the value; −x binds like a product, x² tighter
NEGATION, SQUARE, WHOLE = 4, 6, 9
NAMES: Mapping[Opcode, str] = {
    Opcode.MAXIMUM: "max", Opcode.MINIMUM: "min", Opcode.SQRT: "√", Opcode.CBRT: "∛", Opcode.GAMMA: "Γ",
    Opcode.GAMMALN: "ln Γ", Opcode.LOG: "ln", Opcode.SIGN: "sign", Opcode.DIGAMMA: "ψ",
}  # fmt: skip


class _Text(NamedTuple):
    text: str
    binds: int

    def within(self, binding: int) -> str:
        """In brackets where it binds less than what stands around it."""
        return self.text if self.binds >= binding else f"({self.text})"


def formula(op: Operator, attrs: Sequence[Mapping[str, str]]) -> str | None:
    """The formula with the first parameters of `attrs` that suit; None for what is not elementwise.

    Parameters that decide the form, and not only its numbers, are said before it.
    """
    if not isinstance(op, Elementwise):
        return None
    for settings in ({} if op.variadic is None else {op.variadic: "3"}, *attrs):
        try:
            p = op.Param.parse(settings, op=op.name)
            expression = op.expression(p)
        except MXNetError:
            continue
        if expression is None:
            return None
        shown = ", ".join(written(op, p, expression))
        form = [f"{i.name}={getattr(p, i.name)}" for i in op.Param.fields() if i.choices and not i.runtime]
        return f"{shown} ({', '.join(form)})" if form else shown
    return None


def written(op: Operator, p: Params, expression: Expression) -> list[str]:
    """Each output of an expression, with the names of its inputs and parameters."""
    inputs = [_Text(name, WHOLE) for name in op.inputs(p)[: expression.n_inputs]]
    scalars = [_Text(info.name, WHOLE) for info in op.Param.fields() if info.runtime]
    constants = [
        _Text(f"{c:g}".replace("-", "−"), NEGATION if c < 0 else WHOLE) for c in expression.constants
    ]
    values = [*inputs, *scalars[: expression.n_scalars], *constants]
    for step in expression.instructions:
        values.append(_step(step, [values[i] for i in step.operands]))
    return [values[output].text for output in expression.outputs]


def _step(step: Instruction, given: Sequence[_Text]) -> _Text:
    opcode = Opcode(step.opcode)
    if opcode in INFIX:
        sign, binding = INFIX[opcode]
        right = binding if opcode in (Opcode.ADD, Opcode.MUL, Opcode.AND, Opcode.OR) else binding + 1
        left = binding + 1 if opcode is Opcode.POW else binding
        return _Text(f"{given[0].within(left)} {sign} {given[1].within(right)}", binding)
    match opcode:
        case Opcode.NEG:
            return _Text(f"−{given[0].within(NEGATION)}", NEGATION)
        case Opcode.NOT:
            return _Text(f"not {given[0].within(WHOLE)}", 1)
        case Opcode.SQUARE:
            return _Text(f"{given[0].within(SQUARE + 1)}²", SQUARE)
        case Opcode.RECIPROCAL:
            return _Text(f"1 / {given[0].within(NEGATION + 1)}", NEGATION)
        case Opcode.RSQRT | Opcode.RCBRT:
            return _Text(f"1 / {'√' if opcode is Opcode.RSQRT else '∛'}({given[0].text})", NEGATION)
        case Opcode.RELU:
            return _Text(f"max({given[0].text}, 0)", WHOLE)
        case Opcode.SIGMOID:
            return _Text(f"1 / (1 + exp(−{given[0].within(NEGATION)}))", NEGATION)
        case Opcode.SOFTPLUS:
            return _Text(f"ln(1 + exp({given[0].text}))", WHOLE)
        case Opcode.EXPM1:
            return _Text(f"exp({given[0].text}) − 1", 3)
        case Opcode.LOG1P:
            return _Text(f"ln(1 + {given[0].within(3)})", WHOLE)
        case Opcode.HYPOT:
            return _Text(f"√({given[0].within(SQUARE + 1)}² + {given[1].within(SQUARE + 1)}²)", WHOLE)
        case Opcode.ABS:
            return _Text(f"|{given[0].text}|", WHOLE)
        case Opcode.WHERE:
            condition, yes, no = (value.within(1) for value in given)
            return _Text(f"{yes} if {condition} else {no}", 0)
        case Opcode.CAST:
            return _Text(f"{dtypes.name(step.argument)}({given[0].text})", WHOLE)
    name = NAMES.get(opcode, opcode.name.lower())
    return _Text(f"{name}({', '.join(value.text for value in given)})", WHOLE)
