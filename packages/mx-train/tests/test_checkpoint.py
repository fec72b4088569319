# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of a training; `tests/moments/test_checkpoints.py` kills trainings."""

from __future__ import annotations

import json
import random as python
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mx_core import cpu
from mx_core.errors import ArgumentError, FileFormatError, MXNetError, NotAFolderError
from mx_io.io import DataBatch, DataDesc, DataIter, NDArrayIter
from mx_ndarray import nd, random
from mx_symbol import sym
from mx_train import initializer, lr_scheduler, metric
from mx_train import optimizer as opt
from mx_train.checkpoint import Training, content
from mx_train.checkpoint.generators import go_on, states, told
from mx_train.checkpoint.progress import numbers_of, set_numbers
from mx_train.module import Module

VALUES = np.random.RandomState(1).uniform(-1, 1, (20, 3)).astype(np.float32)


def net(hidden: int = 2) -> Any:
    return sym.SoftmaxOutput(
        sym.FullyConnected(sym.var("data"), num_hidden=hidden, name="fc"), name="softmax"
    )


def data(shuffle: bool = False) -> NDArrayIter:
    return NDArrayIter(VALUES, np.arange(20) % 2, 5, shuffle=shuffle)


def fit(training: Training, module: Module, source: Any, epochs: int = 3, **settings: Any) -> list[str]:
    seen: list[str] = []
    module.fit(
        training.watch(source), begin_epoch=training.epoch, num_epoch=epochs, eval_metric="ce", optimizer="adam",
        batch_end_callback=lambda p: seen.append(f"{p.epoch}.{p.nbatch} {p.eval_metric.get()[1]!r}"), **settings,
    )  # fmt: skip
    return seen


def values(module: Module) -> dict[str, Any]:
    return {name: value.asnumpy().tolist() for name, value in module.get_params()[0].items()}


class Stopped(Exception):
    pass


class Stopping:
    """Data that stop the program after some batches."""

    def __init__(self, source: Any, after: int) -> None:
        self.source, self.left = source, after

    def __getattr__(self, name: str) -> Any:
        return getattr(self.source, name)

    def __iter__(self) -> Iterator[Any]:
        for batch in self.source:
            if not self.left:
                raise Stopped
            self.left -= 1
            yield batch


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], dict[str, Any]]:
    """What a training that nothing stops prints, and its parameters at the end."""
    random.seed(3)
    module = Module(net())
    return fit(Training(tmp_path_factory.mktemp("whole"), module, period=1), module, data()), values(module)


@pytest.mark.parametrize("stop", range(2, 12))
def test_a_module_goes_on_with_the_next_batch(
    stop: int, whole: tuple[list[str], dict[str, Any]], tmp_path: Path
) -> None:
    expected, parameters = whole
    random.seed(3)
    first = Module(net())
    training = Training(tmp_path / "run", first, period=1)
    assert (training.epoch, training.batch, training.resumed) == (0, 0, False)
    with pytest.raises(Stopped):
        fit(training, first, Stopping(data(), stop))
    second = Module(net())
    resumed = Training(tmp_path / "run", second, period=1)
    assert resumed.resumed
    assert len(expected) == 12
    seen = fit(resumed, second, data())
    done = stop if stop % 4 == 0 else stop - 1  # the batch before that which was not given has been asked for
    assert seen == expected[done:]
    assert values(second) == parameters
    assert not resumed.resumed


def test_old_checkpoints_are_removed_and_damaged_ones_passed_over(tmp_path: Path) -> None:
    module = Module(net())
    fit(Training(tmp_path, module, period=1, keep=3), module, data())
    files = sorted(tmp_path.iterdir())
    assert [path.name for path in files] == [f"checkpoint-{step:010}.params" for step in (10, 11, 12)]
    files[-1].write_bytes(files[-1].read_bytes()[:-7])
    with pytest.warns(UserWarning, match="passed over: .*checkpoint-0000000012.params"):
        training = Training(tmp_path, Module(net()))
    assert (training.epoch, training.batch) == (2, 3)
    nd.save(str(files[1]), {"x": nd.ones(1)})
    files[0].write_bytes(b"")
    with pytest.warns(UserWarning), pytest.raises(FileFormatError, match="checkpoint-0000000012.params"):
        Training(tmp_path, Module(net()))


