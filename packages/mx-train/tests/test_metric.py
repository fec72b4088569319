# SPDX-License-Identifier: Apache-2.0
import math
from collections.abc import Callable

import numpy as np
import pytest

from mx_core.errors import ArgumentError
from mx_ndarray import nd
from mx_train import metric

PRED = nd.array([[0.3, 0.7], [0.9, 0.1], [0.4, 0.6]])
LABEL = nd.array([1, 0, 0])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("acc", 2 / 3),
        ("ce", -(math.log(0.7) + math.log(0.9) + math.log(0.4)) / 3),
        ("nll_loss", -(math.log(0.7) + math.log(0.9) + math.log(0.4)) / 3),
        ("f1", 2 / 3),
        (metric.Perplexity(None), math.exp(-(math.log(0.7) + math.log(0.9) + math.log(0.4)) / 3)),
        (metric.Loss(), 0.5),
    ],
)
def test_values(name: object, expected: float) -> None:
    made = metric.create(name)
    made.update([LABEL], [PRED])
    assert made.get()[1] == pytest.approx(expected, rel=1e-5)


def test_f1_takes_labels_of_minus_one() -> None:
    made = metric.create("f1")
    made.update([nd.array([1, -1, -1])], [nd.array([[0.1, 0.9]] * 3)])
    assert made.get()[1] == pytest.approx(0.5), "two false alarms, as in MXNet"


def test_regression_values() -> None:
    label, pred = nd.array([1.0, 2.0]), nd.array([[2.0], [4.0]])
    for name, expected in (("mae", 1.5), ("mse", 2.5), ("rmse", math.sqrt(2.5))):
        made = metric.create(name)
        made.update([label], [pred])
        assert made.get()[1] == pytest.approx(expected)


def test_top_k() -> None:
    made = metric.TopKAccuracy(top_k=2)
    made.update([nd.array([0, 1])], [nd.array([[0.3, 0.4, 0.3001], [0.1, 0.2, 0.7]])])
    assert made.get() == ("top_k_accuracy_2", 0.5)


def test_several_metrics_see_every_batch() -> None:
    made = metric.create(["acc", "ce"])
    single = [metric.create(name) for name in ("acc", "ce")]
    for each in (made, *single):
        each.update([LABEL], [PRED])
        each.update([LABEL], [PRED * PRED])
    expected = ["accuracy", "cross-entropy"], [each.get()[1] for each in single]
    assert made.get() == made.get_global() == expected
    made.reset_local()
    assert all(math.isnan(value) for value in made.get()[1]) and made.get_global() == expected
    made.reset()
    assert all(math.isnan(value) for value in made.get_global()[1])


def test_local_and_global() -> None:
    made = metric.Accuracy()
    made.update([nd.array([1])], [nd.array([[0.0, 1.0]])])
    made.reset_local()
    made.update([nd.array([0])], [nd.array([[0.0, 1.0]])])
    assert made.get()[1] == 0.0 and made.get_global()[1] == 0.5
    made.reset()
    assert math.isnan(made.get()[1])


def test_composite_custom_and_config() -> None:
    made = metric.create(["acc", lambda label, pred: float(np.abs(label).sum())])
    made.update([LABEL], [PRED])
    names, values = made.get()
    assert names[0] == "accuracy" and values[1] == 1.0
    again = metric.create(metric.Accuracy(axis=1).get_config())
    assert isinstance(again, metric.Accuracy)


def test_mistakes_are_explained() -> None:
    with pytest.raises(ArgumentError, match="unknown metric 'accc'"):
        metric.create("accc")
    with pytest.raises(ArgumentError, match="1 labels for 2 predictions"):
        metric.create("acc").update([LABEL], [PRED, PRED])
    with pytest.raises(ArgumentError, match="at least 2"):
        metric.TopKAccuracy(top_k=1)


def test_correlation_of_classes() -> None:
    labels = nd.array([0, 1, 1, 0, 1, 2])
    preds = nd.array(np.eye(3)[[0, 1, 0, 0, 1, 1]])
    made = metric.create("pcc")
    made.update([labels], [preds])
    y, p = np.eye(3)[[0, 1, 1, 0, 1, 2]], np.eye(3)[[0, 1, 0, 0, 1, 1]]
    y, p = y - y.mean(0), p - p.mean(0)
    expected = (y * p).sum() / np.sqrt((y * y).sum() * (p * p).sum())
    assert made.get() == ("pcc", pytest.approx(expected))
    made.reset_local()
    assert np.isnan(made.get()[1]) and made.get_global()[1] == pytest.approx(expected)


@pytest.mark.parametrize("average", ["macro", "micro"])
def test_correlation_of_two_classes(average: str) -> None:
    batches = [([0, 1, 1, 0], [0, 1, 0, 0]), ([1, 1, 0], [1, 0, 1])]
    made = metric.create("mcc", average=average)
    for labels, classes in batches:
        made.update([nd.array(labels)], [nd.array(np.eye(2)[classes])])
    if average == "micro":
        batches = [tuple(sum(parts, []) for parts in zip(*batches, strict=True))]  # type: ignore[misc]
    expected = np.mean([np.corrcoef(labels, classes)[0, 1] for labels, classes in batches])
    assert made.get_global()[1] == pytest.approx(expected)
    with pytest.raises(ArgumentError, match=r"\[MCC\] expected labels of two classes, got 0, 1, 2"):
        made.update([nd.array([2, 0, 1])], [nd.array(np.eye(3))])


