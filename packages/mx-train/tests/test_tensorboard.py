# SPDX-License-Identifier: Apache-2.0
"""What TensorBoard is given, read back from the files."""

import sys
from pathlib import Path
from typing import Any

import pytest

from mx_core.errors import MXNetError
from mx_ndarray import nd
from mx_train import metric
from mx_train.model import BatchEndParam
from mx_train.tensorboard import LogMetricsCallback


def written(folder: Path) -> list[tuple[int, str, float]]:
    """(step, name, value) of every number in the files of a folder."""
    from tensorboardX.proto.event_pb2 import Event

    found = []
    for path in sorted(folder.glob("events*")):
        content, place = path.read_bytes(), 0
        while place < len(content):
            length = int.from_bytes(content[place : place + 8], "little")
            event: Any = Event.FromString(content[place + 12 : place + 12 + length])
            found += [(event.step, value.tag, value.simple_value) for value in event.summary.value]
            place += 16 + length
    return found


@pytest.mark.parametrize("prefix", [None, "train"])
def test_each_metric_is_written_with_its_epoch(prefix: str | None, tmp_path: Path) -> None:
    """As MXNet 1.9.1 calls its writer: names, values and steps."""
    values = metric.create(["acc", "ce"])
    values.update([nd.array([0, 1])], [nd.array([[0.3, 0.7], [0.2, 0.8]])])
    callback = LogMetricsCallback(tmp_path, prefix)
    callback(BatchEndParam(3, 2, values, None))
    callback(BatchEndParam(3, 4, None, None))
    callback(BatchEndParam(4, 5, values, None))
    callback.summary_writer.close()
    before = "" if prefix is None else "train-"
    expected = {"accuracy": 0.5, "cross-entropy": 0.7135581970214844}
    assert written(tmp_path) == [
        (step, before + name, pytest.approx(value)) for step in (3, 4) for name, value in expected.items()
    ]


def test_without_the_writer_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(MXNetError, match=r"install mx-train\[tensorboard\]"):
        LogMetricsCallback(tmp_path)
