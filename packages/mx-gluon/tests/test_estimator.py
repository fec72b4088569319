# SPDX-License-Identifier: Apache-2.0
"""Estimator where it is better than MXNet's on purpose, its files, and what it refuses."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import mx_gluon
from mx_core import cpu, gpu, num_gpus
from mx_core.errors import ArgumentError, FileError
from mx_gluon import Trainer, loss, nn
from mx_gluon.contrib.estimator import (
    BatchEnd,
    CheckpointHandler,
    EarlyStoppingHandler,
    EpochBegin,
    EpochEnd,
    Estimator,
    LoggingHandler,
    MetricHandler,
    StoppingHandler,
)
from mx_gluon.data import ArrayDataset, DataLoader
from mx_gluon.errors import RefusedError
from mx_ndarray import nd
from mx_train import metric
from testkit.estimator_programs import Kit

pytestmark = [pytest.mark.timeout(60), pytest.mark.filterwarnings("ignore:.*No trainer specified")]


@pytest.fixture
def kit(tmp_path: Path) -> Any:
    return Kit(SimpleNamespace(gluon=mx_gluon, nd=nd, metric=metric, cpu=cpu), str(tmp_path))


def lines(kit: Any) -> list[str]:
    return [event[2] for event in kit.events if event[0] == "log"]


def test_a_list_of_handlers_serves_again(kit: Any) -> None:
    """MXNet adds its handlers to the list, among them one that has stopped the training before."""
    made, given = kit.estimator(), [kit.watcher("w"), StoppingHandler()]
    for _ in range(2):
        made.fit(kit.loader(), epochs=2, event_handlers=given)
    assert len(given) == 2
    assert sum(event[:2] == ["w", "batch_end"] for event in kit.events) == 2 * 2 * 3


@pytest.mark.parametrize("number, stops", [(0, True), (1, False)], ids=["accuracy", "loss"])
def test_auto_goes_by_the_name(kit: Any, number: int, stops: bool) -> None:
    """MXNet takes larger values of everything for better, a larger loss, too."""
    made = kit.estimator(rate=0.05)
    with pytest.warns(RuntimeWarning, match="larger values" if stops else "smaller values"):
        handler = EarlyStoppingHandler(made.train_metrics[number], patience=1)
    made.fit(kit.loader(), epochs=4, event_handlers=handler)
    assert handler.stop_training is stops  # the loss falls, the accuracy stays


def test_another_mode_is_taken_for_auto(kit: Any) -> None:
    made = kit.estimator()
    with pytest.warns(
        RuntimeWarning, match='expected "auto", "min" or "max", got \'least\'; smaller values of'
    ):
        EarlyStoppingHandler(made.train_metrics[1], mode="least")


def test_lines_of_the_best_say_what_was_before(kit: Any, caplog: pytest.LogCaptureFixture) -> None:
    made = kit.estimator(rate=0.0)
    made.logger.addHandler(caplog.handler)
    handler = CheckpointHandler(
        kit.folder, monitor=made.train_metrics[1], verbose=1, save_best=True, mode="min"
    )
    made.fit(kit.loader(), epochs=2, event_handlers=handler)
    value = f"{made.train_metrics[1].get()[1]:.5f}"
    text = caplog.text
    assert f"improved from inf to {value}" in text
    assert (
        f"[Epoch 1] CheckpointHandler: training softmaxcrossentropyloss did not improve from {value}" in text
    )


def test_removing_a_checkpoint_leaves_those_whose_names_begin_so(kit: Any) -> None:
    made = kit.estimator()
    handler = CheckpointHandler(kit.folder, epoch_period=None, batch_period=1, max_checkpoints=2)
    kept = [f"model-epoch0batch{i}" for i in (0, 1, 2)]
    for name in ("model-epoch0batch00.params", "model-epoch0batch0-copy.params"):
        Path(kit.folder, name).write_text("mine")
    made.fit(kit.loader(), batches=3, event_handlers=handler)
    found = set(os.listdir(kit.folder))
    assert {"model-epoch0batch00.params", "model-epoch0batch0-copy.params"} <= found
    assert not {kept[0] + ".params", kept[0] + ".states"} & found
    assert {name + kind for name in kept[1:] for kind in (".params", ".states")} <= found


def test_a_prefix_may_have_the_words_of_the_names(kit: Any) -> None:
    for epochs in (1, 3):
        handler = CheckpointHandler(kit.folder, "epoch-batch.", resume_from_checkpoint=True)
        made = kit.estimator()
        made.fit(kit.loader(), epochs=epochs, event_handlers=handler)
    assert (
        "CheckpointHandler: Checkpoint resumed from epoch 0 batch 2, continue to train for 2 epochs "
        in lines(kit)
    )


def test_a_checkpoint_is_there_only_with_its_states(kit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made = kit.estimator()
    made.fit(kit.loader(), epochs=1, event_handlers=CheckpointHandler(kit.folder))
    before = sorted(os.listdir(kit.folder))

    def full(*args: Any) -> None:
        raise FileError(28, "No space left on device", "disk")

    monkeypatch.setattr(made.net, "save_parameters", full)
    with pytest.raises(FileError, match="No space"):
        made.fit(kit.loader(), epochs=1, event_handlers=CheckpointHandler(kit.folder, "other"))
    assert sorted(os.listdir(kit.folder)) == before
    os.remove(Path(kit.folder, before[0].replace(".params", ".states")))
    with pytest.raises(RefusedError, match=r"batch\d\.states does not exist"):
        kit.estimator().fit(
            kit.loader(), epochs=3, event_handlers=CheckpointHandler(kit.folder, resume_from_checkpoint=True)
        )


def test_a_resumed_training_is_the_same_as_one_without_a_break(kit: Any) -> None:
    straight = kit.estimator(optimizer="adam", rate=0.05)
    straight.fit(kit.loader(), epochs=4)
    for epochs in (2, 4):
        last = kit.estimator(kit.net(seed=5 if epochs == 2 else 77), optimizer="adam", rate=0.05)
        last.fit(
            kit.loader(),
            epochs=epochs,
            event_handlers=CheckpointHandler(kit.folder, resume_from_checkpoint=True),
        )
    for one, other in zip(
        straight.net.collect_params().values(), last.net.collect_params().values(), strict=True
    ):
        assert one.data().asnumpy().tolist() == other.data().asnumpy().tolist()


def test_training_ends_where_there_is_no_batch(kit: Any) -> None:
    loader = DataLoader(ArrayDataset(nd.zeros((2, 3)), nd.zeros((2,))), batch_size=4, last_batch="discard")
    with pytest.raises(ArgumentError, match="train_data has no batch"):
        kit.estimator().fit(loader, batches=3)
    kit.estimator().fit(loader, epochs=2)


def test_a_metric_without_value_is_told(kit: Any) -> None:
    made, unused = kit.estimator(), metric.MAE()
    handlers = [
        CheckpointHandler(kit.folder, monitor=unused, save_best=True, mode="min"),
        EarlyStoppingHandler(unused, mode="min"),
    ]
    with pytest.warns(RuntimeWarning) as caught:
        made.fit(kit.loader(), epochs=1, event_handlers=handlers)
    told = {
        str(each.message).partition("]")[0] for each in caught if "'mae' has no value" in str(each.message)
    }
    assert told == {"[CheckpointHandler", "[EarlyStoppingHandler"}


def test_a_training_that_stops_in_its_first_epoch_says_so(kit: Any) -> None:
    made = kit.estimator(rate=0.05)
    made.fit(
        kit.loader(),
        epochs=3,
        event_handlers=EarlyStoppingHandler(made.train_metrics[0], mode="max", baseline=1),
    )
    assert "[Epoch 0] EarlyStoppingHanlder: early stopping due to training accuracy not improving" in lines(
        kit
    )


def test_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    net = nn.Dense(2)
    with pytest.warns(UserWarning, match=r"No trainer specified: SGD with learning rate 0\.001"):
        made = Estimator(net, loss.SoftmaxCrossEntropyLoss())
    assert made.logger.level == logging.INFO and len(made.logger.handlers) == 1
    assert made.trainer.learning_rate == 0.001 and len(made.context) == 1
    made.fit(DataLoader(ArrayDataset(nd.ones((4, 3)), nd.zeros((4,))), batch_size=2), epochs=1)
    assert "Training begin: using optimizer SGD with current learning rate 0.0010" in capsys.readouterr().out
    with pytest.warns(UserWarning, match="Network already fully initialized"):
        Estimator(net, loss.L2Loss(), initializer="zeros", trainer=made.trainer)


def test_refused(kit: Any) -> None:
    made = kit.estimator()
    with pytest.raises(ArgumentError, match="expected a gluon.loss.Loss, got 3"):
        Estimator(made.net, 3)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="expected either epochs or batches, got 1 and 2"):
        made.fit(kit.loader(), epochs=1, batches=2)
    with pytest.raises(ArgumentError, match="epochs: expected a whole number from 1 on, got -1"):
        made.fit(kit.loader(), epochs=-1)
    with pytest.raises(ArgumentError, match=r"batches: expected a whole number from 1 on, got 2\.5"):
        made.fit(kit.loader(), batches=2.5)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="metrics: expected metrics of mx.metric, got 3"):
        LoggingHandler(metrics=3)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match=r'log_interval: expected a number of batches or "epoch", got 0'):
        LoggingHandler(0)
    with pytest.raises(
        ArgumentError, match="MetricHandler.*metrics: EvalMetric: .*mae.* is not among the metrics"
    ):
        made.fit(kit.loader(), epochs=1, event_handlers=MetricHandler(metric.MAE()))
    with pytest.raises(ArgumentError, match="event_handlers: expected handlers.*got 3"):
        made.fit(kit.loader(), epochs=1, event_handlers=[3])
    with pytest.raises(ArgumentError, match="got <.*Trainer|got 'sgd'"):
        Estimator(made.net, made.loss, trainer="sgd")  # type: ignore[arg-type]
    with pytest.raises(RefusedError, match="is not here"):
        Estimator(made.net, made.loss, trainer=made.trainer, context=gpu(num_gpus()))


class Epochs(EpochBegin):
    count = 0

    def epoch_begin(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        self.count += 1


def test_handlers_of_some_events_only(kit: Any) -> None:
    class Third(BatchEnd, EpochEnd):
        count = 0

        def batch_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> bool:
            self.count += 1
            return self.count % 2 == 0

        def epoch_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> bool:
            return self.count == 6

    third, made = Third(), kit.estimator()
    made.fit(kit.loader(), epochs=9, event_handlers=third)
    assert third.count == 6
    assert isinstance(made.trainer, Trainer)
    again = kit.estimator()
    again.fit(kit.loader(), epochs=2, event_handlers=[BatchEnd(), EpochEnd(), epochs := Epochs()])
    assert epochs.count == 2


def test_a_class_that_extends_it_uses_its_parts(kit: Any) -> None:
    """Loops of their own, such as those of gluonnlp, take default handlers and events from these methods."""

    class Own(Estimator):
        def run(self, data: DataLoader, given: list[Any]) -> None:
            self.max_epoch, self.max_batch = 1, None
            handlers = self._prepare_default_handlers(None, given)
            assert [type(each).__name__ for each in handlers] == [
                "GradientUpdateHandler", "MetricHandler", "Watcher", "StoppingHandler", "LoggingHandler",
            ]  # fmt: skip
            train_begin, epoch_begin, batch_begin, batch_end, epoch_end, train_end = (
                self._categorize_handlers(handlers)
            )
            assert [len(each) for each in (train_begin, batch_begin, train_end)] == [3, 2, 2]
            assert handlers[2] in epoch_begin and handlers[1] in batch_end and handlers[3] in epoch_end
            validating = self._prepare_default_validation_handlers(None)
            assert [type(each) for each in validating] == [MetricHandler, LoggingHandler]

    made = kit.estimator()
    Own(made.net, made.loss).run(kit.loader(), [kit.watcher("w")])
