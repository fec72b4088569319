# SPDX-License-Identifier: Apache-2.0
"""Operators of every kind give the same bits with every engine and number of workers."""

from __future__ import annotations

import json
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mx_core import operators
from testkit import applications, digests, fresh

pytestmark = pytest.mark.long

#: of the first input, about: enough for several threads in most kernels
ELEMENTS = 1 << 15


def kind(name: str) -> str:
    """Where an operator's kernel is declared, or the operator itself."""
    op = operators.get(name)
    return type(op.backward_of or op).__module__


def one_of_each_kind() -> list[str]:
    """Names: of each module of declarations one operator and one backward operator; others for another seed."""
    chosen: dict[tuple[str, bool], list[str]] = {}
    for name in applications.all_operators():
        chosen.setdefault((kind(name), operators.get(name).backward_of is None), []).append(name)
    return [names[applications.SEED % len(names)] for names in chosen.values()]


def call(name: str, dtype: str) -> Any:
    """What `testkit.digests` takes; None where there is no application."""
    op = operators.get(name)
    case = applications.make(op, applications.SEED, dtype, most=ELEMENTS)
    if case is None:
        return None
    params = case.params.attrs()
    if op.variadic is not None:
        params.pop(op.variadic)
        return name, case.inputs, params, case.is_train
    names = applications.named_inputs(case)
    return (
        None if names is None else (name, dict(zip(names, case.inputs, strict=True)), params, case.is_train)
    )


def found(path: Path, settings: dict[str, str]) -> list[str]:
    """The digests of the calls in a file."""
    done = fresh.python(digests.__file__, path, timeout=250, **settings)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("dtype", ["float32", pytest.param("bfloat16", marks=pytest.mark.slow)])
@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["some", "every"])
def test_the_bits_are_the_same(dtype: str, every: bool, tmp_path: Path) -> None:
    names = applications.all_operators() if every else one_of_each_kind()
    with np.errstate(all="ignore"):
        calls = [made for name in names if (made := call(name, dtype)) is not None]
    assert len(calls) >= 60
    path = tmp_path / "calls"
    path.write_bytes(pickle.dumps(calls))
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda settings: found(path, settings), fresh.ENGINES))
    differing = {
        calls[i][0]: [bits[i] for bits in results]
        for i in range(len(calls))
        if len({b[i] for b in results}) > 1
    }
    assert not differing
