# SPDX-License-Identifier: Apache-2.0
"""Expressions out of functions written for NumPy arrays: a reference becomes a kernel as it stands.

A function may decide by a run-time value (`x if limit < 0 else np.clip(x, -limit, limit)`). It is then
run once for each answer, and the expression chooses between the results.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mx_core import expression as X
from mx_core.expression import Expression
from mx_core.expression.trace import Traced

_UFUNCS: dict[np.ufunc, Callable[..., Any]] = {
    np.sqrt: X.sqrt, np.exp: X.exp, np.log: X.log, np.sign: X.sign, np.absolute: abs, np.square: X.square,
    np.maximum: X.maximum, np.minimum: X.minimum, np.add: operator.add, np.subtract: operator.sub,
    np.multiply: operator.mul, np.divide: operator.truediv, np.power: X.power, np.negative: operator.neg,
    np.greater: operator.gt, np.greater_equal: operator.ge, np.less: operator.lt, np.less_equal: operator.le,
}  # fmt: skip
#: functions that are asked again with other answers at most
_DECISIONS = 8


def trace_numpy(function: Callable[..., Sequence[Any]], n_inputs: int, n_scalars: int) -> Expression:
    """The expression of `function(*inputs, *scalars)`, which returns its results in a sequence.

    Raises
    ------
    TypeError  it uses something of NumPy that no expression has, or decides too often
    """

    def explore(arguments: Sequence[Traced], answers: tuple[bool, ...]) -> list[Any]:
        run = _Run(answers)
        results = [_plain(r) for r in function(*(Value(run, a) for a in arguments))]
        if len(run.asked) <= len(answers):
            return results
        if len(answers) == _DECISIONS:
            raise TypeError(f"[expression] more than {_DECISIONS} decisions by run-time values")
        yes, no = (explore(arguments, (*answers, answer)) for answer in (True, False))
        return [_either(run.asked[len(answers)], a, b) for a, b in zip(yes, no, strict=True)]

    return X.trace(lambda *arguments: explore(arguments, ()), n_inputs, n_scalars)


class _Run:
    """One run: the answers it was given, and the conditions it asked about."""

    def __init__(self, answers: tuple[bool, ...]) -> None:
        self.answers = answers
        self.asked: list[Traced] = []

    def decide(self, condition: Traced) -> bool:
        self.asked.append(condition)
        position = len(self.asked) - 1
        return self.answers[position] if position < len(self.answers) else True


class Value(np.lib.mixins.NDArrayOperatorsMixin):
    """A traced value that NumPy's functions take for an array."""

    def __init__(self, run: _Run, traced: Traced) -> None:
        self._run, self._traced = run, traced

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        made = _UFUNCS.get(ufunc)
        if made is None or method != "__call__" or options:
            raise TypeError(f"[expression] np.{ufunc.__name__} has no expression")
        return Value(self._run, made(*map(_plain, inputs)))

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        values = [_plain(a) for a in args]
        if function is np.where and len(values) == 3 and not kwargs:
            return Value(self._run, X.where(*values))
        if function is np.clip and len(values) == 3 and not kwargs:
            x, low, high = values
            return Value(self._run, X.minimum(X.maximum(x, low), high))
        raise TypeError(f"[expression] np.{function.__name__} has no expression")

    def __bool__(self) -> bool:
        return self._run.decide(self._traced)


def _either(condition: Traced, a: Any, b: Any) -> Any:
    if isinstance(a, Traced) and isinstance(b, Traced) and a.ref == b.ref:
        return a
    return X.where(condition, a, b)


def _plain(value: Any) -> Any:
    return value._traced if isinstance(value, Value) else value
