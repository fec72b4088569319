# SPDX-License-Identifier: Apache-2.0
"""What is known of shapes and element types while an operator's rule runs.

Inside, −1 is an unknown dimension and None an unknown rank or type; 0 is a size.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from mx_core import _native, dtypes
from mx_core.errors import DTypeError, OperatorError, ShapeError

if TYPE_CHECKING:
    from mx_core.operator.declaration import Operator
    from mx_core.operator.params import Params

PartialShape = tuple[int, ...]

#: as in mx_core/abi.h
MAX_NDIM = 32
_MAX_ELEMENTS = 2**63 - 1


def _unknown(state: Shapes | Types, name: object) -> OperatorError:
    """A rule asks for a tensor that the operator does not have."""
    known = list(state._table)
    close = difflib.get_close_matches(str(name), known, 1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return OperatorError(
        f"{state.where} {state.rule} asks for {name!r}, the tensors are {', '.join(known)}{hint}"
    )


class Shapes(_native.ShapeTable):
    """What is known of an operator's shapes while its rule runs.

    Native code does what rules do most: it is said of shapes that are complete, and is new or known. Threads: one.
    """

    __slots__ = ()

    rule = "infer_shape"

    def _unknown(self, name: object) -> NoReturn:
        """Refuses a name; native code calls it."""
        raise _unknown(self, name) from None

    def _merge(self, name: str, shape: Sequence[int]) -> None:
        """Adds knowledge about a shape that is partial, impossible or unlike what is known; native code calls it."""
        old = self._table[name]
        new = tuple(map(int, shape))
        least = min(new, default=1)
        if least < -1:
            raise ShapeError(f"{self.where} {name}: negative dimension in {new}")
        if len(new) > MAX_NDIM:
            raise ShapeError(f"{self.where} {name}: expected at most {MAX_NDIM} dimensions, got {len(new)}")
        if math.prod(new if least > 0 else [max(d, 1) for d in new]) > _MAX_ELEMENTS:
            raise ShapeError(f"{self.where} {name}: shape {new} has more than 2^63 elements")
        if old is None:
            self._table[name] = new
            self.changed = True
            return
        if old == new:
            return
        if len(old) != len(new) or any(a != b and -1 not in (a, b) for a, b in zip(old, new, strict=True)):
            raise ShapeError(f"{self.where} {name}: expected shape {new}, got {old}")
        merged = tuple(max(a, b) for a, b in zip(old, new, strict=True))
        if merged != old:
            self._table[name] = merged
            self.changed = True

    def run(self, op: Operator[Any], p: Params) -> None:
        """Lets the operator's rule add what it can tell."""
        op.infer_shape(p, self)

    def _unify(self, names: Sequence[str]) -> None:
        """States that shapes are equal that are not all unknown or complete and equal; native code calls it."""
        for _ in range(2):
            for first, second in zip(names, names[1:], strict=False):
                self.assign(second, self._table[first])
                self.assign(first, self._table[second])
            names = names[::-1]

    def error(self, message: str) -> ShapeError:
        """A ShapeError that names the operator, for the rule to raise."""
        return ShapeError(f"{self.where} {message}")


class Types:
    """What is known of an operator's element types (type codes) while its rule runs."""

    rule = "infer_type"

    def __init__(self, where: str, names: Sequence[str], values: Sequence[int | None]) -> None:
        self.where = where
        self.changed = False
        self._table: dict[str, int | None] = dict(zip(names, values, strict=True))

    def get(self, name: str) -> int | None:
        """The type code, or None."""
        try:
            return self._table[name]
        except KeyError as error:
            raise _unknown(self, error.args[0]) from None

    known = get

    def assign(self, name: str, dtype: object) -> None:
        """Adds knowledge; DTypeError when it contradicts."""
        if dtype is None:
            return
        try:
            new = dtypes.code(dtype)
        except DTypeError as error:
            raise DTypeError(f"{self.where} {name}: {error}") from None
        try:
            old = self._table[name]
        except KeyError as error:
            raise _unknown(self, error.args[0]) from None
        if old is None:
            self._table[name] = new
            self.changed = True
        elif old != new:
            raise DTypeError(
                f"{self.where} {name}: expected {dtypes.name(new)}, got {dtypes.name(old)}; "
                "convert with astype or Cast"
            )

    def run(self, op: Operator[Any], p: Params) -> None:
        """Lets the operator's rule add what it can tell."""
        op.infer_type(p, self)

    def unify(self, names: Sequence[str]) -> None:
        """States that all these types are equal."""
        try:
            known = next((self._table[n] for n in names if self._table[n] is not None), None)
        except KeyError as error:
            raise _unknown(self, error.args[0]) from None
        for name in names:
            self.assign(name, known)

    def refuse_integers(self, op: Operator[Any]) -> None:
        """DTypeError when a type is known that has no fractions, of a tensor that must have one."""
        only = self._table if op.floating_only is True else op.floating_only or ()
        for name in only:
            known = self._table.get(name)
            if known is not None and dtypes.name(known) not in dtypes.FLOATING:
                allowed = ", ".join(sorted(dtypes.FLOATING))
                raise self.error(f"{name}: expected one of {allowed}, got {dtypes.name(known)}")

    def error(self, message: str) -> DTypeError:
        """A DTypeError that names the operator, for the rule to raise."""
        return DTypeError(f"{self.where} {message}")

    def values(self, names: Sequence[str]) -> tuple[int | None, ...]:
        """Current knowledge in the order of `names`."""
        return tuple([self._table[name] for name in names])


Rule = TypeVar("Rule", bound=Callable[..., None])


def keeping_shape(rule: Rule) -> Rule:
    """Marks a rule for shapes by which inputs of one shape have outputs of that shape, whatever the parameters."""
    setattr(rule, _KEEPS, True)
    return rule


def keeps_shape(rule: Callable[..., None]) -> bool:
    """Whether it is marked so."""
    return getattr(rule, _KEEPS, False) is True


_KEEPS = "_mx_keeps_shape"

#: one of the two, the same throughout a call
State = TypeVar("State", Shapes, Types)
