# SPDX-License-Identifier: Apache-2.0
"""Data sets, samplers and loaders: what MXNet 1.9.1's give (`tests/oracle/gluon/data.json`)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mx_gluon import data
from mx_ndarray import NDArray, nd

pytestmark = pytest.mark.timeout(60)
RECORD = json.loads((Path(__file__).parents[3] / "tests/oracle/gluon/data.json").read_text())


def kind(value: Any) -> Any:
    """A value with the types that programs see."""
    if isinstance(value, NDArray):
        return ["NDArray", np.dtype(value.dtype).name, value.asnumpy().tolist()]
    if isinstance(value, (np.ndarray, np.generic)):
        return ["numpy", value.dtype.name, value.tolist()]
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, [kind(part) for part in value]]
    return value


def listed(dataset: data.Dataset) -> list[Any]:
    """All samples of a data set."""
    return [kind(dataset[i]) for i in range(len(dataset))]


def twice(sampler: data.Sampler) -> list[Any]:
    """Two iterations, with lengths before each."""
    return [[len(sampler), [[int(i) for i in batch] for batch in sampler]] for _ in range(2)]


def batches(loader: data.DataLoader) -> list[Any]:
    """Two iterations of a loader."""
    return [[kind(batch) for batch in loader] for _ in range(2)]


NAMES = {"data": data, "nd": nd, "np": np, "kind": kind, "listed": listed, "twice": twice, "batches": batches}


def evaluated(expression: str) -> Any:
    np.random.seed(7)
    return json.loads(json.dumps(eval(expression, dict(NAMES)), default=int))


def ids() -> Sequence[str]:
    return [case["expression"][:70] for case in RECORD]


@pytest.mark.parametrize("case", RECORD, ids=ids())
def test_values(case: dict[str, Any]) -> None:
    assert evaluated(case["expression"]) == case["value"]


@pytest.mark.parametrize(
    "case",
    [
        case
        for case in RECORD
        if case["expression"].startswith("batches(") and "pool" not in case["expression"]
    ],
    ids=lambda case: case["expression"][:70],
)
def test_processes_and_threads_give_the_same(case: dict[str, Any]) -> None:
    for workers in ("num_workers=2", "num_workers=1, prefetch=3", "num_workers=2, thread_pool=True"):
        assert evaluated(case["expression"][:-2] + f", {workers}))") == case["value"]
