# SPDX-License-Identifier: Apache-2.0
"""Applications of an operator like one that was found: odd, long, empty and other shapes, and other parameters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any

from mx_core.operator.declaration import Operator
from mx_core.operator.params import FieldInfo
from mx_core.operator.text import alternatives
from mx_core.testing.case import Case, Input
from mx_core.testing.examples import DOMAINS, SHAPES, Found, Search, backward_case, search, try_example

#: most other parameters and most other ranks that are tried
PARAMETERS, RANKS = 12, 2
#: most values that one parameter is given until inference accepts one
ATTEMPTS = 3


@dataclass(frozen=True)
class Variant:
    """One application.

    Attributes
    ----------
    case : with results that are finite; None where the declaration fails
    failure : what the declaration raises where it should compute or refuse
    what : parameters and shapes, for messages
    """

    case: Case | None
    failure: BaseException | None
    what: str


@lru_cache(maxsize=64)
def variants(op: Operator[Any]) -> tuple[Variant, ...]:
    """Those that inference accepts; of a backward operator, those of the gradients of its forward operator's."""
    if op.backward_of is not None:
        made = [backward_case(op, variant.case) for variant in variants(op.backward_of) if variant.case]
        return tuple(Variant(case, None, case.describe()) for case in made if case is not None)
    found = search(op).found
    return () if found is None else tuple(_Variants(op, found).all())


class _Variants:
    def __init__(self, op: Operator[Any], found: Found) -> None:
        self._op, self._found = op, found
        self._shape = found.case.inputs[0].shape if found.case.inputs else None
        self._seen = {found.case.describe()}

    def all(self) -> Iterator[Variant]:
        given = self._shape
        for shape in () if given is None else _like(given):
            variant = self._variant({}, shape)
            if variant is not None:
                yield variant
                if shape == _odd(shape):
                    given = shape  # other parameters are tried with an odd axis
        yield from islice(self._other_ranks(), RANKS)
        yield from islice(self._other_parameters(given), PARAMETERS)

    def _other_ranks(self) -> Iterator[Variant]:
        for shape in SHAPES if self._shape is not None else ():
            if len(shape) != len(self._shape or ()):
                variant = self._variant({}, shape)
                if variant is not None:
                    yield variant

    def _other_parameters(self, shape: tuple[int, ...] | None) -> Iterator[Variant]:
        for values in self._parameters():
            variants = (self._variant(value, shape) for value in values)
            yield from islice((variant for variant in variants if variant is not None), 1)

    def _parameters(self) -> Iterator[list[dict[str, Any]]]:
        """For each parameter values that differ from the found one; of all optional real numbers together first."""
        given = self._found.params
        fields = self._op.Param.fields()
        floats = [f for f in fields if not f.choices and isinstance(given.get(f.name, f.default), float)]
        if floats:
            yield [{f.name: _within(f, 0.75 + 0.125 * i) for i, f in enumerate(floats)}]
        for info in fields:
            if info not in floats:
                values = _others(info, given.get(info.name, info.default))
                yield [{info.name: value} for value in values[:ATTEMPTS]]

    def _variant(self, changed: dict[str, Any], shape: tuple[int, ...] | None) -> Variant | None:
        """None where inference refuses it, or where it is one that was tried already."""
        found = self._found
        params = found.params | changed
        try:
            p = self._op.Param.parse(params, op=self._op.name)
            count = len(self._op.inputs(p)) + len(self._op.aux(p))
        except Exception:  # parameters that contradict each other
            return None
        first: list[Input] = [] if shape is None or not count else [shape]
        inputs = first * count if found.alike else first + [None] * (count - len(first))
        tried = Search()
        for domain in dict.fromkeys((found.domain, *DOMAINS)):
            inferred = try_example(tried, self._op, params, inputs, found.alike, domain)
            if tried.found is not None or not inferred:
                break
        if tried.found is None:
            if tried.failure is None or _is_allowed(tried, inputs):
                return None
            return Variant(None, tried.failure, f"[{self._op.name}] {p} on {_told(inputs)}")
        case = tried.found.case
        if case.describe() in self._seen:
            return None
        self._seen.add(case.describe())
        return Variant(case, None, case.describe())


def _is_allowed(tried: Search, inputs: list[Input]) -> bool:
    """A shape that only the user of an operator without inputs sets; and NumPy's refusal of arrays without elements."""
    if tried.failure is tried.unset:
        return not inputs
    is_empty = any(isinstance(shape, tuple) and 0 in shape for shape in inputs)
    return tried.failure is tried.fault and is_empty and isinstance(tried.failure, (ValueError, IndexError))


def _told(inputs: list[Input]) -> str:
    return ", ".join("an inferred shape" if shape is None else str(shape) for shape in inputs)


def _odd(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (*shape[:-1], 7)


def _like(shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Of the same rank: an odd last axis, one longer than a vector of any processor, one element, none."""
    if shape:
        yield _odd(shape)
        yield (*shape[:-2], 3, 37) if len(shape) > 1 else (37,)
        yield (1,) * len(shape)
        yield (0, *shape[1:])


def _within(info: FieldInfo, value: float) -> float:
    lower = value if info.lower is None else max(value, info.lower)
    return lower if info.upper is None else min(lower, info.upper)


def _others(info: FieldInfo, value: Any) -> list[Any]:
    """Values of a parameter other than `value`; none for texts and what is not understood."""
    if info.choices:
        return [choice for choice in info.choices if choice != value]
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, value - 1, 0]
    if isinstance(value, tuple) and value and all(type(x) is int for x in value):
        return [tuple(x + 1 for x in value), tuple(x - 1 for x in value)]
    if value is None:
        kind = alternatives(info.annotation)[0]
        return [1, 0] if kind is int else [True] if kind is bool else []
    return []
