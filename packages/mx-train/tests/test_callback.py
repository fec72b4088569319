# SPDX-License-Identifier: Apache-2.0
import logging

import pytest

from mx_ndarray import nd
from mx_train import callback, metric, model


def test_the_speed_is_told_every_so_many_batches_of_an_epoch(caplog: pytest.LogCaptureFixture) -> None:
    told = callback.Speedometer(30, 2)
    with caplog.at_level(logging.INFO):
        for epoch in range(2):
            for batch in range(5):
                told(model.BatchEndParam(epoch, batch, None, {}))
    assert [line.split("\t")[0] for line in caplog.messages] == [
        f"Iter[{epoch}] Batch [{batch}]" for epoch in range(2) for batch in (2, 4)
    ], "the clock of an epoch begins with its first batch"


@pytest.mark.parametrize(("auto_reset", "first"), [(True, (0, 2)), (False, (0, 0))])
def test_the_speed_names_the_batches_of_the_metric(
    auto_reset: bool, first: tuple[int, int], caplog: pytest.LogCaptureFixture
) -> None:
    told, accuracy = callback.Speedometer(30, 2, auto_reset=auto_reset), metric.create("acc")
    with caplog.at_level(logging.INFO):
        for batch in range(5):
            accuracy.update([nd.array([0, 1])], [nd.array([[0.9, 0.1], [0.8, 0.2]])])
            told(model.BatchEndParam(0, batch, accuracy, {}))
    starts = [line.split("\t")[0] for line in caplog.messages]
    assert starts == [f"Epoch[0] Batch [{a}-{b}]" for a, b in zip(first, (2, 4), strict=True)]
    assert all(line.endswith("samples/sec\taccuracy=0.500000") for line in caplog.messages)


def test_the_bar_is_that_of_mxnet(caplog: pytest.LogCaptureFixture) -> None:
    short, long = callback.ProgressBar(3, length=10), callback.ProgressBar(8)
    with caplog.at_level(logging.INFO):
        for batch in range(3):
            short(model.BatchEndParam(0, batch, None, {}))
        long(model.BatchEndParam(2, 7, None, {}))
    assert caplog.messages == [
        "[----------] 0%\r",
        "[===-------] 34%\r",
        "[=======---] 67%\r",
        f"[{'=' * 70}{'-' * 10}] 88%\r",
    ]
