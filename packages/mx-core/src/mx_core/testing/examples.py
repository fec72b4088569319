# SPDX-License-Identifier: Apache-2.0
"""Made-up applications of an operator about which nothing but its declaration is known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from mx_core import operators
from mx_core.errors import ArgumentError, IndexOutOfBoundsError, MXNetError, OperatorError
from mx_core.operator.declaration import Operator
from mx_core.operator.gradient import gradient_of
from mx_core.testing import progress
from mx_core.testing.case import Case, Input, UnknownOutput, make_case
from mx_core.testing.operator import entry_values

#: shapes that the first input is tried with
SHAPES: tuple[tuple[int, ...], ...] = ((4, 6), (2, 3, 5), (2, 3, 5, 5), (5,), (2, 3, 4, 4, 4))
#: intervals on which functions are tried: both signs, then where those with a domain tend to be defined
DOMAINS = ((-3.0, 3.0), (0.2, 0.8), (1.2, 1.8), (-0.8, -0.2))
_REQUIRED: dict[str, tuple[Any, ...]] = {
    "tuple": ((2,), (2, 2), (1,)), "bool": (False,), "float": (0.5,), "int": (2, 1),
}  # fmt: skip


@dataclass(frozen=True)
class Found:
    """An application whose reference runs and gives finite values.

    Attributes
    ----------
    params : the parameters that were given
    alike : all inputs were given the shape of the first; else inference sets those of the others
    domain : the interval of the values
    """

    case: Case
    params: dict[str, Any]
    alike: bool
    domain: tuple[float, float]


@dataclass
class Search:
    """The result of looking for an example.

    Attributes
    ----------
    found : the application; that of a backward operator has a case only
    case : its case
    refusal : the last MXNetError of inference, or ArgumentError or IndexOutOfBoundsError of the
        reference, which refuses values
    fault : the last other exception of the reference, on what inference had accepted
    crash : the last other exception of inference, which should refuse with an MXNetError
    runs : the reference ran, if only to give values that are not finite
    wrong : what the declaration does wrong by itself, for any inputs
    unset : the last time that inference accepted inputs of known shapes and left that of an output unknown
    """

    found: Found | None = None
    case: Case | None = None
    refusal: Exception | None = None
    fault: Exception | None = None
    crash: BaseException | None = None
    runs: bool = False
    wrong: OperatorError | None = None
    unset: UnknownOutput | None = None

    @property
    def failure(self) -> BaseException | None:
        """What the declaration raises whenever it is applied; None where it runs or refuses cleanly."""
        if self.wrong is not None:
            return self.wrong
        if self.runs:
            return None
        return self.fault or self.unset or (self.crash if self.refusal is None else None)

    def refused(self, error: Exception) -> None:
        """Notes an exception of inference; its cause, where mx_core wrapped it in an MXNetError."""
        if isinstance(error, OperatorError):
            self.wrong = error
            return
        if isinstance(error, UnknownOutput):
            self.unset = error
            return
        cause = error.__cause__ if isinstance(error, MXNetError) else error
        if cause is None or isinstance(cause, (MXNetError, AssertionError)):
            self.refusal = error
        else:
            self.crash = cause


def example(op: Operator[Any]) -> Case | None:
    """An application whose reference runs and gives finite values; None when none was found."""
    return search(op).case


def search(op: Operator[Any]) -> Search:
    """Looks for an example; that of a backward operator is taken from the gradient of its forward operator's."""
    found = Search()
    if op.backward_of is not None:
        forward = example(op.backward_of)
        found.case = None if forward is None else backward_case(op, forward)
        return found
    for params in _params(op):
        for inputs, alike in _inputs(op, params, found):
            for domain in DOMAINS:
                try_example(found, op, params, inputs, alike, domain)
                if found.case is not None:
                    return found
    return found


def try_example(
    found: Search,
    op: Operator[Any],
    params: dict[str, Any],
    inputs: list[Input],
    alike: bool,
    domain: tuple[float, float],
) -> bool:
    """Tries one application and notes in `found` what comes of it; whether inference accepts it."""
    try:
        case = make_case(op, params, inputs, low=domain[0], high=domain[1])
    except Exception as error:  # an AssertionError is a shape that must be said
        found.refused(error)
        return False
    progress.announce(case.describe, "the reference")
    try:
        results = case.reference()
    except OperatorError as error:
        found.wrong = error
        return True
    except (ArgumentError, IndexOutOfBoundsError) as error:
        found.refusal = error
        return True
    except Exception as error:
        found.fault = error
        return True
    found.runs = True
    if all(np.isfinite(x).all() for x in results):
        found.case = case
        found.found = Found(case, params, alike, domain)
    return True


def _params(op: Operator[Any]) -> Iterator[dict[str, Any]]:
    required = [info for info in op.Param.fields() if info.required]
    if not required:
        yield {}
        return
    choices = [_values(info) for info in required]
    for number in range(max(map(len, choices), default=0)):
        if all(choices):
            yield {
                info.name: values[min(number, len(values) - 1)]
                for info, values in zip(required, choices, strict=True)
            }


def _values(info: Any) -> tuple[Any, ...]:
    if info.choices:
        return tuple(info.choices)
    text = getattr(info.annotation, "__name__", "") + str(info.annotation)
    return next((values for kind, values in _REQUIRED.items() if kind in text.lower()), ())


def _inputs(op: Operator[Any], params: dict[str, Any], found: Search) -> Iterator[tuple[list[Input], bool]]:
    try:
        p = op.Param.parse(params, op=op.name)
        count = len(op.inputs(p)) + len(op.aux(p))
    except Exception as error:  # parameters that contradict each other
        found.refused(error)
        return
    for shape in SHAPES:
        yield ([shape, *[None] * (count - 1)] if count else []), False
        yield [shape] * count, True


def backward_case(op: Operator[Any], case: Case) -> Case | None:
    """The application of a backward operator in the gradient of a case of its forward operator."""
    try:
        results = case.reference()
        heads = [np.ones(x.shape) * 0.7 for x in results[: len(case.outputs)]]
        gradient = gradient_of(case.op, case.params)
        for node, values in entry_values(case, gradient, results, heads):
            if operators.get(node.op) is op:
                return make_case(op, node.params.attrs_all(), values)
    except Exception:  # what is wrong with the gradient, the forward operator's check says
        return None
    return None
