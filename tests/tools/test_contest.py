# SPDX-License-Identifier: Apache-2.0
"""What the network benchmark concludes, without running it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mx_symbol")

import bench_networks
from contest.inside import covered
from contest.packed import packed_weights, pieces
from contest.table import Row, markdown, verdict

from mx_engine.profiler.recording import Operation
from mx_ndarray import nd
from mx_symbol import sym
from mx_symbol.testing.networks import lstm_language_model, transformer_encoder


def test_a_ratio_within_the_noise_is_called_equal() -> None:
    assert verdict(1.02, 0.05) == "equal (1.02 ± 0.05)"
    assert verdict(1.1, 0.05) == "1.10 ± 0.05"
    assert verdict(0.9, 0.05) == "0.90 ± 0.05"
    assert verdict(0.9931, 0.0042) == "0.993 ± 0.004"


def test_turns_are_compared_one_by_one(capsys: pytest.CaptureFixture[str]) -> None:
    slowed = [[1.0, 1.0, 50.0], [4.0, 4.0, 4.0], [1.0, 1.0, 1.0]]  # a neighbour's burst in the second turn
    a, b = ([[factor * step for step in turn] for turn in slowed] for factor in (2, 4))
    row = Row("net/1/inference/float32", 10, {"mx": slowed, "A": a, "B": b})
    assert row.best == "A"
    assert row.speed("mx") == 10
    assert row.ratio("A") == (2, 0)
    assert row.ratio("B") == (4, 0)
    row.print_records()
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(r["baseline"], r["ratio"]) for r in records] == [("A", 2.0), ("B", 4.0)]


def test_noise_is_that_of_the_turns_ratios() -> None:
    row = Row("net/1/inference/float32", 1, {"mx": [[1.0]] * 5, "A": [[0.8], [0.9], [1.0], [1.1], [1.2]]})
    value, noise = row.ratio("A")
    assert value == 1 and noise == pytest.approx(0.1)


def test_a_table_says_where_it_was_measured() -> None:
    table = markdown(
        [Row("net/1/inference/float32", 1, {"mx": [[1.0, 1.0]], "A": [[2.0, 2.0]]})], {"A": "3.1"}
    )
    assert "commit" in table and "cores" in table and "A 3.1" in table and "20" in table.split("-")[0]
    assert "| net/1/inference/float32 | 1 | A | 2.00 ± 0.00 | 0.5 |" in table


def test_a_table_writes_thousands_without_exponents() -> None:
    table = markdown([Row("lstm/20/inference/float32", 4747, {"mx": [[1.0]], "A": [[2.0]]})], {"A": "3.1"})
    assert "| 4,747 | A | 2.00 ± 0.00 | 2,374 |" in table


def test_a_variable_of_the_user_is_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MX_WINOGRAD", "1")
    with bench_networks.environment("MX_WINOGRAD", "0"):
        assert os.environ["MX_WINOGRAD"] == "0"
    assert os.environ["MX_WINOGRAD"] == "1"
    monkeypatch.delenv("MX_WINOGRAD")
    with bench_networks.environment("MX_WINOGRAD", "0"):
        pass
    assert "MX_WINOGRAD" not in os.environ


def test_packed_weights_are_taken_apart() -> None:
    graph = {
        "nodes": [
            {"op": "Embedding", "name": "e", "shapes": [(5, 2, 3)], "inputs": []},
            {"op": None, "name": "w", "shapes": [(0,)], "inputs": []},
            {
                "op": "RNN",
                "name": "r",
                "attrs": {"state_size": 2, "num_layers": 2},
                "inputs": [[0, 0], [1, 0]],
            },
        ]
    }
    shapes = packed_weights(graph)
    assert shapes == {"w": [(8, 3), (8, 2), (8, 2), (8, 2)]}
    weights, biases = pieces(np.arange(8 * 9 + 32), shapes["w"])
    assert [w.shape for w in weights] == shapes["w"]
    assert biases.tolist() == list(range(72, 104))


def test_a_network_of_files_is_measured(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    from pathlib import Path

    folder = Path(str(tmp_path))
    transformer_encoder(1, 8, 2, 16).save(str(folder / "net-symbol.json"))
    monkeypatch.setattr(bench_networks, "start", lambda task: ([], ["all: left out here"]))
    monkeypatch.setattr(bench_networks, "TURNS", 1)
    monkeypatch.setattr(bench_networks, "PAUSE", 0.0)
    net = bench_networks.network_of_files(str(folder / "net-symbol.json"), None, (2, 3, 8))
    row, versions = bench_networks.measure("net", net, "training", "float32")
    assert (
        row.name == "net/training/float32"
        and len(row.turns["mx"][0]) >= bench_networks.FEWEST
        and not versions
    )


def test_gradients_are_those_of_all_parameters() -> None:
    symbol = lstm_language_model(7, 3, 1)
    shapes = {"data": (4, 2), "begin_h": (1, 2, 3), "begin_c": (1, 2, 3)}
    net = bench_networks.Network(symbol, 8, shapes, lambda rng: rng.integers(0, 7, (4, 2)), {})
    request = {n: "null" if n in shapes else "write" for n in symbol.list_arguments()}
    executor = symbol.simple_bind(grad_req=request, **shapes)
    arrays = bench_networks.fill(executor, net.data, {})
    found = bench_networks.gradients(net, arrays, request)
    assert found is not None and set(found) == set(symbol.list_arguments()) - set(shapes)
    assert all(np.abs(gradient).sum() > 0 for gradient in found.values())


def test_time_in_which_nodes_run_counts_once_where_they_overlap() -> None:
    def node(started: int, finished: int) -> Operation:
        return Operation("Convolution", 1, 0, 0, started, started, finished, False, "c")

    assert covered([]) == 0
    assert covered([node(0, 10), node(20, 30)]) == 20
    assert covered([node(5, 30), node(0, 10), node(12, 20)]) == 30


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["resnet50/1/inference"],
            "no row 'resnet50/1/inference'; there are: resnet50_v1/1/inference/float32",
        ),
        (["lstm/20/inference", "--training"], "describe the network of --symbol"),
        (["lstm/20/inference", "--symbol", "net.json"], "either rows or --symbol"),
        (["--symbol", "net.json"], "not None"),
        (["--symbol", "net.json", "--data", "1x3x8"], "as 1,3,224,224, not '1x3x8'"),
    ],
)
def test_arguments_that_measure_nothing_are_refused(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        bench_networks.arguments(words)
    assert message in capsys.readouterr().err


def test_parameters_of_another_network_are_refused(tmp_path: Path) -> None:
    sym.FullyConnected(sym.Variable("data"), num_hidden=3, name="fc").save(str(tmp_path / "net.json"))
    nd.save(str(tmp_path / "net.params"), {"arg:conv_weight": nd.ones((2,))})
    with pytest.raises(ValueError, match="has conv_weight, which .*net.json has not"):
        bench_networks.network_of_files(str(tmp_path / "net.json"), str(tmp_path / "net.params"), (1, 4))
