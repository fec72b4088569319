# SPDX-License-Identifier: Apache-2.0
"""Data sets, samplers, loaders and transforms: what MXNet 1.9.1's give (`tests/oracle/gluon/data.json`)."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mx_gluon import data
from mx_gluon.data.vision import transforms
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


def image(height: int, width: int) -> Any:
    """Bytes that look different everywhere."""
    places = np.arange(height * width * 3).reshape(height, width, 3)
    return ((places * 37 + places**2 // 5) % 256).astype("uint8")


PICTURES = {
    "small": nd.array(image(6, 7), dtype="uint8"),
    "batch": nd.array(np.stack([image(5, 6), image(5, 6)[::-1]]), dtype="uint8"),
    "tall": nd.array(image(9, 4), dtype="uint8"),
}
PICTURES["tensor"] = transforms.ToTensor()(PICTURES["small"])
NAMES = {"data": data, "nd": nd, "np": np, "kind": kind, "listed": listed, "twice": twice, "batches": batches}
NAMES |= {"T": transforms, **PICTURES}


def evaluated(expression: str) -> Any:
    np.random.seed(7)
    random.seed(7)
    return json.loads(json.dumps(eval(expression, dict(NAMES)), default=int))


def ids() -> Sequence[str]:
    return [case["expression"][:70] for case in RECORD]


@pytest.mark.parametrize("case", RECORD, ids=ids())
def test_values(case: dict[str, Any]) -> None:
    found, expected = evaluated(case["expression"]), case["value"]
    if "T." not in case["expression"] or not isinstance(expected, list):
        assert found == expected
        return
    assert found[:2] == expected[:2]
    # MXNet's pictures are resized by OpenCV, which may round a byte otherwise.
    tolerance = 1 if expected[1] == "uint8" else 2e-5
    np.testing.assert_allclose(found[2], expected[2], rtol=0, atol=tolerance)


def test_every_transform_has_a_case() -> None:
    random_only = {"RandomHue", "RandomColorJitter", "RandomFlipLeftRight", "RandomFlipTopBottom"}
    told = " ".join(case["expression"] for case in RECORD)
    assert {name for name in transforms.__all__ if f"T.{name}(" not in told} == random_only


@pytest.mark.long
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
