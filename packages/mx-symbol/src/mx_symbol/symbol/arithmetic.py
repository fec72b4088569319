# SPDX-License-Identifier: Apache-2.0
"""Operators of Python on symbols, and the two-sided functions `maximum`, `power`, …"""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from mx_core.errors import MXNetError

if TYPE_CHECKING:
    from mx_symbol.symbol import Symbol


class NotImplementedForSymbol(MXNetError, NotImplementedError):
    """A function of arrays was called for a symbol.

    Parameters
    ----------
    function : callable or str
    alias : str, optional
        The operator that stands for it, such as `"+"`.
    *args
        What it was called with.
    """

    where = "Symbol"

    def __init__(self, function: Callable[..., Any] | str, alias: str | None = None, *args: Any) -> None:
        super().__init__()
        self.function = (
            function if isinstance(function, str) else getattr(function, "__name__", str(function))
        )
        self.alias = alias
        self.args_types = [type(each).__name__ for each in args]

    def __str__(self) -> str:
        operator = f" (operator {self.alias!r})" if self.alias else ""
        given = f" of {', '.join(self.args_types)}" if self.args_types else ""
        return f"[{self.function}]{operator}{given}: is not implemented for {self.where}; only for NDArray"

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.function, self.alias, self.args_types)


def _restored(
    kind: type[NotImplementedForSymbol], function: str, alias: str | None, args_types: list[str]
) -> NotImplementedForSymbol:
    made = kind(function, alias)
    made.args_types = args_types
    return made


def _is_symbol(value: Any) -> bool:
    from mx_symbol.symbol import Symbol

    return isinstance(value, Symbol)


def binary(lhs: Any, rhs: Any, both: str, right: str, left: str) -> Symbol:
    """Applies `both` to two symbols, `right` to a symbol and a number, `left` to number and symbol."""
    from mx_symbol.symbol.functions import call

    if _is_symbol(lhs) and _is_symbol(rhs):
        return call(both, lhs, rhs)
    if _is_symbol(lhs) and isinstance(rhs, numbers.Number):
        return call(right, lhs, scalar=rhs)
    if _is_symbol(rhs) and isinstance(lhs, numbers.Number):
        return call(left, rhs, scalar=lhs)
    raise TypeError(
        f"{both.strip('_')}: expected symbols or numbers, got {type(lhs).__name__} and {type(rhs).__name__}"
    )


class Arithmetic:
    """Python's operators; each makes a node. Threads: any; a symbol is only read."""

    __slots__ = ()
    __array_priority__ = 1000.0

    def __add__(self, other: Any) -> Symbol:
        return binary(self, other, "_Plus", "_PlusScalar", "_PlusScalar")

    __radd__ = __add__

    def __sub__(self, other: Any) -> Symbol:
        return binary(self, other, "_Minus", "_MinusScalar", "_RMinusScalar")

    def __rsub__(self, other: Any) -> Symbol:
        return binary(other, self, "_Minus", "_MinusScalar", "_RMinusScalar")

    def __mul__(self, other: Any) -> Symbol:
        return binary(self, other, "_Mul", "_MulScalar", "_MulScalar")

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Symbol:
        return binary(self, other, "_Div", "_DivScalar", "_RDivScalar")

    def __rtruediv__(self, other: Any) -> Symbol:
        return binary(other, self, "_Div", "_DivScalar", "_RDivScalar")

    def __mod__(self, other: Any) -> Symbol:
        return binary(self, other, "_Mod", "_ModScalar", "_RModScalar")

    def __rmod__(self, other: Any) -> Symbol:
        return binary(other, self, "_Mod", "_ModScalar", "_RModScalar")

    def __pow__(self, other: Any) -> Symbol:
        return binary(self, other, "_Power", "_PowerScalar", "_RPowerScalar")

    def __rpow__(self, other: Any) -> Symbol:
        return binary(other, self, "_Power", "_PowerScalar", "_rpower_scalar")

    def __neg__(self) -> Symbol:
        return self * -1.0

    def __abs__(self) -> Symbol:
        from mx_symbol.symbol.functions import call

        return call("abs", self)

    def __eq__(self, other: object) -> Symbol:  # type: ignore[override]  # elementwise, no bool
        return binary(self, other, "_equal", "_equal_scalar", "_equal_scalar")

    def __ne__(self, other: object) -> Symbol:  # type: ignore[override]  # elementwise, no bool
        return binary(self, other, "_not_equal", "_not_equal_scalar", "_not_equal_scalar")

    def __gt__(self, other: Any) -> Symbol:
        return binary(self, other, "_greater", "_greater_scalar", "_lesser_scalar")

    def __ge__(self, other: Any) -> Symbol:
        return binary(self, other, "_greater_equal", "_greater_equal_scalar", "_lesser_equal_scalar")

    def __lt__(self, other: Any) -> Symbol:
        return binary(self, other, "_lesser", "_lesser_scalar", "_greater_scalar")

    def __le__(self, other: Any) -> Symbol:
        return binary(self, other, "_lesser_equal", "_lesser_equal_scalar", "_greater_equal_scalar")

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        return _only_arrays("__bool__")

    def __iadd__(self, other: Any) -> NoReturn:
        _only_arrays("__iadd__")

    def __isub__(self, other: Any) -> NoReturn:
        _only_arrays("__isub__")

    def __imul__(self, other: Any) -> NoReturn:
        _only_arrays("__imul__")

    def __itruediv__(self, other: Any) -> NoReturn:
        _only_arrays("__itruediv__")

    def wait_to_read(self) -> NoReturn:
        """Not implemented: only arrays can be waited for."""
        _only_arrays("wait_to_read")

    def asnumpy(self) -> NoReturn:
        """Only arrays have values; see `eval`."""
        _only_arrays("asnumpy")

    def asscalar(self) -> NoReturn:
        """Only arrays have values; see `eval`."""
        _only_arrays("asscalar")

    def copy(self) -> NoReturn:
        """Only arrays are copied; `copy.copy(symbol)` copies a symbol."""
        _only_arrays("copy")

    def as_in_context(self, context: Any = None) -> NoReturn:
        """Only arrays lie on a device."""
        _only_arrays("as_in_context")

    def detach(self) -> NoReturn:
        """Only arrays are recorded; `BlockGrad` stops a gradient in a graph."""
        _only_arrays("detach")

    def backward(self) -> NoReturn:
        """Only arrays are recorded; see `Executor.backward`."""
        _only_arrays("backward")


def _only_arrays(name: str) -> NoReturn:
    raise NotImplementedForSymbol(name)


def maximum(left: Any, right: Any) -> Any:
    """The larger, element by element; of two numbers Python's own result."""
    return _two_sided(left, right, "_Maximum", "_MaximumScalar", "_MaximumScalar", max)


def minimum(left: Any, right: Any) -> Any:
    """The smaller, element by element."""
    return _two_sided(left, right, "_Minimum", "_MinimumScalar", "_MinimumScalar", min)


def hypot(left: Any, right: Any) -> Any:
    """sqrt(left² + right²)."""
    import math

    return _two_sided(left, right, "_hypot", "_HypotScalar", "_HypotScalar", math.hypot)


def power(base: Any, exp: Any) -> Any:
    """base to the power exp."""
    return _two_sided(base, exp, "_Power", "_PowerScalar", "_RPowerScalar", pow)


def _two_sided(left: Any, right: Any, both: str, scalar: str, reverse: str, plain: Any) -> Any:
    if isinstance(left, numbers.Number) and isinstance(right, numbers.Number):
        return plain(left, right)
    return binary(left, right, both, scalar, reverse)
