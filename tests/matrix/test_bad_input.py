# SPDX-License-Identifier: Apache-2.0
"""Wrong parameters, ranks, types and indices of every operator: an error that says what and where, or a result."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import MISSING
from typing import Any

import numpy as np
import pytest

import mx
from mx_core import dtypes, operators
from mx_core.errors import ArgumentError, DTypeError, MXNetError, ShapeError
from mx_core.operator import FieldInfo, Operator, infer_shapes, infer_types, refusal
from mx_core.testing.case import Case
from mx_ndarray.operator_functions import function
from testkit import applications

EVERY = applications.all_operators()


def wrong_values(info: FieldInfo) -> Iterator[Any]:
    """Values that a parameter must refuse."""
    whole = (int, tuple[int, ...], int | None)
    if info.choices:
        yield "none of these"
    elif info.annotation in (*whole, float, bool):
        yield "many"
        yield object()
    if info.annotation in whole:
        yield 1.5
    for bound, further in ((info.lower, -1), (info.upper, 1)):
        if bound is not None:
            yield type(bound)(bound + further)


def given(op: Operator) -> dict[str, Any]:
    """Something for each required parameter."""
    made = (applications.make(op, number, "float32") for number in range(9))
    return next((dict(case.params.attrs()) for case in made if case is not None), {})


@pytest.mark.parametrize("name", [name for name in EVERY if "Custom" not in name and name != refusal.NAME])
def test_parameters(name: str) -> None:
    op = operators.get(name)
    valid = given(op)
    for info in op.Param.fields():
        for value in wrong_values(info):
            with pytest.raises(ArgumentError) as caught:
                op.Param.parse(valid | {info.name: value}, op=name)
            said = str(caught.value)
            assert said.startswith(f"[{name}] {info.name}: expected ") and "got " in said, said
            assert str(value) in said.partition("got ")[2], said
        if info.default is MISSING and info.name != op.variadic:
            with pytest.raises(ArgumentError, match=rf"^\[{name}\] required parameter"):
                op.Param.parse({}, op=name)
    with pytest.raises(ArgumentError, match=rf"^\[{name}\] cannot find argument 'colour', possible"):
        op.Param.parse(valid | {"colour": 1}, op=name)


@contextlib.contextmanager
def refusing(op: Operator, kind: type[MXNetError], *words: str) -> Iterator[None]:
    """Nothing happens, or an error of a kind that names the operator and has all the words."""
    try:
        yield
    except kind as error:
        said = str(error)
        named = op if op.backward_of is None else op.backward_of
        assert said.startswith((f"[{op.name}]", f"[{named.name}]")), said
        assert all(word in said for word in words), said


def shapes_beside(shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Other ranks and extents."""
    yield (*shape, 2)
    yield (2, *shape)
    if shape:
        yield shape[1:]
        yield (shape[0] + 1, *shape[1:])
        yield (*shape[:-1], shape[-1] + 7)


def written(shape: tuple[int, ...]) -> str:
    return str(shape).replace(" ", "").rstrip(")").rstrip(",").lstrip("(")


def check_shapes(case: Case) -> None:
    shapes = [x.shape for x in case.inputs]
    for i, shape in enumerate(shapes):
        for other in shapes_beside(shape):
            changed = [*shapes[:i], other, *shapes[i + 1 :]]
            try:
                infer_shapes(case.op, case.params, changed)
            except (ShapeError, ArgumentError) as error:
                said = str(error)
                assert said.startswith(f"[{case.op.name}]"), said
                numbers = said.replace(" ", "")
                assert any(written(s) in numbers for s in changed) or any(c.isdigit() for c in said), said


def check_types(case: Case) -> None:
    codes = [dtypes.code(x.dtype) for x in case.inputs]
    for i, code in enumerate(codes):
        for other in map(dtypes.code, ("float64", "int8", "bool")):
            if other != code:
                with refusing(case.op, DTypeError, dtypes.name(other)):
                    infer_types(case.op, case.params, [*codes[:i], other, *codes[i + 1 :]])


def check_contents(case: Case) -> None:
    """Indices far outside, negative ones and NaN in one input after the other."""
    names = applications.named_inputs(case)
    if names is None:
        return
    for i, x in enumerate(case.inputs):
        values = (1e6, -1e6, np.nan) if x.dtype.kind == "f" else (100, -100)
        for value in values if x.dtype.kind in "fi" else ():
            arrays = [y if j != i else np.full_like(y, value) for j, y in enumerate(case.inputs)]
            nds = [mx.nd.array(y, dtype=y.dtype) for y in arrays]
            with refusing(case.op, MXNetError):
                result = function(case.op.name)(**dict(zip(names, nds, strict=True)), **case.params.attrs())
                for y in result if isinstance(result, list) else [result]:
                    if y is not None:
                        y.asnumpy()


@pytest.mark.parametrize("name", EVERY)
def test_inputs(name: str) -> None:
    case = applications.make(operators.get(name), applications.SEED, "float32", most=64)
    if case is not None:
        check_shapes(case)
        check_types(case)


@pytest.mark.long
@pytest.mark.parametrize("seed", [applications.SEED])
def test_contents(seed: int) -> None:
    """Of one application of each operator."""
    with np.errstate(all="ignore"):
        for name in EVERY:
            case = applications.make(operators.get(name), seed, "float32", most=64)
            if case is not None:
                check_contents(case)
