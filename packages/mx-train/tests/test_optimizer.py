# SPDX-License-Identifier: Apache-2.0
import inspect
import json
import pickle
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mx_core import plugins
from mx_core.errors import ArgumentError, FileFormatError
from mx_ndarray import nd, random, records
from mx_train import lr_scheduler, metric, optimizer
from testkit.oracle import ORACLE

DATA = Path(__file__).parent / "data"


NAMES = (
    "sgd", "nag", "signum", "dcasgd", "adam", "adamax", "nadam", "rmsprop", "ftrl", "ftml", "adagrad", "adadelta",
    "lamb", "lars", "lbsgd", "ccsgd",
)  # fmt: skip
RECORDED = json.loads((ORACLE / "training" / "optimizers.json").read_text())


@pytest.mark.parametrize("case", RECORDED["cases"], ids=lambda c: f"{c['optimizer']} {c['settings']}")
def test_steps_are_those_recorded_from_mxnet(case: dict[str, Any]) -> None:
    made = optimizer.create(case["optimizer"], param_idx2name={0: "w_weight"}, **case["settings"])
    updater, weight = optimizer.get_updater(made), nd.array(RECORDED["start"])
    for gradient in RECORDED["gradients"]:
        updater(0, nd.array(gradient), weight)
    np.testing.assert_allclose(weight.asnumpy().ravel(), case["weight"], rtol=2e-5, atol=1e-6)


def tree(state: Any) -> Any:
    """A state as it is recorded: nested lists, with the type of each array before its values."""
    if isinstance(state, nd.NDArray):
        return [np.dtype(state.dtype).name, state.asnumpy().ravel().tolist()]
    return [tree(part) for part in state] if isinstance(state, (list, tuple)) else state


def assert_close(found: Any, recorded: Any) -> None:
    if isinstance(recorded, list) and recorded and isinstance(recorded[0], float):
        np.testing.assert_allclose(found, recorded, rtol=2e-3, atol=2e-3)
    elif isinstance(recorded, list):
        assert len(found) == len(recorded)
        for a, b in zip(found, recorded, strict=True):
            assert_close(a, b)
    else:
        assert found == recorded


@pytest.mark.parametrize("case", RECORDED["mixed"], ids=lambda c: f"{c['optimizer']} {c['settings']}")
def test_states_of_float16_weights_are_ordered_as_in_mxnet(case: dict[str, Any]) -> None:
    settings = {**case["settings"], "multi_precision": True}
    made = optimizer.create(case["optimizer"], param_idx2name={0: "w_weight"}, **settings)
    updater, weight = optimizer.get_updater(made), nd.array(RECORDED["start"], dtype="float16")
    for gradient in RECORDED["gradients"]:
        updater(0, nd.array(gradient, dtype="float16"), weight)
    np.testing.assert_allclose(weight.asnumpy().ravel(), case["weight"], rtol=2e-3)
    assert_close(tree(updater.states[0]), case["state"])


def test_langevin_dynamics_draw_from_the_posterior() -> None:
    """Of a standard normal, whose gradient is the position."""
    updater = optimizer.get_updater(optimizer.SGLD(learning_rate=0.1))
    random.seed(0)
    weight, seen = nd.zeros((2000,)), []
    for step in range(200):
        updater(0, weight.copy(), weight)
        if step >= 100:
            seen.append(weight.asnumpy())
    assert np.mean(seen) == pytest.approx(0, abs=0.05) and np.std(seen) == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize("name", NAMES)
def test_every_optimizer_descends_a_parabola(name: str) -> None:
    settings: dict[str, Any] = {
        "adadelta": {"learning_rate": 1.0},
        "ftrl": {"learning_rate": 1.0},
        "ftml": {"learning_rate": 0.5},
        "lars": {"learning_rate": 5.0},
    }.get(name, {"learning_rate": 0.05})
    updater = optimizer.get_updater(optimizer.create(name, **settings))
    weight = nd.array([3.0, -2.0, 0.5])
    start = float((weight * weight).sum().asscalar())
    for _ in range(200):
        updater(0, 2 * weight, weight)
    assert float((weight * weight).sum().asscalar()) < 0.5 * start


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", NAMES)
def test_small_steps_of_short_weights_add_up_in_a_copy(name: str, dtype: str) -> None:
    """Every weight is what a float32 weight with the same gradients is, rounded."""
    short, long = (
        optimizer.get_updater(optimizer.create(name, learning_rate=1e-3, multi_precision=many))
        for many in (True, False)
    )
    weight, exact = nd.ones((3,), dtype=dtype), nd.ones((3,))
    for _ in range(100):
        short(0, nd.ones((3,), dtype=dtype), weight)
        long(0, nd.ones((3,)), exact)
    assert weight.dtype == nd.ones((1,), dtype=dtype).dtype
    np.testing.assert_array_equal(weight.asnumpy(), exact.astype(dtype).asnumpy())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_short_weight_moves_by_a_hundred_small_steps(dtype: str) -> None:
    made, weight = optimizer.SGD(learning_rate=1e-3, multi_precision=True), nd.ones((1,), dtype=dtype)
    state = made.create_state_multi_precision(0, weight)
    for _ in range(100):
        made.update_multi_precision(0, weight, nd.ones((1,), dtype=dtype), state)
    assert float(weight.asscalar()) == pytest.approx(0.9, rel=2**-8)


