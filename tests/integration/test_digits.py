# SPDX-License-Identifier: Apache-2.0
"""One network through every package: four epochs of the digits guide."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mx

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "digits"
MODULES = ("data", "network", "pictures", "train")
EPOCHS = 4


@pytest.fixture(scope="module")
def guide() -> Iterator[Any]:
    """The guide's `train` module, imported as its script imports its parts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(GUIDE)
        yield importlib.import_module("train")
    for name in MODULES:
        sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def records(guide: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The digits as two record files."""
    out = tmp_path_factory.mktemp("digits")
    assert guide.write_images(out / "images") == 1797
    return guide.pack_records(out / "images", out / "digits")  # type: ignore[no-any-return]


@pytest.mark.long
def test_records_hold_png_and_jpeg_images(records: tuple[Path, Path]) -> None:
    counts, heads = [], set()
    for path in records:
        with mx.recordio.MXRecordIO(str(path), "r") as reader:
            payloads = [mx.recordio.unpack(record)[1] for record in iter(reader.read, None)]
        counts.append(len(payloads))
        heads |= {payload[:4] for payload in payloads}
    assert sum(counts) == 1797 and abs(counts[0] - 0.8 * 1797) < 2
    assert {head[:3] for head in heads} == {b"\x89PN", b"\xff\xd8\xff"}


@pytest.mark.long
@pytest.mark.parametrize("fit", ["train_symbol", "train_imperative"])
def test_training_and_a_checkpoint_in_a_fresh_process(
    guide: Any, records: tuple[Path, Path], fit: str
) -> None:
    mx.random.seed(3)
    prefix = records[1].parent / "digits"
    batches = guide.iterators(*records, guide.BATCH)
    accuracy, rates = getattr(guide, fit)(*batches, EPOCHS, prefix)
    assert len(accuracy) == len(rates) == EPOCHS
    assert accuracy[-1] > 0.8
    probabilities, labels = guide.predict(prefix, EPOCHS, records[1])
    assert (probabilities.argmax(1) == labels).mean() == pytest.approx(accuracy[-1], abs=1e-6)
    np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-5)
    arguments = argparse.Namespace(epochs=EPOCHS)
    np.testing.assert_array_equal(guide.fresh_process(arguments, prefix.parent), probabilities)


def test_every_package_took_part() -> None:
    loaded = {r.distribution for r in mx.plugins.plugins() if r.state == "loaded"}
    needed = "engine storage operators operators-cpu kvstore io train"
    assert loaded >= {f"mx-{name}" for name in needed.split()}
