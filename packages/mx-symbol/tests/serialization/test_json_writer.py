# SPDX-License-Identifier: Apache-2.0
"""Writing symbol files in MXNet's layout."""

import json
import re
from pathlib import Path

import pytest

from mx_core.errors import ArgumentError
from mx_symbol import sym

DATA = Path(__file__).parents[1] / "data"


@pytest.mark.parametrize("name", ["lenet", "resnet18_v1", "mobilenet0_25", "squeezenet1_0"])
def test_files_of_mxnet_come_back_byte_for_byte(name):
    """Up to `node_row_ptr`, which counts outputs of MXNet's own kernels, and entry versions,
    which count how often a state was composed."""
    text = (DATA / f"{name}-symbol.json").read_text()

    def comparable(content):
        nodes = content[: content.index('"node_row_ptr"')]
        return re.sub(r"(\[\d+, \d+), \d+\]", r"\1]", nodes), content[content.index('"heads"') :]

    assert comparable(sym.load_json(text).tojson()) == comparable(text)


def test_states_are_marked_as_written():
    net = sym.BatchNorm(sym.Variable("data"), name="bn")
    graph = json.loads(net.tojson())
    assert graph["nodes"][-1]["inputs"] == [[0, 0, 0], [1, 0, 0], [2, 0, 0], [3, 0, 1], [4, 0, 1]]
    assert graph["arg_nodes"] == [0, 1, 2, 3, 4]
    assert graph["node_row_ptr"] == [0, 1, 2, 3, 4, 5, 8]
    assert graph["heads"] == [[5, 0, 0]]
    assert graph["attrs"] == {"mxnet_version": ["int", 10901]}


def test_only_given_parameters_are_written():
    net = sym.FullyConnected(sym.Variable("data"), num_hidden=2, name="fc")
    graph = json.loads(net.tojson())
    assert [node.get("attrs") for node in graph["nodes"]] == [None] + [{"num_hidden": "2"}] * 3


def test_names_in_any_language_and_quotes():
    net = sym.relu(sym.Variable('größe "x"\n'), name="схема")
    assert sym.load_json(net.tojson()).list_arguments() == ['größe "x"\n']


def test_round_trip_through_a_file(tmp_path):
    net = sym.SoftmaxOutput(sym.BatchNorm(sym.Variable("data", lr_mult=2.0)), name="softmax")
    path = tmp_path / "net-symbol.json"
    net.save(str(path))
    assert sym.load(path).tojson() == net.tojson()
    assert [p.name for p in tmp_path.iterdir()] == ["net-symbol.json"]


def test_a_failed_save_leaves_the_old_file(tmp_path):
    path = tmp_path / "net-symbol.json"
    path.write_text("old")
    with pytest.raises(ArgumentError, match="surrogates not allowed"):
        sym.Variable("\ud800").save(str(path))
    assert path.read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1


def test_debug_text_lists_operators():
    text = sym.BatchNorm(sym.Variable("data"), name="bn", eps=0.1).debug_str()
    assert "Op:BatchNorm, Name=bn" in text
    assert "arg[3]=bn_moving_mean(0) version=1" in text
    assert "arg[0]=data(0) version=0" in text
    assert "eps=0.1" in text


def test_composing_gives_the_file_that_mxnet_writes():
    net = sym.Convolution(sym.Variable("data"), kernel=(3, 3), num_filter=8, name="conv1")
    net = sym.BatchNorm(net, fix_gamma=False, name="bn1")
    text = (DATA / "lenet-symbol.json").read_text()
    nodes = net.tojson()
    assert nodes[: nodes.index('"arg_nodes"')].rstrip("\n ,]") in text


def test_a_variable_alone_is_one_line():
    assert sym.Variable("a").debug_str() == "Variable:a\n"


@pytest.mark.parametrize(
    ("symbol", "attrs"),
    [
        (sym.random.uniform(shape=(2,)), {"low": "0", "high": "1", "shape": "(2,)"}),
        (sym.random.normal(0.5, shape=4), {"loc": "0.5", "scale": "1", "shape": "4"}),
        (sym.random.poisson(sym.Variable("rate")), {}),
        (sym.random.exponential(2.0, dtype="float64"), {"lam": "0.5", "dtype": "float64"}),
    ],
)
def test_random_symbols_write_what_was_given(symbol, attrs):
    assert json.loads(symbol.tojson())["nodes"][-1].get("attrs", {}) == attrs


@pytest.mark.parametrize(
    "made",
    [
        sym.Variable("a") * True,
        sym.Variable("a") > False,
        sym.LeakyReLU(sym.Variable("a"), slope=True),
        sym.clip(sym.Variable("a"), a_min=False, a_max=True),
        sym.reshape(sym.Variable("a"), shape=(True, -1)),
        sym.FullyConnected(sym.Variable("a"), num_hidden=True, no_bias=True),
    ],
)
def test_truth_values_that_were_taken_for_numbers_are_written_as_numbers(made: sym.Symbol) -> None:
    nodes = json.loads(made.tojson())["nodes"]
    texts = {name: text for node in nodes for name, text in node.get("attrs", {}).items()}
    assert {name for name, text in texts.items() if "True" in text or "False" in text} <= {"no_bias"}
    assert sym.load_json(made.tojson()).tojson() == made.tojson()