def test_sgd_momentum_is_the_textbook_formula() -> None:
    updater = optimizer.get_updater(optimizer.SGD(learning_rate=0.1, momentum=0.9, wd=0.01, rescale_grad=0.5))
    weight, w, m = nd.array([1.0, 2.0]), np.array([1.0, 2.0]), np.zeros(2)
    for step in range(5):
        g = np.array([0.3, -0.1]) * (step + 1)
        updater("w_weight", nd.array(g), weight)
        m = 0.9 * m - 0.1 * (0.5 * g + 0.01 * w)
        w = w + m
    np.testing.assert_allclose(weight.asnumpy(), w, rtol=1e-5)


def test_adam_corrects_its_bias() -> None:
    updater = optimizer.get_updater(optimizer.Adam(learning_rate=0.1))
    weight = nd.array([1.0])
    updater(0, nd.array([1e-3]), weight)
    np.testing.assert_allclose(
        weight.asnumpy(), [0.9], atol=1e-4
    )  # the first step is lr, whatever the gradient


def test_rates_by_name_and_schedule() -> None:
    made = optimizer.create(
        "sgd", learning_rate=1.0, lr_scheduler=lr_scheduler.FactorScheduler(2, 0.5), wd=0.1,
        param_idx2name={0: "a_weight", 1: "a_bias"},
    )  # fmt: skip
    made.set_lr_mult({"a_bias": 2.0})
    assert (made._get_lrs([0, 1]), made._get_wds([1, 0])) == ([1.0, 2.0], [0.0, 0.1])
    updater = optimizer.get_updater(made)
    weight, bias = nd.ones((1,)), nd.ones((1,))
    updater(0, nd.zeros((1,)), weight)
    updater(1, nd.ones((1,)), bias)
    np.testing.assert_allclose(weight.asnumpy(), [0.9], rtol=1e-6)  # decayed
    np.testing.assert_allclose(bias.asnumpy(), [-1.0], rtol=1e-6)  # twice the rate, no decay
    for _ in range(2):
        updater(0, nd.zeros((1,)), weight)
    assert made.learning_rate == 0.5


def test_states_round_trip() -> None:
    first = optimizer.get_updater(optimizer.Adam())
    weight = nd.ones((2, 3))
    first(0, nd.ones((2, 3)), weight)
    second = optimizer.get_updater(optimizer.Adam())
    second.set_states(first.get_states())
    for a, b in zip(first.states[0], second.states[0], strict=True):
        np.testing.assert_array_equal(a.asnumpy(), b.asnumpy())


def test_states_written_by_mxnet_are_read() -> None:
    updater = optimizer.get_updater(optimizer.Adam())
    updater.set_states((DATA / "lenet-0003.states").read_bytes())
    assert len(updater.states) > 4
    mean, var = updater.states[0]
    assert mean.shape == var.shape and float(var.min().asscalar()) >= 0


def test_states_of_every_kind_round_trip_with_update_counts() -> None:
    first = optimizer.get_updater(optimizer.Adam())
    for _ in range(7):
        first(0, nd.ones((2, 3)), nd.ones((2, 3)))
    first.states |= {
        "named": (None, [1, -(2**40), 2.5, "é", True], {"a": nd.ones((0, 3))}),
        5: np.float32(1.5),
    }
    second = optimizer.get_updater(optimizer.Adam())
    second.set_states(first.get_states(dump_optimizer=True))
    assert second.optimizer.num_update == 7
    none, plain, table = second.states["named"]
    assert none is None and plain == [1, -(2**40), 2.5, "é", True] and table["a"].shape == (0, 3)
    assert second.states[5] == 1.5
    first.states["function"] = print
    with pytest.raises(ArgumentError, match="got <built-in function print>"):
        first.get_states()


