# SPDX-License-Identifier: Apache-2.0
"""Steps captured in a CUDA graph, real or fake, against the same ones that are not captured; see `plans.py`."""

from __future__ import annotations

import gc
import queue
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mx_core import cpu, cpu_pinned, gpu, services
from mx_core.context import num_gpus
from mx_core.errors import ArgumentError, MXNetError
from mx_engine.bulking import bulk
from mx_gluon import Trainer, loss, nn
from mx_io.io import DataBatch
from mx_ndarray import autograd, invoke_capsule, nd, random, waitall
from mx_ndarray.captured import captured_step as nd_captured_step
from mx_ndarray.custom import CustomOp, CustomOpProp, register
from mx_operators_cuda import CapturedStep
from mx_train.lr_scheduler import CosineScheduler, FactorScheduler

STEPS = 5


def network(hybrid: bool) -> Any:
    net = nn.HybridSequential()
    net.add(
        nn.Conv2D(3, 3, in_channels=2), nn.BatchNorm(in_channels=3), nn.Activation("relu"), nn.Flatten(),
        nn.Dropout(0.4), nn.Dense(6, activation="tanh", in_units=48), nn.Dense(3, in_units=6),
    )  # fmt: skip
    net.initialize(ctx=gpu(0))
    rng = np.random.default_rng(5)
    for name, parameter in net.collect_params().items():
        values = rng.normal(size=parameter.shape) * 0.4
        positive = name.endswith(("var", "gamma"))
        parameter.set_data(nd.array(np.abs(values) + 0.7 if positive else values, ctx=gpu(0)))
    if hybrid:
        net.hybridize(static_alloc=True)
    return net


def trained(optimizer: str, settings: dict[str, Any], hybrid: bool, captured: bool) -> list[np.ndarray]:
    """Losses of some steps, each on other data and with another learning rate, then the parameters."""
    random.seed(7, gpu(0))
    net, rng = network(hybrid), np.random.default_rng(3)
    schedule = FactorScheduler(step=1, factor=0.7, base_lr=0.05)
    trainer = Trainer(net.collect_params(), optimizer, {"lr_scheduler": schedule, "wd": 1e-3, **settings})
    criterion = loss.SoftmaxCrossEntropyLoss()

    def forward(x: Any, label: Any) -> Any:
        with autograd.record():
            losses = criterion(net(x), label)
        losses.backward()
        return losses

    def update() -> None:
        trainer.step(5)

    weights = [p.data() for p in net.collect_params().values() if p.grad_req != "null"]
    step = CapturedStep(forward, update, weights=weights, invoke=invoke_capsule())
    found = []
    for _ in range(STEPS):
        x, label = nd.array(rng.normal(size=(5, 2, 6, 6))), nd.array(rng.integers(0, 3, 5))
        if captured:
            losses = step(x, label)
        else:
            losses = forward(x.copyto(gpu(0)), label.copyto(gpu(0)))
            update()
        found.append(losses.asnumpy())
    assert step.captured == captured
    return found + [p.data().asnumpy() for p in net.collect_params().values()]


