# SPDX-License-Identifier: Apache-2.0
"""Recurrent cells: graphs, numbers and weights as MXNet 1.9.1 has them (`tests/oracle/training`)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mx_core import cpu
from mx_core.errors import ArgumentError, MXNetError
from mx_ndarray import nd
from mx_symbol import sym
from mx_symbol.symbol.naming import NameManager
from mx_train import initializer, rnn
from mx_train.module import BucketingModule
from testkit.oracle import ORACLE

pytestmark = [pytest.mark.timeout(60), pytest.mark.filterwarnings("ignore:.*NTC is transposed")]

RECORDED = json.loads((ORACLE / "training" / "rnn_cells.json").read_text())


def stacked(*cells: Any) -> rnn.SequentialRNNCell:
    stack = rnn.SequentialRNNCell()
    for cell in cells:
        stack.add(cell)
    return stack


def fused(mode: str = "lstm", num_layers: int = 2, **kwargs: Any) -> rnn.FusedRNNCell:
    return rnn.FusedRNNCell(4, num_layers=num_layers, mode=mode, **kwargs)


MAKERS: dict[str, Callable[[], Any]] = {
    "rnn": lambda: rnn.RNNCell(4),
    "rnn_relu": lambda: rnn.RNNCell(4, activation="relu", prefix="x_"),
    "lstm": lambda: rnn.LSTMCell(4),
    "lstm_fb": lambda: rnn.LSTMCell(4, prefix="q_", forget_bias=2.0),
    "gru": lambda: rnn.GRUCell(4),
    "fused_lstm": lambda: rnn.FusedRNNCell(4),
    "fused_gru2": lambda: fused("gru", get_next_state=True),
    "fused_bi": lambda: fused(bidirectional=True, dropout=0.5, get_next_state=True, prefix="f_"),
    "fused_tanh": lambda: fused("rnn_tanh", 1),
    "fused_relu": lambda: fused("rnn_relu", 1, get_next_state=True),
    "zone_lstm": lambda: rnn.ZoneoutCell(rnn.LSTMCell(4), zoneout_outputs=0.3, zoneout_states=0.2),
    "zone_o": lambda: rnn.ZoneoutCell(rnn.RNNCell(4), zoneout_outputs=0.3),
    "zone_s": lambda: rnn.ZoneoutCell(rnn.GRUCell(4), zoneout_states=0.3),
    "res": lambda: rnn.ResidualCell(rnn.GRUCell(4)),
    "drop": lambda: rnn.DropoutCell(0.3),
    "bi": lambda: rnn.BidirectionalCell(
        rnn.LSTMCell(4, prefix="l_"), rnn.GRUCell(3, prefix="r_"), output_prefix="o_"
    ),
    "unfuse": lambda: fused(dropout=0.4).unfuse(),
    "unfuse_bi": lambda: fused("gru", bidirectional=True, dropout=0.4).unfuse(),
    "unfuse_relu": lambda: fused("rnn_relu", 1).unfuse(),
    "unfuse_tanh": lambda: fused("rnn_tanh", 1).unfuse(),
    "seq": lambda: stacked(
        rnn.LSTMCell(4, prefix="a_"),
        rnn.DropoutCell(0.3, prefix="d_"),
        rnn.ResidualCell(rnn.RNNCell(4, prefix="b_")),
    ),
    "seqf": lambda: stacked(
        rnn.FusedRNNCell(4, mode="lstm", prefix="a_", get_next_state=True),
        rnn.DropoutCell(0.3, prefix="d_"),
        rnn.FusedRNNCell(3, mode="gru", prefix="b_"),
    ),
    "seqbi": lambda: stacked(
        rnn.BidirectionalCell(rnn.RNNCell(4, prefix="l_"), rnn.RNNCell(4, prefix="r_")),
        rnn.ZoneoutCell(rnn.LSTMCell(2, prefix="z_"), 0.1, 0.1),
    ),
}


def flat(states: Any) -> Iterator[Any]:
    for state in states:
        yield from flat(state) if isinstance(state, list) else [state]


def described(symbol: Any) -> tuple[list[Any], list[Any]]:
    graph = json.loads(symbol.tojson())
    nodes = [[n["op"], n["name"], n.get("attrs", {}), [i[:2] for i in n["inputs"]]] for n in graph["nodes"]]
    return nodes, [head[:2] for head in graph["heads"]]


@pytest.mark.parametrize("name", MAKERS)
def test_graphs_numbers_and_weights_are_mxnets(name: str) -> None:
    expected = RECORDED[name]
    with NameManager():
        outputs, states = MAKERS[name]().unroll(2, sym.Variable("data"), layout="TNC", merge_outputs=True)
    net = sym.Group([outputs, *flat(states)])
    assert described(net) == (expected["nodes"], expected["heads"])
    executor = net.simple_bind(cpu(), data=(2, 3, 4))
    random = np.random.RandomState(1)
    for key in sorted(executor.arg_dict):
        executor.arg_dict[key][:] = random.uniform(-1, 1, executor.arg_dict[key].shape)
    for output, (shape, values) in zip(executor.forward(), expected["outputs"], strict=True):
        assert list(output.shape) == shape
        np.testing.assert_allclose(output.asnumpy().ravel(), values, atol=2e-5)
    arguments = {key: value for key, value in executor.arg_dict.items() if key != "data"}
    cell = MAKERS[name]()
    unpacked = cell.unpack_weights(arguments)
    assert {key: list(value.shape) for key, value in unpacked.items()} == {
        key: shape for key, (shape, _) in expected["unpacked"].items()
    }
    for key, (_, total) in expected["unpacked"].items():
        assert unpacked[key].asnumpy().astype("float64").sum() == pytest.approx(total, abs=2e-4)
    packed = cell.pack_weights(unpacked)
    assert packed.keys() == arguments.keys()
    for key, value in arguments.items():
        assert packed[key].asnumpy().tolist() == value.asnumpy().tolist()


def test_a_list_of_steps() -> None:
    with NameManager():
        outputs, states = MAKERS["seq"]().unroll(2, [sym.Variable("a"), sym.Variable("b")])
    assert isinstance(outputs, list)
    assert described(sym.Group([*outputs, *states])) == (RECORDED["list"]["nodes"], RECORDED["list"]["heads"])


@pytest.mark.parametrize("name", ["lstm", "fused_bi", "bi", "seq", "res", "drop"])
@pytest.mark.parametrize("given", ["symbol", "list"])
@pytest.mark.parametrize("merge", [None, False, True])
@pytest.mark.parametrize("layout", ["NTC", "TNC"])
def test_every_form_of_a_sequence(name: str, given: str, merge: bool | None, layout: str) -> None:
    """(batch 2, time 3, features 4) gives the same numbers in every form."""

    def run(given: str, merge: bool | None, layout: str) -> np.ndarray[Any, Any]:
        inputs: Any = sym.Variable("data")
        if given == "list":
            inputs = [sym.Variable(f"t{i}") for i in range(3)]
        outputs, _ = MAKERS[name]().unroll(3, inputs, layout=layout, merge_outputs=merge)
        assert merge is None or isinstance(outputs, list) is not merge
        net = sym.Group(outputs) if isinstance(outputs, list) else outputs
        values = np.random.RandomState(0).uniform(-1, 1, (2, 3, 4))
        swapped = values if layout == "NTC" else values.swapaxes(0, 1)
        if given == "list":
            data = {f"t{i}": values[:, i] for i in range(3)}
        else:
            data = {"data": swapped}
        executor = net.simple_bind(cpu(), grad_req="null", **{k: v.shape for k, v in data.items()})
        random = np.random.RandomState(1)
        for key in sorted(executor.arg_dict.keys() - data.keys()):
            executor.arg_dict[key][:] = random.uniform(-1, 1, executor.arg_dict[key].shape)
        results = [r.asnumpy() for r in executor.forward(**{k: nd.array(v) for k, v in data.items()})]
        if isinstance(outputs, list):
            return np.stack(results, axis=1)
        return results[0] if layout == "NTC" else results[0].swapaxes(0, 1)

    np.testing.assert_allclose(run(given, merge, layout), run("symbol", True, "NTC"), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mode", ["rnn_relu", "rnn_tanh", "lstm", "gru"])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_unfused_cells_compute_the_same_with_the_same_weights(mode: str, bidirectional: bool) -> None:
    cell = fused(mode, bidirectional=bidirectional)
    stack = cell.unfuse()
    nets = [c.unroll(3, sym.Variable("data"), layout="TNC", merge_outputs=True)[0] for c in (cell, stack)]
    executors = [net.simple_bind(cpu(), data=(3, 2, 5)) for net in nets]
    starts = initializer.Uniform(0.5)
    for key, array in executors[0].arg_dict.items():
        starts("parameters_weight" if key != "data" else "data_weight", array)
    weights = {k: v for k, v in executors[0].arg_dict.items() if k != "data"}
    packed = stack.pack_weights(cell.unpack_weights(weights))
    executors[1].copy_params_from(packed | {"data": executors[0].arg_dict["data"]})
    results = [executor.forward()[0].asnumpy() for executor in executors]
    np.testing.assert_allclose(results[0], results[1], rtol=1e-4, atol=1e-6)


def test_the_states_go_on_where_they_ended() -> None:
    cell = rnn.LSTMCell(4)
    whole, _ = cell.unroll(4, sym.Variable("data"), merge_outputs=True)
    parts = sym.split(sym.Variable("data"), num_outputs=2, axis=1)
    first, states = cell.unroll(2, parts[0], merge_outputs=True)
    second, _ = cell.unroll(2, parts[1], begin_state=states, merge_outputs=True)
    results = []
    for net in (whole, sym.concat(first, second, dim=1)):
        executor = net.simple_bind(cpu(), data=(2, 4, 3))
        for i, key in enumerate(sorted(executor.arg_dict)):
            executor.arg_dict[key][:] = np.random.RandomState(i).uniform(-1, 1, executor.arg_dict[key].shape)
        results.append(executor.forward()[0].asnumpy())
    np.testing.assert_allclose(results[0], results[1], rtol=1e-6)


def test_begin_states_of_every_kind() -> None:
    for name, make in MAKERS.items():
        cell = make()
        if name != "drop":
            states = cell.begin_state(func=sym.Variable)
            assert [state.attr("__shape__") for state in states] == [str(s) for s in cell.state_shape]
    with pytest.raises(ArgumentError, match="batch_size"):
        rnn.LSTMCell(4).begin_state(batch_size=7)


def test_wrong_uses_say_what_is_right() -> None:
    x = sym.Variable("x")
    with pytest.raises(NotImplementedError, match="use unroll"):
        rnn.FusedRNNCell(4)(x, [])
    with pytest.raises(NotImplementedError, match="use unroll"):
        MAKERS["bi"]()(x, [])
    with pytest.raises(MXNetError, match="unfuse"):
        rnn.ZoneoutCell(rnn.FusedRNNCell(4))
    with pytest.raises(MXNetError, match="on the cells inside"):
        rnn.ZoneoutCell(MAKERS["bi"]())
    with pytest.raises(ArgumentError, match="mode: expected one of rnn_relu"):
        rnn.FusedRNNCell(4, mode="LSTM")
    with pytest.raises(ArgumentError, match="layout with N and T"):
        rnn.RNNCell(4).unroll(2, x, layout="NC")
    with pytest.raises(ArgumentError, match="expected 3 symbols, one per step, got 1"):
        rnn.RNNCell(4).unroll(3, [x])
    inner = rnn.LSTMCell(4)
    rnn.ResidualCell(inner)
    with pytest.raises(MXNetError, match="call begin_state of the modifier"):
        inner.begin_state()
    with pytest.raises(ArgumentError, match="are no parameters of 1 layers of lstm"):
        rnn.FusedRNNCell(4).unpack_weights({"lstm_parameters": nd.zeros((10,))})


def test_shared_parameters_have_one_name() -> None:
    shared = rnn.RNNParams("both_")
    cells = [rnn.RNNCell(4, prefix="both_", params=shared) for _ in range(2)]
    outputs, _ = stacked(*cells).unroll(2, sym.Variable("data"), merge_outputs=True)
    assert outputs.list_arguments() == [
        "data", "both_i2h_weight", "both_i2h_bias", "both_h2h_weight", "both_h2h_bias",
    ]  # fmt: skip
    with pytest.raises(ArgumentError, match="given to both"):
        rnn.SequentialRNNCell(params=rnn.RNNParams()).add(cells[0])


def test_a_checkpoint_of_fused_cells_is_read_by_single_ones(tmp_path: Path) -> None:
    cell = fused(prefix="net_")
    net, _ = cell.unroll(2, sym.Variable("data"), layout="TNC", merge_outputs=True)
    executor = net.simple_bind(cpu(), data=(2, 3, 5))
    initializer.Uniform(0.5)("parameters_weight", executor.arg_dict["net_parameters"])
    prefix = str(tmp_path / "model")
    save = rnn.do_rnn_checkpoint(cell, prefix, period=2)
    arguments = {"net_parameters": executor.arg_dict["net_parameters"]}
    save(0, net, arguments, {})
    assert list(tmp_path.iterdir()) == []
    save(1, net, arguments, {})
    _, again, _ = rnn.load_rnn_checkpoint([cell], prefix, 2)
    assert again["net_parameters"].asnumpy().tolist() == arguments["net_parameters"].asnumpy().tolist()
    _, single, _ = rnn.load_rnn_checkpoint(cell.unfuse(), prefix, 2)
    assert single["net_l1_h2h_weight"].shape == (16, 4)


def test_unrolling_as_it_was_once_written() -> None:
    with pytest.warns(FutureWarning, match="cell.unroll"):
        outputs, _ = rnn.rnn_unroll(rnn.RNNCell(4), 2, input_prefix="in_")
    assert sym.Group(outputs).list_arguments()[0] == "in_t0_data"


def test_a_language_model_with_buckets_learns() -> None:
    """Sentences count upwards; the next word follows from the last."""
    np.random.seed(0)
    sentences = [[(start + i) % 9 + 1 for i in range(length)] for start in range(9) for length in (4, 7) * 8]
    batches = rnn.BucketSentenceIter(sentences, 8, buckets=[4, 7], invalid_label=0)
    stack = stacked(rnn.GRUCell(16, prefix="g_"), rnn.ResidualCell(rnn.RNNCell(16, prefix="r_")))

    def unrolled(length: int) -> Any:
        words = sym.Embedding(sym.Variable("data"), input_dim=10, output_dim=16, name="embed")
        outputs, _ = stack.unroll(length, words, merge_outputs=True)
        scores = sym.FullyConnected(sym.reshape(outputs, shape=(-1, 16)), num_hidden=10, name="score")
        label = sym.reshape(sym.Variable("softmax_label"), shape=(-1,))
        net = sym.SoftmaxOutput(scores, label, use_ignore=True, ignore_label=0, name="softmax")
        return net, ("data",), ("softmax_label",)

    model = BucketingModule(unrolled, default_bucket_key=batches.default_bucket_key)
    model.fit(
        batches, num_epoch=12, optimizer="adam", optimizer_params={"learning_rate": 0.02},
        initializer=initializer.Xavier(), eval_metric="acc",
    )  # fmt: skip
    from mx_train.metric import Perplexity

    assert model.score(batches, Perplexity(0))[0][1] < 1.3