def test_correlation_of_values_over_batches_or_samples() -> None:
    rng = np.random.default_rng(0)
    labels, preds = rng.normal(size=(2, 2, 6))
    for average, expected in (
        ("macro", np.mean([np.corrcoef(a, b)[0, 1] for a, b in zip(labels, preds, strict=True)])),
        ("micro", np.corrcoef(labels.ravel(), preds.ravel())[0, 1]),
    ):
        made = metric.PearsonCorrelation(average=average)
        for label, pred in zip(labels, preds, strict=True):
            made.update([nd.array(label)], [nd.array(pred)])
        assert made.get()[1] == pytest.approx(expected, rel=1e-5)
        assert made.get_global()[1] == pytest.approx(expected, rel=1e-5)


class Counting(metric.EvalMetric):
    """Written as for MXNet: it knows nothing of global sums."""

    def __init__(self) -> None:
        super().__init__("counting")

    def update(self, labels: object, preds: object) -> None:
        labels, preds = metric.check_label_shapes(labels, preds, True)
        self.sum_metric += float(preds[0].sum().asscalar())
        self.num_inst += len(labels)


def test_metrics_of_ones_own_are_shown_everywhere() -> None:
    made = Counting()
    made.update([nd.ones((2,))], [nd.ones((2,))])
    assert made.get_name_value() == made.get_global_name_value() == [("counting", 2.0)]
    with pytest.raises(ArgumentError, match="Shape of labels 1 does not match shape of predictions 2"):
        made.update([nd.ones((2,))], [nd.ones((2,)), nd.ones((2,))])
    assert [metric.create(name).get()[0] for name in ("torch", "caffe")] == ["torch", "caffe"]


def test_a_metric_is_named_after_its_function() -> None:
    def misses(label: np.ndarray, prediction: np.ndarray) -> float:
        return float((label != prediction.argmax(1)).sum())

    assert (
        metric.CustomMetric(misses).name == metric.np(misses).name == metric.create(misses).name == "misses"
    )
    assert metric.CustomMetric(lambda label, prediction: 0.0).name == "custom(<lambda>)"
    assert metric.CustomMetric(misses, name="wrong").name == "wrong"


@pytest.mark.parametrize("wrap", [lambda value: value, lambda value: (value, 1)])
def test_float32_values_of_a_function_are_summed_in_float64(wrap: Callable[[object], object]) -> None:
    made = metric.np(lambda label, prediction: wrap(np.float32(0.1)), name="tenth")
    zeros = [nd.zeros((1,))]
    for _ in range(1000):
        made.update(zeros, zeros)
    assert made.get()[1] == pytest.approx(float(np.float32(0.1)), rel=1e-9)


@pytest.mark.parametrize(
    "made", [metric.CrossEntropy(), metric.NegativeLogLikelihood(), metric.Perplexity(None)]
)
def test_a_label_that_is_no_class_is_named_with_the_metric(made: metric.EvalMetric) -> None:
    kind = type(made).__name__
    with pytest.raises(IndexError, match=rf"\[{kind}\] label: expected classes below 2.*, got 7"):
        made.update([nd.array([0, 7])], [nd.array([[0.5, 0.5], [0.5, 0.5]])])


def test_labels_that_perplexity_ignores_may_be_no_class() -> None:
    made = metric.Perplexity(7)
    made.update([nd.array([0, 7])], [nd.array([[0.5, 0.5], [0.5, 0.5]])])
    assert made.get()[1] == pytest.approx(2)


class PerTask(metric.EvalMetric):
    """As scripts for several tasks have it: sums of its own, and none of those of an epoch."""

    def __init__(self, tasks: int) -> None:
        self.tasks = tasks
        super().__init__("per-task")

    def reset(self) -> None:
        self.num_inst: list[int] = [0] * self.tasks  # type: ignore[assignment]
        self.sum_metric: list[float] = [0.0] * self.tasks  # type: ignore[assignment]

    def update(self, labels: object, preds: object) -> None:
        for i in range(self.tasks):
            self.sum_metric[i] += i + 1
            self.num_inst[i] += 2

    def get(self) -> tuple[list[str], list[float]]:
        return ["first", "second"], [s / n for s, n in zip(self.sum_metric, self.num_inst, strict=True)]


def test_a_metric_that_counts_in_its_own_way_is_shown_as_it_says() -> None:
    made = PerTask(2)
    made.update([], [])
    assert made.get_global_name_value() == made.get_name_value() == [("first", 0.5), ("second", 1.0)]
    both = metric.CompositeEvalMetric([made, "acc"])
    made.update([], [])
    assert both.get_global_name_value()[:2] == [("first", 0.5), ("second", 1.0)]
