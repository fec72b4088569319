# SPDX-License-Identifier: Apache-2.0
"""Tracing: ordinary Python arithmetic on `Traced` values writes an expression down."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import copysign
from numbers import Real
from typing import Any, NoReturn

from mx_core.errors import ArgumentError
from mx_core.expression.ir import UNUSED, Expression, Instruction
from mx_core.expression.opcodes import COMMUTATIVE, Opcode

Number = float | int | bool
# ("x", i) input, ("s", i) scalar, ("c", value) constant, ("t", i) instruction; ("z", -0.0) is the constant
# that a "c" could not tell from 0.0
_Ref = tuple[str, float]
_CONSTANTS = ("c", "z")
#: NumPy's name of an operator whose left operand is one of its numbers -> ours, with the right operand first
_REFLECTED = {
    "add": "__radd__", "subtract": "__rsub__", "multiply": "__rmul__", "divide": "__rtruediv__",
    "true_divide": "__rtruediv__", "remainder": "__rmod__", "power": "__rpow__", "equal": "__eq__",
    "not_equal": "__ne__", "less": "__gt__", "less_equal": "__ge__", "greater": "__lt__", "greater_equal": "__le__",
}  # fmt: skip


class Builder:
    """Collects instructions, each distinct one once."""

    def __init__(self, n_inputs: int, n_scalars: int) -> None:
        self.n_inputs = n_inputs
        self.n_scalars = n_scalars
        self._steps: list[tuple[Opcode, int, tuple[_Ref, ...]]] = []
        self._known: dict[tuple[Opcode, int, tuple[_Ref, ...]], _Ref] = {}

    def input(self, i: int) -> Traced:
        """The i-th array."""
        return Traced(self, ("x", i))

    def scalar(self, i: int) -> Traced:
        """The i-th run-time scalar."""
        return Traced(self, ("s", i))

    def constant(self, value: Number) -> Traced:
        """A number fixed when the expression is made."""
        value = float(value)
        return Traced(self, ("z" if value == 0 and copysign(1, value) < 0 else "c", value))

    def emit(self, opcode: Opcode, *operands: Operand, argument: int = 0) -> Traced:
        """Appends an instruction, or finds the equal one that exists."""
        refs = tuple(self._lift(operand).ref for operand in operands)
        if opcode in COMMUTATIVE:
            refs = tuple(sorted(refs))
        key = (opcode, argument, refs)
        if key not in self._known:
            self._known[key] = ("t", len(self._steps))
            self._steps.append(key)
        return Traced(self, self._known[key])

    def _lift(self, operand: Operand) -> Traced:
        if isinstance(operand, Traced):
            if operand.builder is not self:
                raise ArgumentError("[expression] values of two different traces are mixed")
            return operand
        if isinstance(operand, (int, float)):
            return self.constant(operand)
        if isinstance(operand, Real):  # NumPy's numbers
            return self.constant(float(operand))
        raise ArgumentError(
            f"[expression] cannot use a {type(operand).__name__} in an elementwise function; "
            "expected a traced value or a number"
        )

    def finish(self, outputs: Sequence[Operand]) -> Expression:
        """The expression that computes `outputs`, dead instructions left out."""
        refs = [self._lift(output).ref for output in outputs]
        live = self._live(refs)
        constants: dict[_Ref, int] = {}
        for ref in [r for i in live for r in self._steps[i][2]] + refs:
            if ref[0] in _CONSTANTS:
                constants.setdefault(ref, len(constants))
        first_constant = self.n_inputs + self.n_scalars
        first_step = first_constant + len(constants)
        position = {step: first_step + i for i, step in enumerate(live)}

        def number(ref: _Ref) -> int:
            kind, value = ref
            if kind in _CONSTANTS:
                return first_constant + constants[ref]
            index = int(value)
            return position[index] if kind == "t" else index + (self.n_inputs if kind == "s" else 0)

        steps = []
        for i in live:
            opcode, argument, operands = self._steps[i]
            numbers = [number(ref) for ref in operands] + [UNUSED] * (3 - len(operands))
            steps.append(Instruction(opcode, argument, *numbers))
        return Expression(
            self.n_inputs, self.n_scalars, tuple(value for _, value in constants), tuple(steps),
            tuple(number(ref) for ref in refs),
        )  # fmt: skip

    def _live(self, refs: Sequence[_Ref]) -> list[int]:
        live: set[int] = set()
        stack = [int(value) for kind, value in refs if kind == "t"]
        while stack:
            step = stack.pop()
            if step not in live:
                live.add(step)
                stack += [int(value) for kind, value in self._steps[step][2] if kind == "t"]
        return sorted(live)


class Traced:
    """A value inside a trace; arithmetic on it is recorded, not computed."""

    __slots__ = ("builder", "ref")
    __hash__ = None  # type: ignore[assignment]  # Python's way to say that there is none

    def __init__(self, builder: Builder, ref: _Ref) -> None:
        self.builder = builder
        self.ref = ref

    @property
    def constant(self) -> float | None:
        """The number, when the value is one."""
        return self.ref[1] if self.ref[0] in _CONSTANTS else None

    def __add__(self, other: Operand) -> Traced:
        return self.builder.emit(Opcode.ADD, self, other)

    def __radd__(self, other: Operand) -> Traced:
        return self.builder.emit(Opcode.ADD, other, self)

    def __sub__(self, other: Operand) -> Traced:
        return self.builder.emit(Opcode.SUB, self, other)

    def __rsub__(self, other: Operand) -> Traced:
        return self.builder.emit(Opcode.SUB, other, self)

    def __mul__(self, other: Operand) -> Traced:
        return self.builder.emit(Opcode.MUL, self, other)

    def __rmul__(self, other: Operand) -> Traced:
        return self.builder.emit(Opcode.MUL, other, self)

    def __truediv__(self, other: Operand) -> Traced:
        return self.builder.emit(Opcode.DIV, self, other)

    def __rtruediv__(self, other: Operand) -> Traced:
        return self.builder.emit(Opcode.DIV, other, self)

    def __mod__(self, other: Operand) -> Traced:
        return self.builder.emit(Opcode.MOD, self, other)

    def __rmod__(self, other: Operand) -> Traced:
        return self.builder.emit(Opcode.MOD, other, self)

    def __pow__(self, other: Operand) -> Traced:
        if not isinstance(other, Traced) and other == 2:
            return self.builder.emit(Opcode.SQUARE, self)
        return self.builder.emit(Opcode.POW, self, other)

    def __rpow__(self, other: Operand) -> Traced:
        return self.builder.emit(Opcode.POW, other, self)

    def __neg__(self) -> Traced:
        return self.builder.emit(Opcode.NEG, self)

    def __pos__(self) -> Traced:
        return self

    def __abs__(self) -> Traced:
        return self.builder.emit(Opcode.ABS, self)

    def __eq__(self, other: Operand) -> Traced:  # type: ignore[override]  # elementwise, no bool
        return self.builder.emit(Opcode.EQ, self, other)

    def __ne__(self, other: Operand) -> Traced:  # type: ignore[override]  # elementwise, no bool
        return self.builder.emit(Opcode.NE, self, other)

    def __lt__(self, other: Operand) -> Traced:
        return self.builder.emit(Opcode.LT, self, other)

    def __le__(self, other: Operand) -> Traced:
        return self.builder.emit(Opcode.LE, self, other)

    def __gt__(self, other: Operand) -> Traced:
        return self.builder.emit(Opcode.GT, self, other)

    def __ge__(self, other: Operand) -> Traced:
        return self.builder.emit(Opcode.GE, self, other)

    def __bool__(self) -> NoReturn:
        raise ArgumentError(
            "[expression] the truth of a traced value is not known when the expression is made: "
            "write where(condition, a, b) instead of if, and, or, not, min or max"
        )

    def __float__(self) -> NoReturn:
        raise ArgumentError(
            "[expression] a traced value has no number yet: use the functions of "
            "mx_core.expression instead of math or numpy"
        )

    __int__ = __index__ = __float__

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Traced:
        reflected = _REFLECTED.get(ufunc.__name__)
        left = inputs[0]
        if reflected and method == "__call__" and not options and not isinstance(left, Traced):
            number = left.item() if getattr(left, "ndim", None) == 0 else left
            made: Traced = getattr(self, reflected)(number)
            return made
        raise _refusal(ufunc.__name__)

    def __array_function__(self, function: Any, *_: Any) -> NoReturn:
        raise _refusal(function.__name__)

    def __array__(self, *_: Any, **options: Any) -> NoReturn:
        raise _refusal("array")

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"[expression] a traced value stands for one element and has no {name!r}: "
            "derive from Operator where an operator needs more than elements"
        )


def _refusal(name: str) -> ArgumentError:
    has_function = name.upper() in Opcode.__members__ and name not in _REFLECTED
    cure = (
        f"mx_core.expression.{name}"
        if has_function
        else "Python's operators and the functions of mx_core.expression"
    )
    return ArgumentError(
        f"[expression] numpy.{name} got a traced value, which has no number yet: use {cure} instead"
    )


Operand = Traced | float | int | bool


def trace(
    function: Callable[..., Operand | Sequence[Operand]], n_inputs: int, n_scalars: int = 0
) -> Expression:
    """The expression that `function(*inputs, *scalars)` writes down.

    Examples
    --------
    >>> print(trace(lambda x, s: s * x * x + 1, 1, 1))
    t0 = mul(x0, s0)
    t1 = mul(x0, t0)
    t2 = add(1, t1)
    return t2
    """
    builder = Builder(n_inputs, n_scalars)
    arguments = [builder.input(i) for i in range(n_inputs)]
    arguments += [builder.scalar(i) for i in range(n_scalars)]
    result = function(*arguments)
    return builder.finish(result if isinstance(result, Sequence) else [result])