def test_states_pickled_by_earlier_versions_are_read() -> None:
    state = (nd.ones((2,)), nd.zeros((2,)))
    made = optimizer.Adam()
    made._index_update_count = {0: 3}
    updater = optimizer.get_updater(optimizer.Adam())
    for protocol in range(6):
        updater.set_states(pickle.dumps(({0: state}, made), protocol))
        assert updater.states[0][0].asnumpy().tolist() == [1, 1] and updater.optimizer.num_update == 3


def test_settings_of_a_dumped_optimizer_that_are_not_taken_are_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    first = optimizer.get_updater(optimizer.SGD(learning_rate=0.3, momentum=0.9, wd=0.1))
    first(0, nd.ones((2,)), nd.ones((2,)))
    saved = first.get_states(dump_optimizer=True)
    optimizer.get_updater(optimizer.SGD(learning_rate=0.3, momentum=0.9, wd=0.1)).set_states(saved)
    other = optimizer.SGD(learning_rate=0.01, momentum=0.9, wd=0.1)
    optimizer.get_updater(other).set_states(first.get_states())
    assert not caplog.records
    optimizer.get_updater(other).set_states(saved)
    unknown = pickle.dumps(({}, first.optimizer)).replace(b"SGD", b"ABC")  # as of another program's class
    optimizer.get_updater(optimizer.Adam()).set_states(unknown)
    start = "The optimizer saved with the states is not used, only its update counts: "
    assert caplog.messages == [
        f"{start}lr 0.3 in the file, 0.01 here", f"{start}ABC in the file, Adam here",
    ]  # fmt: skip
    assert other.lr == 0.01 and other.num_update == 1


def test_the_schedule_of_a_dumped_optimizer_is_compared(caplog: pytest.LogCaptureFixture) -> None:
    def scheduled(step: int) -> optimizer.Optimizer:
        return optimizer.Adam(
            lr_scheduler=lr_scheduler.FactorScheduler(step, 0.5, base_lr=0.1), learning_rate=0.1
        )

    made = scheduled(3)
    made._index_update_count = {0: 8}
    assert made.lr_scheduler is not None and made.lr_scheduler(8) < 0.1  # which changes its base_lr
    dump = pickle.dumps(({}, made))
    optimizer.get_updater(scheduled(3)).set_states(dump)
    assert not caplog.records
    optimizer.get_updater(scheduled(5)).set_states(dump)
    optimizer.get_updater(optimizer.Adam(learning_rate=0.1)).set_states(dump)
    assert [message.split(": ")[1] for message in caplog.messages] == [
        "lr_scheduler.step 3 in the file, 5 here", "lr_scheduler FactorScheduler in the file, None here",
    ]  # fmt: skip


def test_an_unknown_name_tells_of_a_plugin_that_did_not_load(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def hint(kind: str, name: str) -> str:
        asked.append((kind, name))
        return "Plug-in 'acme' was not loaded."

    monkeypatch.setattr(plugins, "missing_hint", hint)
    with pytest.raises(
        ArgumentError, match=r"unknown optimizer 'Lion'; known: .* Plug-in 'acme' was not loaded\.$"
    ):
        optimizer.create("Lion")
    with pytest.raises(ArgumentError, match="Plug-in 'acme' was not loaded"):
        metric.create("within")
    assert asked == [("optimizers", "lion"), ("metrics", "within")]


def name(module: str, name: str) -> bytes:
    return b"".join(b"\x8c" + bytes([len(text)]) + text.encode() for text in (module, name)) + b"\x93"


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x04" + name("mxnet.optimizer.x", "Y") + b"N}\x8c\x0c__setstate__"
        + name("mxnet.ndarray.ndarray", "NDArray") + b"s\x86b0}.",
        b"\x80\x04" + name("mx_ndarray.records", "restore") + b"N}\x8c\x0c__defaults__\x8c\x03badK\x07\x86s\x86b0}.",
    ],
)  # fmt: skip
def test_a_state_file_changes_nothing_in_the_process(data: bytes) -> None:
    good = optimizer.get_updater(optimizer.Adam())
    good(0, nd.ones((2,)), nd.ones((2,)))
    saved = good.get_states(dump_optimizer=True)
    with pytest.raises(FileFormatError, match="not allowed"):
        optimizer.get_updater(optimizer.Adam()).set_states(data)
    after = optimizer.get_updater(optimizer.Adam())
    after.set_states(saved)
    assert after.optimizer.num_update == 1
    assert records.restore.__defaults__ == ("cpu", 0)


