# SPDX-License-Identifier: Apache-2.0
import logging

import numpy as np
import pytest

from mx_core.errors import ArgumentError
from mx_io import io
from mx_ndarray import nd
from mx_symbol import sym
from mx_train.module import Module
from mx_train.monitor import Monitor


def bound() -> Module:
    net = sym.FullyConnected(sym.Variable("data"), num_hidden=2, name="fc")
    module = Module(sym.SoftmaxOutput(net, name="softmax"))
    module.bind([("data", (4, 3))], [("softmax_label", (4,))])
    module.init_params(arg_params={"fc_weight": nd.ones((2, 3)) * 2, "fc_bias": nd.zeros((2,))})
    module.init_optimizer()
    return module


def seen(monitor: Monitor, batches: int = 1) -> list[list[tuple[int, str, str]]]:
    module = bound()
    module.install_monitor(monitor)
    found = []
    for _ in range(batches):
        monitor.tic()
        module.forward_backward(io.DataBatch([nd.ones((4, 3))], [nd.zeros((4,))]))
        found.append(monitor.toc())
    return found


def test_outputs_and_arguments_by_pattern() -> None:
    (found,) = seen(Monitor(1, pattern="fc_(output|weight)", sort=True))
    assert [(step, name) for step, name, _ in found] == [(1, "fc_output"), (1, "fc_weight")]
    assert [float(text) for *_, text in found] == [6, 2]


def test_what_is_seen_comes_in_its_order_unless_it_is_to_be_sorted() -> None:
    names = [[name for _, name, _ in seen(Monitor(1, sort=sort))[0]] for sort in (False, True)]
    assert names[0] == [name for _, name, _ in seen(Monitor(1))[0]]
    assert names[1] == sorted(names[0]) != names[0]
    assert names[0].index("fc_output") < names[0].index("softmax_output") < names[0].index("data")


def test_only_every_few_batches() -> None:
    assert [bool(found) for found in seen(Monitor(2), 4)] == [True, False, True, False]


def test_statistics_of_ones_own_and_inputs() -> None:
    (found,) = seen(Monitor(1, lambda x: [x.min(), x.max()], pattern="softmax_data", monitor_all=True))
    assert found == [(1, "softmax_data", "6.0\t6.0\t")]
    with pytest.raises(ArgumentError, match="expected an NDArray or several, got float"):
        seen(Monitor(1, lambda x: [float(x.sum().asscalar())]))  # type: ignore[list-item]
    with pytest.raises(ArgumentError, match="interval"):
        Monitor(0)


def test_fit_logs(caplog: pytest.LogCaptureFixture) -> None:
    data = io.NDArrayIter(np.ones((8, 3), np.float32), np.zeros(8, np.float32), 4)
    with caplog.at_level(logging.INFO), pytest.warns(UserWarning, match="initialized already"):
        bound().fit(data, num_epoch=1, monitor=Monitor(1, pattern="fc_output"))
    assert [r.getMessage().split()[:3] for r in caplog.records if "fc_output" in r.getMessage()] == [
        ["Batch:", "1", "fc_output"], ["Batch:", "2", "fc_output"],
    ]  # fmt: skip
    assert any(line.startswith(f"Batch: {1:7d} {'fc_output':30s} ") for line in caplog.messages)


def test_batches_of_another_size_in_between_change_nothing() -> None:
    monitor, module = Monitor(1, pattern=".*weight.*"), bound()
    module.install_monitor(monitor)
    for size in (4, 2, 4):
        monitor.tic()
        module.forward_backward(io.DataBatch([nd.ones((size, 3))], [nd.zeros((size,))]))
        assert [name for _, name, _ in monitor.toc()] == ["fc_backward_weight_grad", "fc_weight"]


def test_a_single_number_is_written_as_short_as_its_type_allows() -> None:
    network = sym.identity(sym.Variable("x"), name="same")
    monitor = Monitor(1, stat_func=lambda array: array, pattern="same.*")
    executor = network.bind(None, {"x": nd.array([0.1])}, grad_req="null")
    monitor.install(executor)
    monitor.tic()
    executor.forward()
    assert [(name, text) for _, name, text in monitor.toc()] == [("same_output", "0.1\t")]