def test_damaged_checkpoints_do_not_count_as_kept(tmp_path: Path) -> None:
    module = Module(net())
    fit(Training(tmp_path, module, period=2, keep=4), module, data())
    steps = {step: tmp_path / f"checkpoint-{step:010}.params" for step in (6, 8, 9, 10, 12)}
    for step in (10, 12):
        steps[step].write_bytes(steps[step].read_bytes()[:100])
    again = Module(net())
    with pytest.warns(UserWarning, match="passed over"):
        training = Training(tmp_path, again, period=1)
    assert (training.epoch, training.batch) == (2, 0)
    with pytest.raises(Stopped):
        fit(training, again, Stopping(data(), 2))
    kept = [steps[8], steps[9], *(steps[step].with_suffix(".params.passed-over") for step in (10, 12))]
    assert sorted(tmp_path.iterdir()) == kept
    assert Training(tmp_path, Module(net())).batch == 1


def test_a_damaged_checkpoint_is_called_so_and_not_written_over(tmp_path: Path) -> None:
    module = Module(net())
    fit(Training(tmp_path, module, period=1), module, data(), 1)
    path = tmp_path / "checkpoint-0000000004.params"
    damaged = bytearray(path.read_bytes())
    damaged[damaged.index(b'"ended"')] ^= 1  # of the text, which is no JSON then
    path.write_bytes(damaged)
    again = Module(net())
    with pytest.warns(
        UserWarning,
        match=r"passed over: .*0000000004.params.*the file is damaged: the checksum .* is \w{8}, and it says \w{8}",
    ):
        training = Training(tmp_path, again, period=1)
    fit(training, again, data(), 1)
    assert path.with_suffix(".params.passed-over").read_bytes() == damaged
    assert Training(tmp_path, Module(net())).batch == 4
    last = Module(net())
    fit(Training(tmp_path, last, period=1), last, data(), 2)
    assert len(list(tmp_path.glob("*.passed-over"))) == 1