def test_a_state_file_takes_no_more_memory_than_it_has_bytes() -> None:
    tracemalloc.start()
    try:
        with pytest.raises(FileFormatError):
            optimizer.get_updater(optimizer.Adam()).set_states(b"\x80\x04}r\xff\xff\xff\x7f")
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return print, ("executed",)


@pytest.mark.parametrize(
    "data", [b"", b"garbage", pickle.dumps(Evil()), pickle.dumps([1, 2]), pickle.dumps(object)]
)
def test_hostile_states_are_refused(data: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(FileFormatError, match="optimizer states"):
        optimizer.get_updater(optimizer.SGD()).set_states(data)
    assert "executed" not in capsys.readouterr().out


def test_unknown_names_have_a_hint() -> None:
    with pytest.raises(ArgumentError, match="known: .*adam.*Did you mean 'adam'"):
        optimizer.create("adamm")
    with pytest.raises(
        ArgumentError, match=r"^\[SGD\] unknown arguments: lerning_rate; .*Did you mean 'learning_rate'\?$"
    ):
        optimizer.create("sgd", lerning_rate=1)
    with pytest.raises(
        ArgumentError, match="lr; known: learning_rate, beta1, .*, wd, .* mean 'learning_rate'"
    ):
        optimizer.create("adam", lr=0.1)
    with pytest.raises(ArgumentError, match="Did you mean 'wd'"):
        optimizer.create("sgd", weight_decay=0.1)
    with pytest.raises(ArgumentError, match="use_fused_step$"):
        optimizer.create("sgd", qqq=0.1)


def test_registered_classes_are_found() -> None:
    @optimizer.register
    class Still(optimizer.Optimizer):
        def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
            pass

    assert isinstance(optimizer.create("still"), Still)


def test_large_batches_are_gathered_without_keeping_the_callers_arrays() -> None:
    made = optimizer.create("lbsgd", learning_rate=1.0, batch_scale=3, warmup_epochs=0)
    updater, weight, gradient = optimizer.get_updater(made), nd.zeros((2,)), nd.zeros((2,))
    for values, expected in (([1.0, 2.0], 0.0), ([3.0, 4.0], 0.0), ([5.0, 0.0], -3.0 * 3)):
        gradient[:] = values
        updater(0, gradient, weight)
        assert weight.asnumpy()[0] == expected
    with pytest.raises(ArgumentError, match="batch_scale: expected at least 1, got 0"):
        optimizer.create("lbsgd", batch_scale=0)


def test_places_and_defaults_of_parameters_are_those_of_mxnet() -> None:
    places = {
        optimizer.SGD: ["momentum", "lazy_update"], optimizer.NAG: ["momentum"], optimizer.AdaGrad: ["eps"],
        optimizer.AdaDelta: ["rho", "epsilon"], optimizer.FTML: ["beta1", "beta2", "epsilon"],
        optimizer.DCASGD: ["momentum", "lamda"], optimizer.Signum: ["learning_rate", "momentum", "wd_lh"],
        optimizer.LARS: ["momentum", "lazy_update", "eta", "eps", "momentum_correction"],
    }  # fmt: skip
    for kind, names in places.items():
        given = inspect.signature(kind).parameters.values()
        assert [p.name for p in given if p.kind is p.POSITIONAL_OR_KEYWORD] == names
    assert optimizer.NAG().momentum == 0 and optimizer.Signum().momentum == 0.9


@pytest.mark.parametrize("name", ["learning_rate", "wd", "rescale_grad", "clip_gradient", "momentum"])
def test_settings_are_numbers(name: str) -> None:
    with pytest.raises(ArgumentError, match=rf"\[SGD\] {name}: expected a number, got 'a'"):
        optimizer.create("sgd", **{name: "a"})
    assert optimizer.create("sgd", **{name: np.float32(0.5)}) is not None


@pytest.mark.parametrize(
    "name",
    ["adam", "adamax", "nadam", "rmsprop", "ftrl", "ftml", "adagrad", "adadelta", "lamb", "dcasgd"],
)
def test_a_state_that_was_not_created_is_named(name: str) -> None:
    made = optimizer.create(name)
    with pytest.raises(ArgumentError, match="state: expected what create_state returns, got None"):
        made.update(0, nd.ones((1,)), nd.ones((1,)), None)


def test_the_registry_of_optimizers_is_a_mapping() -> None:
    registry = optimizer.Optimizer.opt_registry
    assert registry["sgd"] is optimizer.SGD and registry.get("nothing") is None
    assert "adam" in registry and "nothing" not in registry
    assert {"sgd", "adam", "ftrl"} <= set(registry.keys()) and len(registry) == len(list(registry))
    with pytest.raises(KeyError, match="nothing"):
        registry["nothing"]


@pytest.mark.parametrize("name", ["lars", "lbsgd"])
def test_a_negative_limit_is_none(name: str) -> None:
    def after_a_step(**given: float) -> list[float]:
        weight = nd.array([1, -2])
        updater = optimizer.get_updater(optimizer.create(name, learning_rate=0.5, **given))
        updater(0, nd.array([3, -4]), weight)
        found: list[float] = weight.asnumpy().tolist()
        return found

    assert after_a_step(clip_gradient=-1) == after_a_step()


def test_lars_decays_weights_alone() -> None:
    names = {0: "fc_weight", 1: "bn_gamma", 2: "fc_bias"}
    lars = optimizer.create("lars", learning_rate=0.1, wd=0.5, param_idx2name=names)
    assert [lars._get_wd(index) for index in names] == [0.5, 0.0, 0.0]
    sgd = optimizer.create("sgd", learning_rate=0.1, wd=0.5, param_idx2name=names)
    assert [sgd._get_wd(index) for index in names] == [0.5, 0.5, 0.0]


def test_the_parameters_of_a_step_have_one_rate() -> None:
    """MXNet's LBSGD gives the first one the rate of the step before, its LARS corrects the first one's momentum alone."""
    for name in ("lbsgd", "lars"):
        schedule = lr_scheduler.MultiFactorScheduler(step=[1], factor=0.1, base_lr=1.0)
        names = {0: "a_bias", 1: "b_bias"}
        made = optimizer.create(name, momentum=0.9, lr_scheduler=schedule, param_idx2name=names)
        updater = optimizer.get_updater(made)
        weights = [nd.zeros((1,)) for _ in names]
        for _ in range(2):
            for index, weight in enumerate(weights):
                updater(index, nd.ones((1,)), weight)
        # LARS takes the momentum in the new rate
        second = 0.9 * (0.1 if name == "lars" else 1.0) + 0.1
        assert [weight.asscalar() for weight in weights] == [pytest.approx(-1 - second)] * 2, name


def test_nadam_goes_on_where_it_was_begun() -> None:
    straight = optimizer.get_updater(optimizer.Nadam(learning_rate=0.1))
    weight = nd.array([1.0, -2.0])
    for step in range(3):
        straight(0, nd.array([0.5, step]), weight)
    state = [part.copy() for part in straight.states[0]]
    begun, other = optimizer.Nadam(learning_rate=0.1, begin_num_update=3), weight.copy()
    straight(0, nd.array([0.3, 1.0]), weight)
    begun.update(0, other, nd.array([0.3, 1.0]), tuple(state))
    np.testing.assert_array_equal(other.asnumpy(), weight.asnumpy())


def test_rates_by_row_do_not_decay_and_need_rows() -> None:
    made = optimizer.create("groupadagrad", wd=0.1, param_idx2name={0: "a_weight"})
    with pytest.raises(ArgumentError, match=r"\[GroupAdaGrad\] wd: expected 0, got 0.1 for 'a_weight'"):
        optimizer.get_updater(made)(0, nd.ones((2, 2)), nd.ones((2, 2)))
    with pytest.raises(ArgumentError, match=r"weight 'a_weight': expected 2 axes, got shape \(2,\)"):
        optimizer.get_updater(made)(0, nd.ones((2,)), nd.ones((2,)))


def test_a_step_of_adam_in_float16_is_computed_in_float32() -> None:
    """The first one is the rate, whatever the gradient; MXNet's is 0.1019."""
    weight = nd.zeros((3,), dtype="float16")
    optimizer.get_updater(optimizer.Adam(learning_rate=0.1))(
        0, nd.array([3, 1, 0.1], dtype="float16"), weight
    )
    np.testing.assert_allclose(weight.asnumpy(), np.full(3, -0.1), rtol=1e-3)


@pytest.mark.parametrize("name", ["adagrad", "rmsprop", "adadelta", "ftrl", "groupadagrad"])
def test_weights_in_float16_train_without_a_copy(name: str) -> None:
    updater, start = optimizer.get_updater(optimizer.create(name)), np.full((2, 2), 0.5, np.float16)
    weight = nd.array(start, dtype="float16")
    for _ in range(3):
        updater(0, nd.ones((2, 2), dtype="float16"), weight)
    assert weight.dtype == np.float16 and (weight.asnumpy() < start).all()
