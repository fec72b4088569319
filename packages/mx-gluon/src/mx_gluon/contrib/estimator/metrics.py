# SPDX-License-Identifier: Apache-2.0
"""Metrics of an estimator: which ones it has, and how they are called."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from mx_core.errors import ArgumentError
from mx_gluon.loss import Loss, SoftmaxCrossEntropyLoss
from mx_train import metric
from mx_train.metric import CompositeEvalMetric, EvalMetric

Metrics = EvalMetric | Sequence[EvalMetric] | None


def listed(metrics: Metrics) -> list[EvalMetric]:
    """One metric, those in a composite one, or several as a list.

    Raises
    ------
    ArgumentError  something is no metric
    """
    if isinstance(metrics, CompositeEvalMetric):
        return [each for inner in metrics.metrics for each in listed(inner)]
    if isinstance(metrics, EvalMetric):
        return [metrics]
    found = list(metrics) if isinstance(metrics, Sequence) else [metrics] if metrics else []
    for each in found:
        if not isinstance(each, EvalMetric):
            raise ArgumentError(
                f"[Estimator] metrics: expected metrics of mx.metric, got {each!r} in {metrics!r}"
            )
    return found


def of_training(metrics: Metrics, loss: Loss) -> list[EvalMetric]:
    """The given metrics, or accuracy where the loss is one of classes, and the loss; "training " precedes names."""
    found = listed(metrics)
    if not found:
        if isinstance(loss, SoftmaxCrossEntropyLoss):
            found.append(metric.Accuracy())
        found.append(metric.Loss(loss.name.rstrip("1234567890")))
    for each in found:
        each.name = f"training {each.name}"
    return found


def of_validation(metrics: Metrics, training: Sequence[EvalMetric]) -> list[EvalMetric]:
    """The given metrics, or copies of those of training; "validation " precedes names."""
    found = listed(metrics) or [copy.deepcopy(each) for each in training]
    for each in found:
        if "training" in each.name:
            each.name = each.name.replace("training", "validation")
        else:
            each.name = f"validation {each.name}"
    return found


def check_known(handler: Any, known: Sequence[EvalMetric]) -> None:
    """Refuses a handler with a metric that nobody updates, in an attribute with "metric" in its name.

    Raises
    ------
    ArgumentError  it has one
    """
    for attribute in dir(handler):
        if "metric" not in attribute:
            continue
        value = getattr(handler, attribute)
        for each in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(each, EvalMetric) and not any(each is other for other in known):
                raise ArgumentError(
                    f"[{type(handler).__name__}] {attribute}: {each} is not among the metrics of the estimator; "
                    "take one of its train_metrics or val_metrics"
                )
