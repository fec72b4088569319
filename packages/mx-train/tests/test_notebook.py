# SPDX-License-Identifier: Apache-2.0
"""Tables and live pictures of a training in a notebook."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from mx_core.errors import ArgumentError, MXNetError
from mx_io.io import NDArrayIter
from mx_symbol import sym
from mx_train.module import Module
from mx_train.notebook import callback


def fit(num_epoch: int = 2, **kwargs: Any) -> None:
    draw = np.random.RandomState(0)
    x = draw.randn(40, 3).astype(np.float32)
    y = (x.sum(1) > 0).astype(np.float32)
    net = sym.SoftmaxOutput(sym.FullyConnected(sym.var("data"), num_hidden=2), name="softmax")
    Module(net).fit(NDArrayIter(x, y, 4), NDArrayIter(x, y, 4), num_epoch=num_epoch, **kwargs)


def test_tables_have_rows_of_batches_validations_and_epochs() -> None:
    pytest.importorskip("pandas")
    logger = callback.PandasLogger(batch_size=4, frequent=5)
    assert logger.train_df.empty
    fit(**logger.callback_args())
    assert logger.train_df["minibatch_count"].tolist() == [0, 5, 0, 5]
    assert logger.train_df["epoch"].tolist() == [0, 0, 1, 1]
    assert logger.train_df["accuracy"].between(0, 1).all()
    ratio = logger.train_df["records_per_sec"] / logger.train_df["batches_per_sec"]
    assert ratio.tolist() == pytest.approx([4.0] * 4)
    assert logger.eval_df["epoch"].tolist() == [0, 1]
    assert len(logger.epoch_df) == 2
    assert logger.epoch_df["epoch_time"].sum() <= logger.elapsed()
    assert logger.train_df["elapsed"].is_monotonic_increasing
    logger.append_metrics({"loss": 1.0}, "eval")
    assert np.isnan(logger.all_dataframes["eval"]["accuracy"].iloc[-1])
    with pytest.raises(ArgumentError, match="expected one of train, eval, epoch, got 'test'"):
        logger.append_metrics({}, "test")


def test_a_metric_starts_anew_with_each_row() -> None:
    pytest.importorskip("pandas")
    logger = callback.PandasLogger(batch_size=4, frequent=5)
    seen: list[int] = []

    def number(param: Any) -> None:
        logger.train_cb(param)
        seen.append(param.eval_metric.num_inst)

    fit(1, batch_end_callback=number)
    assert seen == [0, 4, 8, 12, 16, 0, 4, 8, 12, 16]


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What a notebook would have been sent."""
    pytest.importorskip("bokeh")
    import bokeh.io

    sent: list[Any] = []
    monkeypatch.setattr(bokeh.io, "output_notebook", lambda **_: None)
    monkeypatch.setattr(bokeh.io, "show", lambda figure, **_: figure)
    monkeypatch.setattr(bokeh.io, "push_notebook", lambda handle: sent.append(handle))
    return sent


def test_a_learning_curve_has_points_of_training_and_validation(drawn: list[Any]) -> None:
    curve = callback.LiveLearningCurve("accuracy", display_freq=0, frequent=5)
    fit(**curve.callback_args())
    lines = {line.glyph.line_color: line.data_source.data for line in curve.handle.renderers}
    assert (len(lines["red"]["y"]), len(lines["green"]["y"])) == (4, 2)
    assert all(0 <= value <= 1 for line in lines.values() for value in line["y"])
    assert lines["red"]["x"] == sorted(lines["red"]["x"])
    assert len(drawn) == 22  # after each batch and validation
    with pytest.raises(ArgumentError, match="no metric 'mse'; metrics: accuracy"):
        fit(**callback.LiveLearningCurve("mse").callback_args())


def test_a_picture_is_drawn_no_more_often_than_asked(drawn: list[Any]) -> None:
    curve = callback.LiveLearningCurve("accuracy", display_freq=1000, frequent=5)
    fit(**curve.callback_args())
    assert len(drawn) == 2  # after validations


def test_a_series_grows_by_a_point(drawn: list[Any]) -> None:
    series = callback.LiveTimeSeries(y_axis_label="loss")
    series.update_chart_data(0.5)
    series.update_chart_data(0.25)
    assert series.y_axis_val == [0.5, 0.25]
    assert series.x_axis_val[0] < series.x_axis_val[1] < series.elapsed()
    assert series.handle.yaxis.axis_label == "loss"
    assert len(drawn) == 2


def test_a_chart_of_a_program_draws_its_logger(drawn: list[Any]) -> None:
    pytest.importorskip("pandas")

    class Rows(callback.LiveBokehChart):
        def setup_chart(self) -> str:
            self.counts: list[int] = []
            return "handle"

        def update_chart_data(self) -> None:
            self.counts.append(len(self.pandas_logger.train_df))

    logger = callback.PandasLogger(batch_size=4, frequent=5)
    chart = Rows(logger, "accuracy", display_freq=1000)
    together = callback.args_wrapper(logger, chart)
    assert {name: len(each) for name, each in together.items()} == {
        "batch_end_callback": 2, "eval_end_callback": 2, "epoch_end_callback": 1,
    }  # fmt: skip
    fit(**together)
    assert chart.counts == [2, 4]
    assert drawn == ["handle", "handle"]


def test_what_is_missing_is_named_with_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pandas", "bokeh", "bokeh.io"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MXNetError, match=r"PandasLogger\] pandas is not installed.*mx-train\[notebook\]"):
        callback.PandasLogger(4)
    with pytest.raises(MXNetError, match=r"LiveLearningCurve\] Bokeh is not installed.*LearningCurve"):
        callback.LiveLearningCurve("accuracy")
    with pytest.raises(ArgumentError, match="frequent: expected at least 1, got 0"):
        callback.LiveLearningCurve("accuracy", frequent=0)
