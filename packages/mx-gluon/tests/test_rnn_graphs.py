# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers and cells that are used in several ways: with and without states, in graphs and outside of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mx_gluon import rnn
from mx_ndarray import nd
from mx_symbol import sym

pytestmark = pytest.mark.timeout(60)
X = np.random.default_rng(4).uniform(-1, 1, (2, 4, 5)).astype("float32")


def test_a_hybridised_layer_returns_states_to_calls_with_states() -> None:
    layer = rnn.GRU(3)
    layer.initialize("xavier")
    layer.hybridize()
    x = nd.array(X)
    alone = layer(x)
    graph = layer._cached_op
    out, (state,) = layer(x, layer.begin_state(4)[0])
    np.testing.assert_array_equal(alone.asnumpy(), out.asnumpy())
    np.testing.assert_array_equal(alone.asnumpy()[1], state.asnumpy()[0])
    np.testing.assert_array_equal(layer(x).asnumpy(), out.asnumpy())
    assert layer._cached_op is graph, "the graph was traced anew"
    layer.hybridize()
    assert layer(x).shape == (2, 4, 3)
    assert layer._cached_op is not graph
    layer.cast("float64")
    assert layer(x.astype("float64"), layer.begin_state(4))[1][0].dtype is np.float64


def test_an_exported_layer_has_the_outputs_of_its_last_call(tmp_path: Path) -> None:
    layer = rnn.LSTM(3, prefix="a_")
    layer.initialize()
    layer.hybridize()
    x = nd.array(X)
    for given, count in ((layer.begin_state(4), 3), (None, 1)):
        layer(x, given)
        layer.export(str(tmp_path / "net"))
        outputs = sym.load(str(tmp_path / "net-symbol.json")).list_outputs()
        assert len(outputs) == count
        assert outputs[0] == "a_rnn0_output"


def test_hooks_see_what_a_layer_returns() -> None:
    layer = rnn.RNN(3)
    layer.initialize()
    seen: list[object] = []
    layer.register_forward_hook(lambda block, inputs, outputs: seen.append(type(outputs)))
    layer(nd.array(X))
    layer(nd.array(X), layer.begin_state(4))
    assert seen == [nd.NDArray, tuple]


def test_more_than_ten_layers_have_files(tmp_path: Path) -> None:
    layer = rnn.RNN(2, 11, input_size=5)
    layer.initialize()
    layer.save_parameters(tmp_path / "net.params")
    other = rnn.RNN(2, 11)
    other.load_parameters(tmp_path / "net.params")
    np.testing.assert_array_equal(other(nd.array(X)).asnumpy(), layer(nd.array(X)).asnumpy())
    assert "_unfused.10.i2h_weight" in other._collect_params_with_prefix()


def test_zoneout_steps_go_on_after_a_graph_was_made() -> None:
    cell = rnn.ZoneoutCell(rnn.RNNCell(5), 0.5, 0.5)
    cell.initialize()
    cell.unroll(2, sym.var("x"))
    output, _ = cell(nd.array(X[0]), cell.begin_state(batch_size=4, func=nd.zeros))
    assert output.shape == (4, 5)
