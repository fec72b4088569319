# SPDX-License-Identifier: Apache-2.0
import sys
from pathlib import Path

import numpy as np
import pytest

from mx_core.errors import ArgumentError, MXNetError
from mx_io.io import NDArrayIter
from mx_symbol import sym
from mx_train.callback import LearningCurve
from mx_train.module import Module


def trained(frequent: int) -> LearningCurve:
    curve = LearningCurve(frequent)
    data = NDArrayIter(np.random.RandomState(0).uniform(-1, 1, (20, 3)), np.arange(20) % 2, 5)
    net = sym.SoftmaxOutput(sym.FullyConnected(sym.var("data"), num_hidden=2), name="softmax")
    Module(net).fit(
        data, data, eval_metric=["acc", "ce"], num_epoch=2, batch_end_callback=curve.batch_end,
        eval_end_callback=curve.eval_end,
    )  # fmt: skip
    return curve


def test_values_by_the_number_of_batches() -> None:
    curve = trained(3)
    assert [step for step, _ in curve.train["accuracy"]] == [3, 6]
    assert [step for step, _ in curve.validation["cross-entropy"]] == [4, 8]
    losses = [value for _, value in curve.validation["cross-entropy"]]
    assert losses[1] < losses[0]


@pytest.mark.long
def test_numbers_and_pictures_in_files(tmp_path: Path) -> None:
    curve = trained(1)
    curve.save(tmp_path / "curve.csv")
    lines = (tmp_path / "curve.csv").read_text().splitlines()
    assert lines[0] == "data,metric,batches,value"
    assert lines[1] == f"train,accuracy,1,{curve.train['accuracy'][0][1]}"
    assert len(lines) == 1 + 2 * (8 + 2)
    curve.save(tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    curve.save(tmp_path / "curve.svg")
    text = (tmp_path / "curve.svg").read_text()
    assert "<svg" in text
    assert text.count('id="axes_') == 2
    with pytest.raises(ArgumentError, match="path: .*txt"):
        curve.save(tmp_path / "curve.txt")
    assert not (tmp_path / "curve.txt").exists()


def test_mistakes_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ArgumentError, match="frequent: expected at least 1, got 0"):
        LearningCurve(0)
    with pytest.raises(MXNetError, match="there are no numbers yet"):
        LearningCurve().save(tmp_path / "curve.csv")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MXNetError, match=r"install mx-train\[plot\], or save a .csv"):
        trained(1).save(tmp_path / "curve.png")
