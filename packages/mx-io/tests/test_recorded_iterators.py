# SPDX-License-Identifier: Apache-2.0
"""Batches of all iterators, without random choices, are those of MXNet 1.9.1."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from mx_io import io
from mx_ndarray import nd
from testkit.oracle import ORACLE

FOLDER = ORACLE / "io"
RECORDED = json.loads((FOLDER / "iterators.json").read_text())
pytestmark = pytest.mark.timeout(60)


def check(source: Any, recorded: dict[str, Any], tolerance: float, counted: bool = False) -> None:
    """`counted`: compare the examples that count alone."""
    found = [
        [d.name, list(d.shape), np.dtype(d.dtype).name, d.layout]
        for d in source.provide_data + source.provide_label
    ]
    assert found == recorded["described"]
    for batches in recorded["epochs"]:
        given = list(source)
        assert [batch.pad for batch in given] == [pad for _, _, pad in batches]
        for batch, (data, label, pad) in zip(given, batches, strict=True):
            end = len(label) - pad if counted else len(label)
            assert np.array_equal(batch.label[0].asnumpy()[:end], np.array(label)[:end])
            assert (
                np.abs(batch.data[0].asnumpy().astype(float)[:end] - np.array(data)[:end]).max() <= tolerance
            )
        source.reset()


@pytest.mark.parametrize(
    "recorded", RECORDED["files"], ids=lambda recorded: f"{recorded['name']} {recorded['settings']}"
)
def test_iterators_over_files(recorded, tmp_path):
    settings = dict(recorded["settings"])
    for key, value in settings.items():
        if key.startswith("path") or key in ("image", "label", "data_csv", "label_csv"):
            settings[key] = str(FOLDER / value)
    if "mean_img" in settings:
        settings["mean_img"] = str(tmp_path / "mean.bin")
    # Pixels that are resized, or are made grey, may differ by one for each time.
    times = {(3, 9, 12): 2, (1, 4, 4): 1}.get(
        tuple(settings.get("data_shape", ())), int("resize" in settings)
    )
    check(getattr(io, recorded["name"])(**settings), recorded, times + 0.01)
    if "mean_img" in settings:
        mean = nd.load(settings["mean_img"])["mean_img"].asnumpy()
        assert np.abs(mean - np.array(recorded["mean"])).max() < 0.01


@pytest.mark.parametrize("recorded", RECORDED["arrays"], ids=lambda recorded: str(recorded["settings"]))
def test_iterators_over_arrays(recorded):
    data = np.arange(14, dtype=np.float32).reshape(7, 2)
    check(io.NDArrayIter(data, np.arange(7) * 10, **recorded["settings"]), recorded, 0)