def test_each_damaged_byte_is_found(tmp_path: Path) -> None:
    module = Module(net())
    fit(Training(tmp_path, module, keep=1), module, data(shuffle=True), 1)
    (path,) = tmp_path.iterdir()
    place, optimizer, arrays = content.load(path)
    whole, rng, refused = path.read_bytes(), python.Random(5), 0
    for _ in range(400):
        damaged = bytearray(whole)
        damaged[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        try:
            found = content.load(path)
        except FileFormatError as error:
            assert str(path) in str(error)
            refused += 1
        else:  # bytes that nothing reads
            np.testing.assert_equal(found[:2], (place, optimizer))
            assert {k: [v.asnumpy().tolist() for v in each] for k, each in found[2].items()} == {
                k: [v.asnumpy().tolist() for v in each] for k, each in arrays.items()
            }
    assert refused > 380


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("epoch", None, "epoch: expected int, got None"),
        ("step", "7", "step: expected int, got '7'"),
        ("batch", -1, "batch: expected at least 0, got -1"),
        ("metric", [1], "metric: expected dict or null"),
        ("now", {"mx": {"seed": 1, "streams": []}, "numpy": ["MT19937", [1], 0, 0, 0.0]}, "states of random generators"),
        ("version", 99, "expected version 2, got 99"),
        (None, None, "it has no 'ended'"),
    ],
)  # fmt: skip
def test_the_checkpoint_before_one_that_says_nonsense_is_taken(
    name: str | None, value: Any, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = Module(net())
    fit(Training(tmp_path, module, period=1), module, data(), 1)
    path = tmp_path / "checkpoint-0000000004.params"
    place, optimizer, arrays = content.load(path)
    if name == "version":
        monkeypatch.setattr(content, "VERSION", value)
    elif name is None:
        del place["ended"]
    else:
        place[name] = value
    content.save(path, place, optimizer, arrays)
    monkeypatch.undo()
    with pytest.warns(UserWarning, match=f"passed over: {re.escape(str(path))}.*{message}"):
        training = Training(tmp_path, Module(net()))
    assert training.batch == 3


@pytest.mark.parametrize("text", [b"[" * 100_000, b"{", b"3", b"{}", b"\xff"])
def test_a_file_with_another_text_is_refused(text: bytes, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint-0000000004.params"
    place = nd.array(np.frombuffer(text, np.uint8), dtype=np.uint8)
    for arrays in ({"place": place, "states": place}, [place], {"place": nd.ones(1), "states": place}):
        nd.save(str(path), arrays)
        with pytest.raises(FileFormatError, match=re.escape(str(path))):
            content.load(path)


def test_errors_of_states_name_the_checkpoint(tmp_path: Path) -> None:
    module = Module(net())
    fit(Training(tmp_path, module), module, data(), 1)
    (path,) = tmp_path.iterdir()
    other = Module(net())
    training = Training(tmp_path, other)
    with pytest.raises(MXNetError, match=re.escape(str(path))) as raised:
        other.fit(training.watch(data()), begin_epoch=training.epoch, num_epoch=2, optimizer="sgd")
    assert "partial" not in str(raised.value)
    place, optimizer, arrays = content.load(path)
    place["metric"] = {"num_inst": ["array", "nothing", [1], [1]]}
    content.save(path, place, optimizer, arrays)
    with pytest.raises(MXNetError, match=f"{re.escape(str(path))}: what it holds is of another program"):
        fit(Training(tmp_path, other := Module(net())), other, data())


def test_a_schedule_and_counts_go_on(tmp_path: Path) -> None:
    schedule = lr_scheduler.FactorScheduler(3, 0.5, base_lr=0.1)
    settings: dict[str, Any] = {"optimizer_params": {"learning_rate": 0.1, "lr_scheduler": schedule}}
    module = Module(net())
    fit(Training(tmp_path, module), module, data(), 2, **settings)
    again = Module(net())
    training = Training(tmp_path, again)
    other = lr_scheduler.FactorScheduler(3, 0.5, base_lr=0.1)
    fit(training, again, data(), 2, optimizer_params={"learning_rate": 0.1, "lr_scheduler": other})
    assert values(again) == values(module)
    assert (other.base_lr, other.count) == (schedule.base_lr, schedule.count) != (0.1, 0)
    optimizer = again._optimizer
    assert optimizer is not None
    assert optimizer.num_update == 8


def test_another_network_is_refused(tmp_path: Path) -> None:
    module = Module(net())
    fit(Training(tmp_path, module), module, data(), 1)
    renamed = sym.SoftmaxOutput(
        sym.FullyConnected(sym.var("data"), num_hidden=2, name="other"), name="softmax"
    )
    other = Module(renamed)
    with pytest.raises(ArgumentError, match="the checkpoint has 'fc_weight', which this network has not"):
        fit(Training(tmp_path, other), other, data())
    two = Module(net(), context=[cpu(0), cpu(1)])
    with pytest.raises(ArgumentError, match="'fc_weight': the checkpoint has it of 1 contexts, expected 2"):
        fit(Training(tmp_path, two), two, data())


def two_layers(hidden: int) -> Any:
    first = sym.FullyConnected(sym.var("data"), num_hidden=2, name="first")
    return sym.SoftmaxOutput(sym.FullyConnected(first, num_hidden=hidden, name="second"), name="softmax")


@pytest.mark.parametrize(
    ("hidden", "kind", "message"),
    [
        (3, "float32", "second_weight: expected shape (3, 2), type float32; the checkpoint has shape (2, 2), type float32"),
        (2, "float16", "first_weight: expected shape (2, 3), type float16; the checkpoint has shape (2, 3), type float32"),
    ],
)  # fmt: skip
def test_nothing_is_taken_into_a_module_of_other_shapes_or_types(
    hidden: int, kind: str, message: str, tmp_path: Path
) -> None:
    module = Module(two_layers(2))
    fit(Training(tmp_path, module), module, data(), 1)
    other = Module(two_layers(hidden))
    other.bind([DataDesc("data", (5, 3), np.dtype(kind).type)], [DataDesc("softmax_label", (5,))])
    other.init_params(initializer.One())
    before = values(other)
    with pytest.raises(ArgumentError, match=re.escape(message)):
        Training(tmp_path, other).restore()
    assert values(other) == before
    group = other._exec_group
    for name in ("first_weight", "second_weight"):
        assert (group.arrays([name], "arg_dict")[0][0].asnumpy() == 1).all()


def test_nothing_is_taken_into_a_block_of_another_type(tmp_path: Path) -> None:
    gluon = pytest.importorskip("mx_gluon")

    def made(kind: str) -> Any:
        block = gluon.nn.HybridSequential()
        block.add(gluon.nn.Dense(2, in_units=3), gluon.nn.Dense(2, in_units=2))
        block[1].cast(kind)
        block.initialize(initializer.One())
        return block, gluon.Trainer(block.collect_params(), "sgd")

    for _ in Training(tmp_path, *made("float32")).watch([1]):
        pass
    block, trainer = made("float16")
    block[0].weight.set_data(nd.zeros((2, 3)))
    with pytest.raises(
        ArgumentError,
        match=r"weight: expected shape \(2, 2\), type float16; the checkpoint has .* type float32",
    ):
        next(iter(Training(tmp_path, block, trainer).watch([1])))
    assert (block[0].weight.data().asnumpy() == 0).all()


@pytest.mark.parametrize("settings", [{"period": 0}, {"keep": 0}, {"period": 1.5}])
def test_wrong_settings_are_refused(settings: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=f"{next(iter(settings))}: expected at least 1"):
        Training(tmp_path, Module(net()), **settings)
    with pytest.raises(ArgumentError, match="expected a Module, or a block and its Trainer, got 3 and None"):
        Training(tmp_path, 3)
    with pytest.raises(ArgumentError, match="expected what can be iterated again"):
        Training(tmp_path, Module(net())).watch(iter([1]))


def test_fit_begins_in_the_epoch_of_the_checkpoint(tmp_path: Path) -> None:
    module = Module(net())
    fit(Training(tmp_path, module, period=1), module, data(), 2)
    again = Module(net())
    watched = Training(tmp_path, again).watch(data())
    with pytest.raises(
        ArgumentError, match="begin_epoch: expected 1, in which the training of these data is, got 0"
    ):
        again.fit(watched, num_epoch=3)


def test_a_store_needs_the_parameters_before_the_optimizer(tmp_path: Path) -> None:
    def made() -> Module:
        module = Module(net(), context=[cpu(0), cpu(1)])
        module.bind(data().provide_data, data().provide_label)
        module.init_params()
        return module

    module = made()
    module.init_optimizer()
    training = Training(tmp_path, module, period=1)
    for _ in training.watch(data()):
        pass
    late = made()
    late.init_optimizer()
    with pytest.raises(MXNetError, match="call restore\\(\\) between init_params and init_optimizer"):
        next(iter(Training(tmp_path, late).watch(data())))
    early = made()
    resumed = Training(tmp_path, early)
    assert resumed.restore()
    early.init_optimizer()
    assert list(resumed.watch(data())) == []
    assert values(early) == values(module)


class Counting(DataIter):
    """An iterator without `state_dict`, whose epochs go on where the former ended."""

    def __init__(self) -> None:
        super().__init__(1)
        self.provide_data = [DataDesc("data", (1, 3))]
        self.provide_label = [DataDesc("softmax_label", (1,))]
        self.place, self.end = 0, 3

    def reset(self) -> None:
        self.end = self.place + 3

    def next(self) -> DataBatch:
        if self.place == self.end:
            raise StopIteration
        self.place += 1
        return DataBatch([nd.full((1, 3), self.place)], [nd.zeros(1)])


def test_epochs_of_an_iterator_without_state_are_read_again(tmp_path: Path) -> None:
    module = Module(net())
    with pytest.raises(Stopped):
        fit(Training(tmp_path, module, period=1), module, Stopping(Counting(), 5))
    again, source = Module(net()), Counting()
    places = []
    training = Training(tmp_path, again, period=1)
    again.fit(
        training.watch(source), begin_epoch=training.epoch, num_epoch=3, optimizer="adam",
        batch_end_callback=lambda p: places.append(p.locals["data_batch"].data[0].asnumpy()[0, 0]),
    )  # fmt: skip
    assert places == [5, 6, 7, 8, 9]


def test_less_data_than_before_are_refused(tmp_path: Path) -> None:
    module = Module(net())
    with pytest.raises(Stopped):
        fit(Training(tmp_path, module, period=1), module, Stopping(Counting(), 3))
    again, source = Module(net()), Counting()
    source.end = 1
    with pytest.raises(ArgumentError, match="the checkpoint is after batch 3 of the epoch, got 1 batches"):
        fit(Training(tmp_path, again), again, source)


class Listed(list[Any]):
    """A loader of batches."""

    def __init__(self, count: int, size: int = 5) -> None:
        super().__init__(DataBatch([nd.ones((size, 3))], [nd.zeros(size)], pad=0) for _ in range(count))
        self.provide_data, self.provide_label = [("data", (size, 3))], [("softmax_label", (size,))]

    def reset(self) -> None:
        pass


def test_batches_of_another_number_or_size_are_refused_before_anything_is_taken(tmp_path: Path) -> None:
    for source, other, message in (
        (Listed(4), Listed(8), "expected a number of batches of 4, as in .*0000000004.params, got 8"),
        (data(), NDArrayIter(VALUES, np.arange(20) % 2, 4), "expected a batch size of 5, as in .*, got 4"),
    ):
        folder, module = tmp_path / type(source).__name__, Module(net())
        fit(Training(folder, module), module, source, 1)
        again = Module(net())
        with pytest.raises(ArgumentError, match=message):
            fit(Training(folder, again), again, other)
        assert not again.optimizer_initialized


@pytest.mark.parametrize("scheduled", [False, True])
def test_another_learning_rate_of_the_program_is_told(scheduled: bool, tmp_path: Path) -> None:
    def run(rate: float, epochs: int) -> Any:
        schedule = {"lr_scheduler": lr_scheduler.FactorScheduler(3, 0.5)} if scheduled else {}
        module = Module(net())
        settings = {"optimizer_params": {"learning_rate": rate, **schedule}}
        fit(Training(tmp_path, module), module, data(), epochs, **settings)
        return module._optimizer.learning_rate

    going_on = "the schedule of the checkpoint" if scheduled else r"0\.1"
    rates = [run(0.1, 1), run(0.1, 2)]
    for epochs in (3, 4):
        with pytest.warns(
            UserWarning, match=rf"of 0\.5, and gave 0\.1 at first; .* goes on with {going_on}: set"
        ):
            rates.append(run(0.5, epochs))
    rates.append(run(0.1, 5))
    assert rates == ([0.05, 0.025, 0.0125, 0.00625 / 2, 0.00625 / 4] if scheduled else [0.1] * 5)


def test_data_without_a_state_are_refused_after_data_with_one(tmp_path: Path) -> None:
    module = Module(net())
    fit(Training(tmp_path, module), module, data(), 1)
    again = Module(net())
    with pytest.raises(
        ArgumentError, match=r"state of its data \(.*rows.*\), and Counting takes none: the data are others"
    ):
        source = Counting()
        source.batch_size = 5
        fit(Training(tmp_path, again), again, source)


def test_the_state_of_other_data_is_refused(tmp_path: Path) -> None:
    class Others(Counting):
        def load_state_dict(self, state: Any) -> None:
            self.place = state["position"]

    module = Module(net())
    fit(Training(tmp_path, module), module, data(), 1)
    again = Module(net())
    with pytest.raises(
        ArgumentError, match="Others cannot take the state .* the data are others: KeyError\\('position'\\)"
    ):
        source = Others()
        source.batch_size = 5
        fit(Training(tmp_path, again), again, source)


def test_a_file_in_place_of_the_folder_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for path in (file, file / "below"):
        with pytest.raises(NotAFolderError, match=re.escape(str(path))):
            Training(path, Module(net()))


# ---- what a checkpoint has of other things ----


def test_generators_go_on() -> None:
    found = told(states([cpu()]))
    expected = [python.random(), np.random.uniform(), nd.random.uniform().asscalar()]
    go_on(found)
    assert [python.random(), np.random.uniform(), nd.random.uniform().asscalar()] == expected


class Thing:
    def __init__(self) -> None:
        self.number, self.name, self.nothing = 3, "a", None
        self.array = np.arange(6.0).reshape(2, 3)
        self.scalar = np.float32(0.1)
        self.pairs = {"x": [1, (2, np.int64(3))], 5: float("nan")}
        self.inner: Any = None
        self.function = len


def test_numbers_of_things_are_given_to_others() -> None:
    source, target = Thing(), Thing()
    source.inner, target.inner = Thing(), Thing()
    source.number, source.array = 4, source.array * 2
    source.pairs["x"] = [7]
    source.inner.number = 9
    kept = target.inner
    set_numbers(target, json.loads(json.dumps(numbers_of(source))))
    assert (target.number, target.inner, target.inner.number, target.function) == (4, kept, 9, len)
    assert target.array.tolist() == source.array.tolist()
    assert target.scalar == source.scalar
    assert type(target.scalar) is np.float32
    assert target.pairs["x"] == [7]
    assert np.isnan(target.pairs[5])


@pytest.mark.parametrize("name", ["acc", "f1", "mcc", "mse", ["ce", "acc"], "pcc"])
def test_metrics_go_on(name: Any) -> None:
    def update(*metrics: Any) -> None:
        label, prediction = nd.array([0, 1, 1]), nd.array([[0.3, 0.7], [0.2, 0.8], [0.9, 0.1]])
        for each in metrics:
            each.update([label], [prediction if name != "mse" else prediction[:, 0]])

    source, target = metric.create(name), metric.create(name)
    update(source)
    set_numbers(target, numbers_of(source))
    update(source, target)
    assert target.get() == source.get()
    assert target.get_global() == source.get_global()


def test_states_of_another_optimizer_are_refused_before_parameters_are_taken(tmp_path: Path) -> None:
    module = Module(net())
    fit(Training(tmp_path, module), module, data(), 1)
    again, source = Module(net()), data()
    again.bind(source.provide_data, source.provide_label)
    again.init_params()
    before = values(again)
    training = Training(tmp_path, again)
    for optimizer in ("sgd", opt.SGD()):
        with (
            pytest.raises(
                ArgumentError, match=r"checkpoint-.*of the optimizer Adam, and the one used is SGD"
            ),
            pytest.warns(UserWarning, match="parameters are initialized already"),
        ):
            again.fit(training.watch(source), begin_epoch=0, num_epoch=2, optimizer=optimizer)
    assert values(again) == before != values(module)
    again.init_optimizer(optimizer="sgd")
    with pytest.raises(ArgumentError, match="the one used is SGD"):
        next(iter(training.watch(source)))
    assert values(again) == before
