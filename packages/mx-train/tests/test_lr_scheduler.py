# SPDX-License-Identifier: Apache-2.0
import json
import logging
import math
import time
from typing import Any

import pytest

from mx_core.errors import ArgumentError
from mx_ndarray import nd
from mx_train import lr_scheduler as lrs
from mx_train import optimizer
from testkit.oracle import ORACLE

CASES = json.loads((ORACLE / "training" / "schedules.json").read_text())


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_rates_attributes_and_logs_are_those_of_mxnet(
    case: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    schedule = getattr(lrs, case["name"])(**case["arguments"])
    own = {"learning_rate": case["learning_rate"]} if "learning_rate" in case else {}
    if own or "optimizer" in case:
        optimizer.create(case.get("optimizer", "sgd"), lr_scheduler=schedule, **own)
    assert bool(caplog.messages) == bool(case["notice"])
    rates, logged = [], []
    caplog.set_level(logging.INFO)
    for update in case["updates"]:
        caplog.clear()
        rates.append([schedule(update), schedule.base_lr])
        logged.append(caplog.messages[-1] if caplog.messages else "")
    assert logged == case["log"]
    assert rates == [pytest.approx(pair, rel=1e-12) for pair in case["rates"]]
    assert {name: value for name, value in vars(schedule).items() if name[0] != "_"} == {
        name: pytest.approx(value, rel=1e-12) if isinstance(value, float) else value
        for name, value in case["attributes"].items()
    }


@pytest.mark.parametrize(
    ("name", "learning_rate", "said"),
    [
        ("sgd", 0.3, "[SGD] learning_rate 0.3 replaces base_lr 0.01 of the FactorScheduler"),
        ("adam", None, "[Adam] learning_rate 0.001 replaces base_lr 0.01 of the FactorScheduler"),
        ("sgd", None, None),
        ("sgd", 0.01, None),
    ],
)
def test_a_rate_that_replaces_the_schedules_is_told(
    name: str, learning_rate: float | None, said: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    given = {} if learning_rate is None else {"learning_rate": learning_rate}
    optimizer.create(name, lr_scheduler=lrs.FactorScheduler(10), **given)
    assert caplog.messages == ([said] if said else [])


def test_ftrl_leaves_a_schedule_its_rate(caplog: pytest.LogCaptureFixture) -> None:
    for given in ({}, {"learning_rate": 0.3}):
        made = optimizer.Ftrl(lr_scheduler=lrs.FactorScheduler(10, base_lr=0.05), **given)
        assert made.learning_rate == 0.05
    assert optimizer.Ftrl(learning_rate=0.3).learning_rate == 0.3
    assert optimizer.Ftrl().learning_rate == 0.1
    assert not caplog.messages


def test_a_rate_that_a_schedule_does_not_take_is_told(caplog: pytest.LogCaptureFixture) -> None:
    schedule = lrs.PolyScheduler(10, base_lr=0.2)
    optimizer.create("sgd", learning_rate=0.1, lr_scheduler=schedule)
    assert caplog.messages == [
        "[SGD] learning_rate 0.1 replaces base_lr 0.2 of the PolyScheduler, whose rates are computed from 0.2 all the same"
    ]
    assert schedule(1) == pytest.approx(0.2 * 0.9**2)


def test_a_program_may_set_the_rate_between_updates() -> None:
    schedule = lrs.FactorScheduler(step=10, factor=0.5, base_lr=1.0)
    assert schedule(11) == schedule.base_lr == 0.5
    schedule.base_lr = 0.3
    assert [schedule(n) for n in (12, 20, 21)] == [0.3, 0.3, 0.15]


@pytest.mark.parametrize("factor", [0.5, 1.0])
def test_a_rate_that_changes_no_more_is_found_at_once(factor: float) -> None:
    schedule = lrs.FactorScheduler(step=2, factor=factor, base_lr=1.0)
    assert schedule(10**15) == max(factor**10**6, 1e-8)
    assert schedule.count == 10**15 - 2
    schedule.rewind(3)
    assert schedule(3) == factor and schedule.count == 2


def loop_of_mxnet(schedule: lrs.FactorScheduler, num_update: int) -> float:
    rate, count = schedule.base_lr, schedule.count
    while num_update > count + schedule.step:
        count += schedule.step
        rate *= schedule.factor
        rate = max(rate, schedule.stop_factor_lr)
    return rate


@pytest.mark.long
@pytest.mark.parametrize(("step", "factor"), [(1, 0.9999), (1, 0.999999), (3, 0.9999999), (7, 0.97)])
def test_many_steps_at_once_have_the_bits_of_single_ones(step: int, factor: float) -> None:
    at_once, single = (lrs.FactorScheduler(step, factor, base_lr=0.3) for _ in range(2))
    for last in (1, 20, 5_000, 700_001):
        expected = loop_of_mxnet(at_once, last)
        assert at_once(last) == expected
    for last in range(1, 20_001):
        single(last)
    at_once.rewind(20_000)
    assert (at_once.count, at_once.base_lr) == (single.count, single.base_lr)
    assert at_once(700_001) == loop_of_mxnet(single, 700_001) == expected


@pytest.mark.parametrize("step", [2.5, 1000 / 32, 10 / 3, 1.1])
def test_steps_of_a_fraction_are_those_of_mxnet_and_go_back(step: float) -> None:
    at_once, single = (lrs.FactorScheduler(step, 0.999, base_lr=0.3) for _ in range(2))
    rates = []
    for update in range(1, 3001):
        expected = loop_of_mxnet(single, update)
        assert single(update) == expected
        rates.append((single.count, expected))
    assert (at_once(3000), at_once.count) == (expected, single.count)
    for update in (2500, 1234, 37, 1):
        for schedule in (single, at_once):
            schedule.rewind(update)
            assert (schedule.count, schedule(update)) == rates[update - 1]


def test_updates_that_are_floats_have_the_rates_of_whole_ones() -> None:
    floats, whole = (lrs.FactorScheduler(10, 0.5, base_lr=1.0) for _ in range(2))
    assert [floats(float(n)) for n in range(60)] == [whole(n) for n in range(60)]


def test_an_epoch_of_a_broken_batch_is_a_step() -> None:
    made = optimizer.SGD(learning_rate=0.1, lr_scheduler=lrs.FactorScheduler(step=1000 / 32, factor=0.9))
    updater, weight = optimizer.get_updater(made), nd.ones((2,))
    for _ in range(40):
        updater(0, weight * 0, weight)
    assert made.learning_rate == 0.1 * 0.9


@pytest.mark.parametrize("step", [1, 1.5])
@pytest.mark.parametrize("factor", [0.99999, 1 - 1e-9, math.nextafter(1, 0), -0.5, 0.0])
def test_a_saved_count_of_any_size_takes_no_time(factor: float, step: float) -> None:
    schedule = lrs.FactorScheduler(step, factor, base_lr=0.1)
    start = time.process_time()
    assert schedule(2**62) == 1e-8
    assert schedule.count == pytest.approx(2**62 - step, rel=1e-15)
    assert time.process_time() - start < 1, "MXNet's loop needs minutes to centuries"


@pytest.mark.long
@pytest.mark.parametrize("step", [2, 2.5])
def test_a_power_stands_for_more_steps_than_a_loop_can_make(step: float) -> None:
    schedule = lrs.FactorScheduler(step, 1 - 1e-8, base_lr=0.1)
    expected = loop_of_mxnet(schedule, 6_000_000)
    assert schedule(6_000_000) == pytest.approx(expected, rel=3e6 * 2**-53)
    schedule.rewind(400_000)
    assert schedule.base_lr == loop_of_mxnet(lrs.FactorScheduler(step, 1 - 1e-8, base_lr=0.1), 400_000)


def test_drops_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    schedules = (
        lrs.FactorScheduler(step=10, factor=0.5, base_lr=0.1, stop_factor_lr=0.04),
        lrs.MultiFactorScheduler(step=[5, 8], factor=0.1, base_lr=0.1),
    )
    with caplog.at_level(logging.INFO):
        for schedule in schedules:
            for update in (1, 5, 6, 6, 10, 11, 21):
                schedule(update)
        lrs.FactorScheduler(step=1, factor=0.5, base_lr=0.1)(5)  # MXNet has a line for each of the four
    assert caplog.messages == [  # MXNet 1.9.1's
        "Update[11]: Change learning rate to 5.00000e-02",
        "Update[21]: now learning rate arrived at 4.00000e-02, will not change in the future",
        "Update[6]: Change learning rate to 1.00000e-02",
        "Update[10]: Change learning rate to 1.00000e-03",
        "Update[5]: Change learning rate to 6.25000e-03",
    ]


@pytest.mark.parametrize("kind", [lrs.PolyScheduler, lrs.CosineScheduler])
def test_falling_schedules_go_from_base_to_final(kind: type) -> None:
    schedule = kind(100, base_lr=1.0, final_lr=0.1)
    values = [schedule(n) for n in range(101)]
    assert values[0] == 1.0 and values[-1] == pytest.approx(0.1)
    assert all(b <= a for a, b in zip(values, values[1:], strict=False))
    assert lrs.CosineScheduler(100, 1.0)(50) == pytest.approx((1 + math.cos(math.pi / 2)) / 2)


@pytest.mark.parametrize("kind", [lrs.PolyScheduler, lrs.CosineScheduler])
def test_training_that_goes_on_after_the_last_update_has_the_final_rate(kind: type) -> None:
    assert kind(100, base_lr=1.0, final_lr=0.1)(101) == 0.1, "MXNet starts again with base_lr"
    assert kind(10, base_lr=1.0, final_lr=0.1, warmup_steps=10)(10) == 0.1


def test_warm_up_rises_to_the_base() -> None:
    schedule = lrs.LRScheduler(1.0, warmup_steps=10, warmup_begin_lr=0.0)
    assert [schedule(n) for n in (0, 5, 10)] == [0.0, 0.5, 1.0]


@pytest.mark.parametrize(
    "make",
    [
        lambda: lrs.FactorScheduler(0),
        lambda: lrs.FactorScheduler(1, factor=1.1),
        lambda: lrs.MultiFactorScheduler([3, 2]),
        lambda: lrs.LRScheduler(0.1, warmup_begin_lr=0.2),
        lambda: lrs.LRScheduler(0.1, warmup_mode="jump"),
    ],
)
def test_wrong_settings_are_refused(make: object) -> None:
    with pytest.raises(ArgumentError):
        make()  # type: ignore[operator]
