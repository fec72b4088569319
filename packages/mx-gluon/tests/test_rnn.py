# SPDX-License-Identifier: Apache-2.0
"""Recurrent cells and layers beyond MXNet's record: lengths, projections, files, types, randomness, errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mx_core.errors import ShapeError
from mx_gluon import HybridBlock, SymbolBlock, nn, rnn
from mx_ndarray import autograd, nd
from mx_ndarray import random as mx_random
from mx_symbol import sym

pytestmark = pytest.mark.timeout(60)
X = np.random.default_rng(0).normal(size=(6, 3, 4)).astype("float32")


def ready(block: Any, *inputs: Any) -> Any:
    """With random parameters and known shapes."""
    mx_random.seed(1)
    block.initialize("normal")
    block(*inputs)
    return block


@pytest.mark.parametrize(
    "layer",
    [
        rnn.RNN(5, 2),
        rnn.LSTM(5, 3),
        rnn.GRU(5, 2, bidirectional=True),
        rnn.LSTM(4, 2, bidirectional=True, dropout=0.3),
    ],
    ids=repr,
)
def test_cells_of_a_layer_share_its_parameters(layer: Any) -> None:
    x = nd.array(X)
    ready(layer, x)
    for parameter in layer.collect_params().values():
        parameter.set_data(nd.array(np.random.default_rng(1).normal(0, 0.4, parameter.shape)))
    layer._input_size = 4
    outputs, states = layer._unfuse().unroll(6, x, layout="TNC", merge_outputs=True)
    expected, after = layer(x, layer.begin_state(3))
    np.testing.assert_allclose(outputs.asnumpy(), expected.asnumpy(), rtol=1e-4, atol=1e-5)
    kinds = len(after)
    for i, state in enumerate(after):
        joined = np.stack([each.asnumpy() for each in states[i::kinds]])
        np.testing.assert_allclose(joined, state.asnumpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("make", [rnn.LSTM, rnn.GRU, rnn.RNN])
@pytest.mark.parametrize("hybridized", [False, True])
def test_lengths_of_sequences(make: Any, hybridized: bool) -> None:
    layer = ready(make(5, use_sequence_length=True), nd.array(X), None, nd.array([6, 6, 6]))
    layer.hybridize(hybridized)
    lengths = [2, 6, 4]
    outputs, states = layer(nd.array(X), layer.begin_state(3), nd.array(lengths))
    for i, length in enumerate(lengths):
        one = layer(nd.array(X[:length, i : i + 1]), layer.begin_state(1), nd.array([length]))
        np.testing.assert_allclose(
            outputs[:length, i].asnumpy(), one[0][:, 0].asnumpy(), rtol=1e-5, atol=1e-6
        )
        assert (outputs[length:, i].asnumpy() == 0).all()
        np.testing.assert_allclose(states[0][0, i].asnumpy(), one[1][0][0, 0].asnumpy(), rtol=1e-5, atol=1e-6)


def test_limits_of_the_memory() -> None:
    layer = ready(rnn.LSTM(5, state_clip_min=-0.05, state_clip_max=0.02), nd.array(X))
    for parameter in layer.collect_params().values():
        parameter.set_data(nd.array(np.random.default_rng(2).normal(size=parameter.shape)))
    _, (_, memory) = layer(nd.array(X), layer.begin_state(3))
    assert memory.min().asscalar() == pytest.approx(-0.05) and memory.max().asscalar() == pytest.approx(0.02)


def test_projections_have_gradients() -> None:
    layer = ready(rnn.LSTM(5, projection_size=2, input_size=4), nd.array(X))
    rng = np.random.default_rng(3)
    for parameter in layer.collect_params().values():
        parameter.set_data(nd.array(rng.normal(0, 0.5, parameter.shape)))

    def loss() -> Any:
        return (layer(nd.array(X)) ** 2).sum()

    with autograd.record():
        value = loss()
    value.backward()
    for name in ("l0_h2r_weight", "l0_i2h_weight"):
        parameter = getattr(layer, name)
        way = rng.normal(size=parameter.shape).astype("float32")
        before = parameter.data().asnumpy()
        ends = []
        for sign in (1, -1):
            parameter.set_data(nd.array(before + sign * 1e-2 * way))
            ends.append(loss().asscalar())
        parameter.set_data(nd.array(before))
        slope = (parameter.grad().asnumpy() * way).sum()
        assert (ends[0] - ends[1]) / 2e-2 == pytest.approx(slope, rel=2e-2)


class Model(HybridBlock):
    """Words, two layers in both directions, scores."""

    def __init__(self, layer: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.embed = nn.Embedding(7, 4)
            self.layer = layer
            self.out = nn.Dense(3, flatten=False)

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        return self.out(self.layer(self.embed(x)))


@pytest.mark.parametrize("make", [rnn.LSTM, rnn.GRU, rnn.RNN])
def test_a_graph_finds_the_features_of_both_directions_and_is_exported(make: Any, tmp_path: Path) -> None:
    words = nd.array([[1, 2, 3], [4, 5, 6]])
    net = Model(make(5, 2, bidirectional=True, layout="NTC"), prefix="m_")
    net.initialize()
    net.hybridize()
    expected = net(words)
    assert net.layer.l0_i2h_weight.shape == net.layer.r0_i2h_weight.shape == (net.layer._gates * 5, 4)
    net.export(str(tmp_path / "net"))
    again = SymbolBlock.imports(
        str(tmp_path / "net-symbol.json"), ["data"], str(tmp_path / "net-0000.params")
    )
    np.testing.assert_allclose(again(words).asnumpy(), expected.asnumpy(), rtol=1e-6, atol=1e-10)
    net.save_parameters(str(tmp_path / "net.params"))
    other = Model(make(5, 2, bidirectional=True, layout="NTC"))
    other.load_parameters(str(tmp_path / "net.params"))
    np.testing.assert_allclose(other(words).asnumpy(), expected.asnumpy(), rtol=1e-6, atol=1e-10)


def test_other_batches_and_lengths_take_the_same_graph() -> None:
    layer = rnn.GRU(5)
    layer.initialize()
    layer.hybridize()
    for steps, batch in ((6, 3), (2, 3), (6, 1), (1, 1)):
        x = nd.array(X[:steps, :batch])
        assert layer(x).shape == (steps, batch, 5)
        output, states = layer(x, layer.begin_state(batch))
        assert output.shape == (steps, batch, 5) and states[0].shape == (1, batch, 5)


@pytest.mark.parametrize("make", [rnn.LSTM, rnn.GRU])
def test_other_types(make: Any) -> None:
    layer = make(5, input_size=4)
    layer.initialize()
    expected = layer(nd.array(X)).asnumpy()
    for dtype, tolerance in (("float64", 1e-6), ("float16", 5e-3)):
        layer.cast(dtype)
        found = layer(nd.array(X, dtype=dtype))
        assert found.dtype == np.dtype(dtype)
        np.testing.assert_allclose(found.asnumpy(), expected, atol=tolerance)


@pytest.mark.parametrize("hybrid", [False, True])
@pytest.mark.parametrize("dtype, tolerance", [("float64", 1e-6), ("float16", 5e-3), ("bfloat16", 3e-2)])
def test_cells_begin_with_states_of_their_type(dtype: str, tolerance: float, hybrid: bool) -> None:
    class Unrolled(HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            self.cell = rnn.HybridSequentialRNNCell()
            self.cell.add(rnn.LSTMCell(5))
            self.cell.add(rnn.BidirectionalCell(rnn.GRUCell(3), rnn.RNNCell(2)))
            self.cell.add(rnn.ResidualCell(rnn.RNNCell(5)))

        def hybrid_forward(self, F: Any, x: Any) -> Any:
            return self.cell.unroll(x.shape[0] if F is nd else len(X), x, layout="TNC", merge_outputs=True)[0]

    net = Unrolled()
    net.initialize()
    expected = net(nd.array(X)).asnumpy()
    net.cast(dtype)
    if hybrid:
        net.hybridize()
    found = net(nd.array(X, dtype=dtype))
    assert np.dtype(found.dtype).name == dtype
    np.testing.assert_allclose(found.astype("float32").asnumpy(), expected, atol=tolerance)


def test_zoneout_keeps_what_was_before() -> None:
    mx_random.seed(0)
    cell = rnn.ZoneoutCell(rnn.RNNCell(200, input_size=4), zoneout_states=0.3)
    cell.initialize("normal")
    before = nd.full((3, 200), 7.0)
    with autograd.record():
        output, states = cell(nd.array(X[0]), [before])
    kept = (states[0].asnumpy() == 7).mean()
    assert 0.2 < kept < 0.4 and (output.asnumpy() != 7).all()
    cell = rnn.ZoneoutCell(rnn.RNNCell(200, input_size=4), zoneout_outputs=0.3)
    cell.initialize("normal")
    with autograd.record():
        outputs, _ = cell.unroll(2, nd.array(X[:2]), layout="TNC")
    first, second = (each.asnumpy() for each in outputs)
    assert 0.2 < (first == 0).mean() < 0.4
    assert 0.2 < (second == first).mean() < 0.5


def test_dropout_between_cells() -> None:
    cell = rnn.DropoutCell(0.5)
    with autograd.record():
        outputs, states = cell.unroll(6, nd.ones((6, 3, 40)), layout="TNC", merge_outputs=True)
        listed, _ = cell.unroll(6, nd.ones((6, 3, 40)), layout="TNC", merge_outputs=False)
    assert states == [] and len(listed) == 6
    for found in (outputs.asnumpy(), np.stack([each.asnumpy() for each in listed])):
        assert set(np.unique(found)) == {0, 2}
    assert (cell.unroll(6, nd.ones((6, 3, 40)), layout="TNC", merge_outputs=True)[0].asnumpy() == 1).all()


def test_an_activation_may_be_a_block() -> None:
    for cell in (rnn.RNNCell(5, nn.LeakyReLU(0.3)), rnn.LSTMCell(5, activation=nn.Swish())):
        cell.initialize()
        assert cell.unroll(6, nd.array(X), layout="TNC", merge_outputs=True)[0].shape == (6, 3, 5)


def test_states_of_any_kind() -> None:
    cell = rnn.LSTMCell(5)
    assert [state.asnumpy().tolist() for state in cell.begin_state(2, nd.ones)] == [[[1.0] * 5] * 2] * 2
    made = cell.begin_state(2, func=sym.Variable)
    assert [state.name for state in made] == [f"{cell.prefix}begin_state_{i}" for i in (2, 3)]
    assert [state.shape for state in rnn.GRU(3, 2).begin_state(4)] == [(2, 4, 3)]
    assert rnn.LSTM(3).begin_state(4, dtype="float16")[1].dtype == np.float16


def test_what_is_refused() -> None:
    cell = rnn.RNNCell(5)
    cell.initialize()
    with pytest.raises(AssertionError, match="expected 4 steps along axis 1, got shape"):
        cell.unroll(4, nd.zeros((2, 3, 4)))
    with pytest.raises(AssertionError, match="expected 4 steps, got 3"):
        cell.unroll(4, [nd.zeros((2, 4))] * 3)
    with pytest.raises(AssertionError, match="expected arrays or symbols, got None"):
        cell.unroll(4, None)
    with pytest.raises(AssertionError, match="layout: expected one such as TNC"):
        cell.unroll(3, nd.zeros((2, 3, 4)), layout="NC")
    wrapped = rnn.ResidualCell(cell)
    with pytest.raises(AssertionError, match="wraps this one"):
        cell.begin_state(2)
    with pytest.raises(AssertionError, match="One cell cannot be modified twice"):
        rnn.ZoneoutCell(cell)
    both = rnn.BidirectionalCell(rnn.RNNCell(3), rnn.RNNCell(3))
    with pytest.raises(NotImplementedError, match="cannot be stepped"):
        both(nd.zeros((2, 4)), [])
    with pytest.raises(AssertionError, match="doesn't support zoneout"):
        rnn.ZoneoutCell(both)
    chain = rnn.SequentialRNNCell()
    chain.add(both)
    with pytest.raises(AssertionError, match="reads whole sequences"):
        chain(nd.zeros((2, 4)), [nd.zeros((2, 3))] * 2)
    with pytest.raises(AssertionError, match="Invalid layout CTN"):
        rnn.LSTM(3, layout="CTN")
    with pytest.raises(AssertionError, match="expected relu or tanh, got 'swish'"):
        rnn.RNN(3, activation="swish")
    layer = rnn.LSTM(3, input_size=4)
    layer.initialize()
    with pytest.raises(ShapeError, match=r"Expecting \(1, 2, 3\), got \(1, 5, 3\)"):
        layer(nd.zeros((6, 2, 4)), layer.begin_state(5))
    with pytest.raises(ShapeError, match="expected 2, got 1"):
        layer(nd.zeros((6, 2, 4)), nd.zeros((1, 2, 3)))
    with pytest.raises(AssertionError, match="rate must be a number"):
        rnn.DropoutCell("much")  # type: ignore[arg-type]
    assert wrapped.begin_state(2, nd.zeros)[0].shape == (2, 5)
    assert cell._modified
