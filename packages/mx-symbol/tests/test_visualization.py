# SPDX-License-Identifier: Apache-2.0
"""Tables and drawings of networks; the numbers are those of MXNet 1.9.1."""

import sys
from types import SimpleNamespace

import pytest

from mx_core.errors import ArgumentError, ShapeError
from mx_symbol import sym
from mx_symbol.visualization import plot_network, print_summary

SHAPE = {"data": (2, 3, 16, 16)}


def network():
    x = sym.Convolution(sym.Variable("data"), kernel=(3, 3), num_filter=8, pad=(1, 1), name="c1")
    x = sym.Activation(sym.BatchNorm(x, name="bn"), act_type="relu", name="r")
    y = sym.Convolution(x, kernel=(1, 1), num_filter=8, stride=(2, 2), no_bias=True, num_group=2, name="c2")
    z = sym.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="max", name="p")
    x = sym.FullyConnected(sym.Flatten(sym.Concat(y, z, name="cc"), name="fl"), num_hidden=10, name="fc")
    return sym.SoftmaxOutput(x, name="softmax")


def rows(text):
    return [line for line in text.splitlines() if line.strip("_=")]


def test_the_table(capsys):
    print_summary(network(), SHAPE, line_length=80, positions=[0.3, 0.6, 0.8, 1.0])
    text = capsys.readouterr().out
    assert {len(line) for line in text.splitlines()} == {80, len("Total params: 10522")}
    lines = [line.split() for line in rows(text)]
    assert lines == [
        ["Layer", "(type)", "Output", "Shape", "Param", "#", "Previous", "Layer"],
        ["data(null)", "3x16x16", "0"],
        ["c1(Convolution)", "8x16x16", "224", "data"],
        ["bn(BatchNorm)", "8x16x16", "16", "c1"],
        ["r(Activation)", "8x16x16", "0", "bn"],
        ["c2(Convolution)", "8x8x8", "32", "r"],
        ["p(Pooling)", "8x8x8", "0", "r"],
        ["cc(Concat)", "16x8x8", "0", "c2"],
        ["p"],
        ["fl(Flatten)", "1024", "0", "cc"],
        ["fc(FullyConnected)", "10", "10250", "fl"],
        ["softmax(SoftmaxOutput)", "10", "0", "fc"],
        ["Total", "params:", "10522"],
    ]


def test_without_shapes_only_what_a_layer_says_itself_counts(capsys):
    print_summary(network())
    assert rows(capsys.readouterr().out)[-1] == "Total params: 18"  # two biases, as in MXNet
    print_summary(sym.Embedding(sym.Variable("data"), input_dim=7, output_dim=3))
    assert rows(capsys.readouterr().out)[-1] == "Total params: 21"


def test_long_names_are_cut_at_the_column(capsys):
    print_summary(sym.relu(sym.Variable("x" * 100), name="y" * 100), positions=[30, 60, 80, 120])
    assert rows(capsys.readouterr().out)[2] == "y" * 30 + " " * 30 + "0" + " " * 19 + "x" * 40


def test_shared_parameters_count_once(capsys):
    weight = sym.Variable("w")
    x = sym.Variable("data")
    for name in ("a", "b"):
        x = sym.FullyConnected(x, weight, num_hidden=4, no_bias=True, name=name)
    print_summary(x, {"data": (2, 4)})
    assert rows(capsys.readouterr().out)[-1] == "Total params: 16"


def test_what_cannot_be_is_refused():
    with pytest.raises(TypeError, match="expected a Symbol, got str"):
        print_summary("net")
    with pytest.raises(ShapeError, match="do not determine those of softmax_output"):
        print_summary(network(), {})
    with pytest.raises(ArgumentError, match="colour"):
        print_summary(network(), {"colour": (1,)})
    with pytest.raises(ArgumentError, match="positions"):
        print_summary(network(), positions=[0.5, 0.4, 0.7, 1])


class Digraph:
    """Notes what it is told."""

    def __init__(self, **kwargs):
        self.kwargs, self.nodes, self.edges = kwargs, {}, {}

    def node(self, name, **kwargs):
        self.nodes[name] = kwargs

    def edge(self, tail_name, head_name, **kwargs):
        self.edges[tail_name, head_name] = kwargs


@pytest.fixture
def graphviz(monkeypatch):
    monkeypatch.setitem(sys.modules, "graphviz", SimpleNamespace(Digraph=Digraph))


@pytest.mark.usefixtures("graphviz")
def test_the_drawing():
    drawing = plot_network(network(), title="net", shape=SHAPE, node_attrs={"fixedsize": "false"})
    assert drawing.kwargs == {"name": "net", "format": "pdf"}
    assert list(drawing.nodes) == [
        "data",
        "c1",
        "bn",
        "r",
        "c2",
        "p",
        "cc",
        "fl",
        "fc",
        "softmax_label",
        "softmax",
    ]
    assert drawing.nodes["c1"] == {
        "label": "Convolution\n3x3/1, 8", "fillcolor": "#fb8072", "fixedsize": "false", "height": "0.8034",
        "shape": "box", "style": "filled", "width": "1.3",
    }  # fmt: skip
    labels = [drawing.nodes[name]["label"] for name in ("data", "c2", "p", "r", "fc", "cc")]
    assert labels == [
        "data", "Convolution\n1x1/2x2, 8", "Pooling\nmax, 2x2/2x2", "Activation\nrelu", "FullyConnected\n10", "cc",
    ]  # fmt: skip
    assert drawing.nodes["data"]["shape"] == "oval"
    assert drawing.edges["c1", "data"] == {"dir": "back", "arrowtail": "open", "label": "3x16x16"}
    assert ("c1", "c1_weight") not in drawing.edges


@pytest.mark.usefixtures("graphviz")
def test_weights_are_drawn_on_request():
    drawing = plot_network(network(), hide_weights=False)
    assert "bn_moving_var" in drawing.nodes
    assert drawing.edges["c1", "c1_weight"]["label"] == ""


def test_without_graphviz_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "graphviz", None)
    with pytest.raises(ImportError, match=r"pip install graphviz"):
        plot_network(network())
