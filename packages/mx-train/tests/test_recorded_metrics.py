# SPDX-License-Identifier: Apache-2.0
"""Metrics say what they said in MXNet 1.9.1: odd labels, padding, local and global values, configs."""

from __future__ import annotations

import json
import math
import warnings
from typing import Any

import numpy as np
import pytest

from mx_core.errors import ArgumentError
from mx_ndarray import nd
from mx_train import metric
from testkit.oracle import ORACLE

CASES = json.loads((ORACLE / "training" / "metrics.json").read_text())
FUNCTIONS: dict[str, Any] = {
    "FUNCTION value": lambda label, pred: float(np.abs(label - pred).sum()),
    "FUNCTION sum and count": lambda label, pred: (float(pred.sum()), label.size),
}
COUNTS = ("num_inst", "sum_metric", "global_num_inst", "global_sum_metric")


def made(argument: Any) -> Any:
    if isinstance(argument, list):
        return [made(each) for each in argument]
    return FUNCTIONS.get(argument, argument) if isinstance(argument, str) else argument


def arrays(given: Any) -> Any:
    if isinstance(given, dict):
        return {name: nd.array(value) for name, value in given.items()}
    return [nd.array(value) for value in given]


def said(found: metric.EvalMetric) -> dict[str, Any]:
    told = {"get": found.get(), "get_global": found.get_global()}
    if isinstance(found, metric.CompositeEvalMetric):
        return told
    return told | {name: getattr(found, name) for name in COUNTS}


def near(expected: Any) -> Any:
    """What is equal to a recorded value but for rounding."""
    if isinstance(expected, dict):
        return {key: near(value) for key, value in expected.items()}
    if isinstance(expected, list):
        return [near(each) for each in expected]
    return expected if isinstance(expected, str) else pytest.approx(expected, rel=1e-5, abs=1e-7, nan_ok=True)


def listed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: listed(each) for key, each in value.items()}
    return [listed(each) for each in value] if isinstance(value, (list, tuple)) else value


#: MXNet refuses them; here there is a right answer
COMPUTED = frozenset(
    (
        "top_7", "f1_macro_flat", "f1_micro_flat", "mcc_macro_flat", "mcc_micro_flat", "composite_f1",
        "pearson_shapes_macro", "pearson_shapes_micro", "ce_3d", "nll_loss_3d", "ce_alias", "nll_alias",
        "perplexity_3d", "perplexity_axis1",
    )
)  # fmt: skip
#: rows of decision 0008; tests below say what is right
DEVIATIONS = frozenset(
    (
        "top_classes", "f1_macro_column", "f1_micro_column", "mcc_macro_column", "mcc_micro_column", "pcc_minus",
        "pearson_micro", "pearson_constant_micro", "perplexity_beyond",
    )
)  # fmt: skip
HELD = [case for case in CASES if case["id"] not in DEVIATIONS]
BY_ID = {case["id"]: case for case in CASES}


@pytest.mark.parametrize("case", HELD, ids=[case["id"] for case in HELD])
def test_what_metrics_say_is_what_mxnet_recorded(case: dict[str, Any]) -> None:
    computed = case["id"] in COMPUTED
    if "refused" in case and not computed:
        with pytest.raises(Exception, match="."):
            metric.create(made(case["make"]), **case.get("settings", {}))
        return
    found = metric.create(made(case["make"]), **case.get("settings", {}))
    for (name, *given), expected in zip(case["calls"], case.get("said") or case["calls"], strict=True):
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            if isinstance(expected, str) and not computed:
                with pytest.raises(Exception, match="."):
                    getattr(found, name)(*map(arrays, given))
                continue
            getattr(found, name)(*map(arrays, given))
        if computed:
            assert name != "update" or np.isfinite(found.get()[1]).all()
        else:
            assert compared(listed(said(found))) == near(compared(expected)), name


def compared(told: dict[str, Any]) -> dict[str, Any]:
    """Without sums of nothing, which are 0 here and sometimes NaN in MXNet."""
    empty = [start for start in ("", "global_") if told.get(f"{start}num_inst") == 0]
    return {key: value for key, value in told.items() if key not in [f"{start}sum_metric" for start in empty]}


def holds(found: Any, expected: Any) -> bool:
    """Whether a config has all that MXNet's has."""
    if isinstance(expected, dict):
        return all(holds(found[key], value) for key, value in expected.items())
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(holds, found, expected))
    return bool(found == expected)


@pytest.mark.parametrize("case", [c for c in HELD if "config" in c], ids=lambda case: case["id"])
def test_configs_are_mxnets_and_make_equal_metrics(case: dict[str, Any]) -> None:
    found = metric.create(made(case["make"]), **case.get("settings", {}))
    if case["config"] == "NotImplementedError":
        with pytest.raises(NotImplementedError, match="a metric of a function has no config"):
            found.get_config()
        return
    config = found.get_config()
    assert holds(config, case["config"])
    for again in (metric.create(config), metric.create(**config), metric.create(json.dumps(config))):
        assert type(again) is type(found)
        if not isinstance(
            found, metric.TopKAccuracy
        ):  # whose name grows by its number each time, as in MXNet
            assert again.get_config() == config


def updated(identity: str) -> metric.EvalMetric:
    case = BY_ID[identity]
    found = metric.create(case["make"], **case.get("settings", {}))
    name, *given = case["calls"][0]
    getattr(found, name)(*map(arrays, given))
    return found


@pytest.mark.parametrize("name", ["f1", "mcc"])
@pytest.mark.parametrize("average", ["macro", "micro"])
def test_a_column_of_labels_is_one_per_example(name: str, average: str) -> None:
    labels, preds = BY_ID[f"{name}_{average}_column"]["calls"][0][1:]
    flat = metric.create(name, average=average)
    flat.update([nd.array(np.ravel(labels))], arrays(preds))
    assert said(flat) == said(updated(f"{name}_{average}_column"))


def test_mistakes_that_mxnet_counts_are_errors() -> None:
    with pytest.raises(ArgumentError, match=r"expected 5 rows of classes, one per label, got shape \(5,\)"):
        updated("top_classes")
    with pytest.raises(ArgumentError, match="expected classes from 0 on, got -1"):
        updated("pcc_minus")
    with pytest.raises(IndexError, match="expected classes below 3, .* and not below 0, got 3"):
        updated("perplexity_beyond")
    with pytest.raises(IndexError, match="and not below 0, got -1"):
        metric.Perplexity(None).update([nd.array([-1])], [nd.array([[0.5, 0.5]])])


def test_the_correlation_of_all_samples_is_local_and_global() -> None:
    """MXNet's global value is 0, and its local one is not reset."""
    found = updated("pearson_micro")
    expected = BY_ID["pearson_micro"]["said"][0]["get"][1]
    assert found.get()[1] == found.get_global()[1] == pytest.approx(expected)
    found.reset_local()
    found.update([nd.array([1, 2, 3])], [nd.array([1, 2, 2])])
    assert found.get()[1] == pytest.approx(math.sqrt(3) / 2)
    with np.errstate(invalid="ignore"):
        assert math.isnan(updated("pearson_constant_micro").get_global()[1])


@pytest.mark.parametrize("text", ["[1, 2]", '["acc"]', "{}", "[", '["acc", 3]', "[" * 100_000])
def test_json_that_is_no_config_is_shown(text: str) -> None:
    with pytest.raises(ArgumentError, match=r"\[metric\] (expected|config)"):
        metric.create(text)