@pytest.mark.parametrize("hybrid", [False, True], ids=["imperative", "hybrid"])
@pytest.mark.parametrize(
    ("optimizer", "settings"), [("sgd", {"momentum": 0.9}), ("adam", {}), ("sgd", {"aggregate_num": 1})]
)
def test_captured_steps_equal_eager_ones(optimizer: str, settings: dict[str, Any], hybrid: bool) -> None:
    eager = trained(optimizer, settings, hybrid, captured=False)
    found = trained(optimizer, settings, hybrid, captured=True)
    for ours, theirs in zip(found, eager, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert any((a != b).any() for a, b in zip(eager[:STEPS], eager[1:STEPS], strict=False))


@pytest.mark.parametrize(("optimizer", "ran"), [("sgd", 5), ("rmsprop", 7), ("adam", 5)])
def test_a_trainer_captures_its_steps(
    optimizer: str, ran: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rates that stay and change, and states that are loaded; the update runs where its numbers are not known.

    It runs in the first two steps, in two when other states have come, where a factor changes, and with RMSProp, whose
    rates are no arrays, where the rate changes.
    """
    runs: list[int] = []
    step_of = Trainer.step
    monkeypatch.setattr(Trainer, "step", lambda self, *args: (runs.append(0), step_of(self, *args))[1])
    found = []
    for captured in (False, True):
        random.seed(7, gpu(0))
        runs.clear()
        net, rng, criterion = network(True), np.random.default_rng(3), loss.SoftmaxCrossEntropyLoss()
        momentum = {"momentum": 0.9} if optimizer == "sgd" else {}
        trainer = Trainer(net.collect_params(), optimizer, {"learning_rate": 0.05, **momentum})

        def forward(x: Any, label: Any, net: Any = net, criterion: Any = criterion) -> Any:
            with autograd.record():
                losses = criterion(net(x), label)
            losses.backward()
            return losses

        step = trainer.captured_step(forward, 5) if captured else None
        losses = []
        for i in range(11):
            x, label = nd.array(rng.normal(size=(5, 2, 6, 6))), nd.array(rng.integers(0, 3, 5))
            if i == 4:
                trainer.save_states(tmp_path / "states")
            if i in (6, 10):
                trainer.set_learning_rate(0.01 / i)
            if i == 7:
                trainer.load_states(tmp_path / "states")
            if i == 9:
                next(iter(net.collect_params().values())).lr_mult = 0.5
            if step is not None:
                losses.append(step(x, label).asnumpy())
                continue
            losses.append(forward(x.copyto(gpu(0)), label.copyto(gpu(0))).asnumpy())
            trainer.step(5)
        assert trainer.optimizer.num_update == 8  # of the states, and four
        found.append([*losses, *(p.data().asnumpy() for p in net.collect_params().values())])
    for eager, ours in zip(*found, strict=True):
        np.testing.assert_array_equal(ours, eager)
    assert len(runs) == ran


@pytest.mark.parametrize(("optimizer", "settings"), [("sgd", {"momentum": 0.9}), ("adam", {"wd": 0.01})])
def test_a_module_captures_its_steps(optimizer: str, settings: dict[str, Any], tmp_path: Path) -> None:
    """With a rate that changes at each step, and states that are loaded."""
    sym, module = pytest.importorskip("mx_symbol").sym, pytest.importorskip("mx_train.module")
    net = sym.SoftmaxOutput(sym.FullyConnected(sym.Variable("data"), num_hidden=3, name="fc"), name="softmax")
    rng = np.random.default_rng(3)
    batches = [(nd.array(rng.normal(size=(4, 5))), nd.array(rng.integers(0, 3, 4))) for _ in range(9)]
    weight = nd.array(rng.normal(size=(3, 5)))
    found = []
    for captured in (False, True):
        mod = module.Module(net, context=gpu(0))
        mod.bind([("data", (4, 5))], [("softmax_label", (4,))])
        mod.init_params(arg_params={"fc_weight": weight, "fc_bias": nd.zeros((3,))})
        schedule = CosineScheduler(9, base_lr=0.1)
        mod.init_optimizer(optimizer=optimizer, optimizer_params={"lr_scheduler": schedule, **settings})
        step, outputs = mod.captured_step() if captured else None, []
        for i, (data, label) in enumerate(batches):
            if i == 3:
                mod.save_optimizer_states(str(tmp_path / "states"))
            if i == 6:
                mod.load_optimizer_states(str(tmp_path / "states"))
            if step is not None:
                outputs.append(step(data, label)[0].asnumpy())
                continue
            mod.forward_backward(DataBatch([data], [label]))
            outputs.append(mod.get_outputs()[0].asnumpy())
            mod.update()
        found.append([*outputs, *(array.asnumpy() for array in mod.get_params()[0].values())])
    for eager, ours in zip(*found, strict=True):
        np.testing.assert_array_equal(ours, eager)


def test_what_captures_no_steps() -> None:
    with pytest.raises(MXNetError, match=r"cpu\(0\) captures no steps"):
        nd_captured_step(lambda: None, ctx=cpu())
    net = nn.Dense(2, in_units=2)
    net.initialize(ctx=cpu())
    with pytest.raises(MXNetError, match=r"expected parameters on gpu\(0\), got \[cpu\(0\)\]"):
        Trainer(net.collect_params(), "sgd").captured_step(lambda x: x, 1)


def captured_step(forward: Callable[..., Any], update: Callable[[], Any] | None = None) -> CapturedStep:
    return CapturedStep(forward, update, invoke=invoke_capsule())


def test_random_numbers_go_on() -> None:
    """Masks differ from run to run, and are those of runs that are not captured."""

    def draw() -> Any:
        return random.uniform(0, 1, (4,), ctx=gpu(0)) + random.normal(0, 1, (4,), ctx=gpu(0))

    found = []
    for captured in (False, True):
        random.seed(11, gpu(0))
        step = captured_step(draw) if captured else draw
        found.append(np.stack([step().asnumpy() for _ in range(4)]))
    np.testing.assert_array_equal(*found)
    assert len(np.unique(found[0])) == 16


def test_memory_of_a_captured_step_is_its_own() -> None:
    """Arrays that come and go between runs do not lie where the graph computes."""
    step = captured_step(lambda x: ((x + 1) * 2).exp() - 3)
    values = np.linspace(-1, 1, 1000, dtype=np.float32)
    for i in range(6):
        found = step(nd.array(values + i))
        others = [nd.full((1000,), 77, ctx=gpu(0)) for _ in range(8)]
        np.testing.assert_allclose(found.asnumpy(), np.exp((values + i + 1) * 2) - 3, rtol=1e-4)
        assert all((one.asnumpy() == 77).all() for one in others)


def test_weights_may_be_written_and_read_between_runs() -> None:
    weight = nd.ones((3,), ctx=gpu(0))
    step = captured_step(lambda x: x * weight, lambda: nd.sgd_update(weight, weight, lr=0.5, out=weight))
    x = nd.array([1.0, 2.0, 3.0])
    for wanted in (1.0, 0.5, 0.25, 0.125):
        np.testing.assert_array_equal(step(x).asnumpy(), wanted * x.asnumpy())
        np.testing.assert_array_equal(weight.asnumpy(), wanted / 2)
    weight[:] = 8
    np.testing.assert_array_equal(step(x).asnumpy(), 8 * x.asnumpy())


def test_arrays_that_nobody_named_are_ordered() -> None:
    """Those that `forward` reads and writes beside inputs and weights; a value comes late."""

    def slow(value: float) -> Any:
        square = nd.array(np.eye(400))
        for _ in range(20):
            square = nd.dot(square, square)
        return nd.full((4,), value) * square[0, 0]

    factor, sums = nd.ones((4,), ctx=gpu(0)), nd.zeros((4,), ctx=gpu(0))

    def forward(x: Any) -> Any:
        sums[:] = sums + factor
        return x * factor

    def without_arrays() -> None:
        sums[:] = sums + factor

    step, other = captured_step(forward), captured_step(without_arrays)
    for _ in range(3):
        step(nd.ones((4,)))
        other()
    assert step.captured and other.captured
    assert sums.asnumpy().tolist() == [6] * 4
    for value in (5, 7):
        slow(value).copyto(factor)
        results = step(nd.ones((4,)))
        slow(value + 1).copyto(factor)
        other()
        before = sums + 0
        slow(1).copyto(sums)
        assert results.asnumpy().tolist() == [value] * 4
        assert before.asnumpy().tolist() == [{5: 17, 7: 16}[value]] * 4


def test_an_operator_that_holds_an_array_of_a_step_does_not_wait_for_another() -> None:
    """They are one to the engine: the wait would never end."""
    first, second = nd.ones((4,), ctx=gpu(0)), nd.ones((4,), ctx=gpu(0))

    class Reads(CustomOp):
        def forward(self, is_train: bool, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
            self.assign(out_data[0], req[0], in_data[0] + float(second.asnumpy()[0]))

    @register("_captured_reads")
    class ReadsProp(CustomOpProp):
        def list_auxiliary_states(self) -> list[str]:
            return ["state"]

        def infer_shape(self, in_shape: Any) -> Any:
            return in_shape, in_shape, in_shape

        def create_operator(self, ctx: Any, shapes: Any, dtypes: Any) -> CustomOp:
            return Reads()

    x, step = nd.ones((4,), ctx=gpu(0)), captured_step(lambda x: x * first * second)
    read = nd.Custom(x, first, op_type="_captured_reads")
    assert read.asnumpy().tolist() == [2] * 4
    for _ in range(3):
        step(x)
    nd.waitall()
    read = nd.Custom(x, first, op_type="_captured_reads")
    with pytest.raises(MXNetError, match="would wait for itself"):
        read.asnumpy()


@pytest.mark.parametrize("by", ["trainer", "module"])
def test_a_step_takes_its_turn_among_work_that_waits_for_the_host(by: str) -> None:
    """Weights that are on their way from the host, and an evaluation whose data are: as without a graph."""

    def slow(values: Any) -> Any:
        square = nd.array(np.eye(500))
        for _ in range(20):
            square = nd.dot(square, square)
        return values * square[0, 0]

    found, x, y = [], nd.ones((2, 3), ctx=gpu(0)), nd.ones((2, 1), ctx=gpu(0))
    for captured in (False, True):
        if by == "trainer":
            net = nn.Dense(1, in_units=3)
            net.initialize(ctx=gpu(0))
            weight, criterion = net.weight.data(), loss.L2Loss()
            trainer = Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})

            def forward(x: Any, y: Any, net: Any = net, criterion: Any = criterion) -> Any:
                with autograd.record():
                    losses = criterion(net(x), y)
                losses.backward()
                return losses

            def eager(*batch: Any, forward: Any = forward, trainer: Any = trainer) -> None:
                forward(*batch)
                trainer.step(2)

            step = trainer.captured_step(forward, 2) if captured else eager
        else:
            sym, module = pytest.importorskip("mx_symbol").sym, pytest.importorskip("mx_train.module")
            layer = sym.FullyConnected(sym.Variable("data"), num_hidden=1, name="fc")
            mod = module.Module(
                sym.LinearRegressionOutput(layer, sym.Variable("label"), name="out"),
                ("data",),
                ("label",),
                context=gpu(0),
            )
            mod.bind([("data", (2, 3))], [("label", (2, 1))])
            mod.init_params()
            mod.init_optimizer(optimizer="sgd", optimizer_params={"learning_rate": 0.1})
            weight = mod._exec_group.execs[0].arg_dict["fc_weight"]

            def eager(*batch: Any, mod: Any = mod) -> None:
                mod.forward_backward(DataBatch([batch[0]], [batch[1]]))
                mod.update()

            step = mod.captured_step() if captured else eager
        weight[:] = 0.5
        for _ in range(3):
            step(x, y)
        nd.waitall()
        slow(nd.ones((1, 3)) * 0.25).copyto(weight)
        step(x, y)
        before = weight + slow(nd.zeros((1, 3))).copyto(gpu(0))
        step(x, y)
        found.append([before.asnumpy(), weight.asnumpy()])
    np.testing.assert_array_equal(found[1], found[0])


def test_what_waits_for_the_host_keeps_its_place() -> None:
    """Of two updates that share nothing, the first one gets its number late in some calls and at once in others."""
    first, second = nd.ones((4,), ctx=gpu(0)), nd.ones((4,), ctx=gpu(0))
    sizes = iter([4, 400, 4, 400, 4])
    calls = 0

    def update() -> None:
        nonlocal calls
        calls += 1
        size = next(sizes)
        late = nd.dot(nd.ones((size, size)), nd.ones((size, size)))[0, :4] / size * calls
        first[:] = first * late.copyto(gpu(0))
        second[:] = second * nd.array([-calls] * 4, ctx=gpu(0))

    step = captured_step(lambda: None, update)
    for _ in range(5):
        step()
    assert step.captured
    np.testing.assert_array_equal(first.asnumpy(), [120] * 4)
    np.testing.assert_array_equal(second.asnumpy(), [-120] * 4)


def test_failures_of_others_stay_theirs() -> None:
    weight, count = nd.ones((4,), ctx=gpu(0)), 0

    def update() -> None:
        nonlocal count
        count += 1
        weight[:] = weight + nd.array([count] * 4, ctx=gpu(0))

    step = captured_step(lambda: None, update)
    for _ in range(3):
        step()
    failed = nd.linalg.potrf(nd.array([[-1.0, 0.0], [0.0, -1.0]]))
    step()
    with pytest.raises(MXNetError, match="not positive definite"):
        failed.asnumpy()
    assert weight.asnumpy().tolist() == [11] * 4


def test_an_input_that_another_thread_holds_back() -> None:
    step = captured_step(lambda x: x * 2)
    for _ in range(3):
        step(nd.ones((4,)))
    made: queue.Queue[Any] = queue.Queue()
    started = threading.Event()
    waited = []

    def hold_back() -> None:
        with bulk(16):
            made.put(nd.ones((4,)) * 3)
            waited.append(started.wait(30))

    thread = threading.Thread(target=hold_back)
    thread.start()
    results = step(made.get(timeout=30))
    started.set()
    thread.join()
    assert waited == [True] and results.asnumpy().tolist() == [6] * 4


def test_a_step_inside_a_step_is_refused() -> None:
    inner = captured_step(lambda x: x + 1)
    x = nd.ones((4,), ctx=gpu(0))
    for _ in range(3):
        inner(x)
    outer = captured_step(lambda x: inner(x) * 10)
    outer(x)
    with pytest.raises(MXNetError, match="another step is being captured"):
        outer(x)
    assert inner(x).asnumpy().tolist() == [2] * 4


def test_other_operations_than_the_captured_ones_are_refused() -> None:
    weight, rates = nd.ones((3,), ctx=gpu(0)), iter([1, 1, 2])

    def update() -> None:
        for _ in range(next(rates)):
            nd.sgd_update(weight, weight, lr=0.5, out=weight)

    step = captured_step(lambda: weight * 2, update)
    step()
    step()
    with pytest.raises(MXNetError, match="one operation more than were captured"):
        step().wait_to_read()
        weight.wait_to_read()


@pytest.mark.parametrize(
    ("size", "begin", "said"),
    [
        (100, 0, "reads at 0 of 400 bytes from the host, when it was captured at 0 of 16"),
        (20000, 0, "reads at 0 of more than 65536 bytes"),
        (4, 2, "reads at 8 of 16 bytes"),
    ],
    ids=["longer", "too long", "elsewhere"],
)
def test_numbers_from_the_host_stay_where_they_were(size: int, begin: int, said: str) -> None:
    weight = nd.zeros((2,), ctx=gpu(0))
    given = [(4, 0, 1.0), (4, 0, 2.0), (4, 0, 4.0), (size, begin, 8.0)]

    def update() -> None:
        many, first, value = given.pop(0)
        nd.broadcast_add(weight, nd.array([value] * many, ctx=gpu(0))[first : first + 2], out=weight)

    step = captured_step(lambda: weight * 2, update)
    for wanted in (1, 3, 7):
        step()
        np.testing.assert_array_equal(weight.asnumpy(), wanted)
    with pytest.raises(MXNetError, match=said):
        step().wait_to_read()
        weight.wait_to_read()


def test_a_first_call_that_fails_is_taken_again() -> None:
    failures = [ValueError("not yet")]

    def forward() -> Any:
        if failures:
            raise failures.pop()
        return nd.ones((2,), ctx=gpu(0)) * 3

    step = captured_step(forward)
    with pytest.raises(ValueError, match="not yet"):
        step()
    for captured in (False, True):
        np.testing.assert_array_equal(step().asnumpy(), 3)
        assert step.captured == captured


def test_values_cannot_be_read_while_a_step_is_captured() -> None:
    x = nd.ones((3,), ctx=gpu(0))
    step = captured_step(lambda: x * x.sum().asscalar())
    step()
    with pytest.raises(
        MXNetError, match=r"cannot be captured: .*cannot be read on the host.* called without"
    ):
        step()
    np.testing.assert_array_equal((x + 1).asnumpy(), 2)  # the GPU goes on


def test_inputs_from_other_places() -> None:
    """From the host, this GPU, another one, and from the step: its own input, and its result."""
    inputs: list[Any] = []
    step = captured_step(lambda x: (inputs.append(x), x + 1)[1])
    result = step(nd.zeros((3,)))
    result = step(nd.full((3,), 1, ctx=gpu(0)))
    np.testing.assert_array_equal(result.asnumpy(), 2)
    given = [
        nd.full((3,), 5), nd.full((3,), 6, ctx=gpu(0)), nd.full((3,), 7, ctx=cpu_pinned()), nd.ones((2, 3))[1] * 8
    ]  # fmt: skip
    if num_gpus() > 1:
        given.append(nd.full((3,), 9, ctx=gpu(1)))
    for x in given:
        np.testing.assert_array_equal(step(x).asnumpy(), x.asnumpy() + 1)
    inputs[0][:] = 20
    np.testing.assert_array_equal(step(inputs[0]).asnumpy(), 21)
    np.testing.assert_array_equal(step(result).asnumpy(), 22)


@pytest.mark.parametrize("calls", [0, 1, 3])
def test_what_is_no_array_is_refused(calls: int) -> None:
    step = captured_step(lambda x: x + 1)
    for _ in range(calls):
        step(nd.ones((3,)))
    with pytest.raises(ArgumentError, match="input 0: expected an NDArray, got ndarray"):
        step(np.ones(3))
    with pytest.raises(
        ArgumentError, match=r"expected an NDArray, got DataBatch; of a batch give \*batch\.data"
    ):
        step(DataBatch([nd.ones((3,))]))
    for _ in range(3):
        np.testing.assert_array_equal(step(nd.ones((3,))).asnumpy(), 2)
    assert step.captured


def test_a_gradient_that_was_replaced_lives_as_long_as_the_step() -> None:
    w = nd.ones((4,), ctx=gpu(0))
    w.attach_grad()

    def forward(x: Any) -> None:
        with autograd.record():
            y = x * w
        y.backward()

    step, x = nd_captured_step(forward, weights=[w]), nd.arange(4)
    for _ in range(3):
        step(x)
    former = w.grad.asnumpy()
    w.attach_grad()  # nobody but the step has the former one any more
    gc.collect()
    others = [nd.ones((4,), ctx=gpu(0)) for _ in range(8)]
    for _ in range(4):
        step(x)
    waitall()
    np.testing.assert_array_equal(former, np.arange(4))
    np.testing.assert_array_equal(w.grad.asnumpy(), 0)
    assert all((each.asnumpy() == 1).all() for each in others)


def test_inputs_keep_their_shapes() -> None:
    step = captured_step(lambda x: x + 1)
    step(nd.ones((3,)))
    for _ in range(2):  # without a graph, and with one
        for other in (nd.ones((4,)), nd.ones((3, 1)), nd.ones((3,), dtype="float16")):
            with pytest.raises(ArgumentError, match=r"expected inputs .*3.*got .*(4|1|16)"):
                step(other)
        with pytest.raises(ArgumentError, match=r"expected inputs .*got \[\]"):
            step()
        np.testing.assert_array_equal(step(nd.ones((3,))).asnumpy(), 2)


def test_products_of_a_step_keep_their_workspace() -> None:
    """cuBLAS's is the step's own: memory that lives as long as the graph, and no longer; others have another."""
    storage = services.storage("gpu")

    def used() -> int:
        gc.collect()
        waitall()
        storage.release_all(gpu(0))
        return int(storage.stats(gpu(0)).bytes_in_use)

    x, w = nd.full((3, 4), 2, ctx=gpu(0)), nd.full((4, 5), 3, ctx=gpu(0))
    first = nd.dot(x, w)  # the workspace of the stream is taken
    assert storage.holders(gpu(0))["cuBLAS"] > 0
    before = used()
    step = captured_step(lambda x: nd.dot(nd.dot(x, w), w.T) + 1)
    for _ in range(2):
        step(x)
    assert step.captured
    for _ in range(3):
        used()
        other = nd.dot(x, w)
        found = step(x)
        np.testing.assert_array_equal(found.asnumpy(), 361)
        np.testing.assert_array_equal(other.asnumpy(), first.asnumpy())
    del step, found, other
    assert used() == before
