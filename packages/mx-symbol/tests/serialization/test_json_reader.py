# SPDX-License-Identifier: Apache-2.0
"""Reading symbol files: MXNet's own, old ones, hostile ones."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mx_core.errors import ArgumentError, FileFormatError, MXNetError
from mx_symbol import sym

DATA = Path(__file__).parents[1] / "data"
NETWORKS = ("resnet18_v1", "mobilenet0_25", "squeezenet1_0")


@pytest.mark.parametrize("name", NETWORKS)
def test_model_zoo_shapes(name):
    net = sym.load(DATA / f"{name}-symbol.json")
    expected = json.loads((DATA / f"{name}-shapes.json").read_text())
    arguments, outputs, aux = net.infer_shape(data=(2, 3, 224, 224))
    for names, shapes, key in (
        (net.list_arguments(), arguments, "arguments"),
        (net.list_outputs(), outputs, "outputs"),
        (net.list_auxiliary_states(), aux, "aux"),
    ):
        assert {n: list(s) for n, s in zip(names, shapes, strict=True)} == expected[key]


def small():
    """A graph as a file describes it: relu of a variable."""
    return {
        "nodes": [
            {"op": "null", "name": "a", "inputs": []},
            {"op": "Activation", "name": "r", "attrs": {"act_type": "relu"}, "inputs": [[0, 0, 0]]},
        ],
        "arg_nodes": [0],
        "heads": [[1, 0, 0]],
        "attrs": {"mxnet_version": ["int", 10901]},
    }


def read(graph):
    return sym.load_json(json.dumps(graph))


def test_short_entries_and_all_names_of_attributes():
    graph = small()
    node = graph["nodes"][1]
    node["inputs"] = [[0, 0]]
    graph["heads"] = [[1, 0]]
    node["param"] = {"act_type": "tanh"}
    node["attr"] = {"act_type": "sigmoid"}
    assert read(graph).attr("act_type") == "relu"
    del node["attrs"]
    assert read(graph).attr("act_type") == "sigmoid"
    del node["attr"]
    assert read(graph).attr("act_type") == "tanh"


def test_nodes_may_refer_forward():
    graph = small()
    graph["nodes"].reverse()
    graph["nodes"][0]["inputs"] = [[1, 0, 0]]
    graph["arg_nodes"], graph["heads"] = [1], [[0, 0, 0]]
    assert read(graph).list_arguments() == ["a"]


def test_old_files_get_the_variables_they_leave_out():
    graph = {
        "nodes": [
            {"op": "null", "param": {}, "name": "data", "inputs": [], "backward_source_id": -1},
            {"op": "FullyConnected", "param": {"num_hidden": "2"}, "name": "fc",
             "inputs": [[0, 0]], "backward_source_id": -1,
             "attr": {"weight_lr_mult": "1.2", "ctx_group": "stage1"}},
            {"op": "BatchNorm", "param": {}, "name": "bn", "inputs": [[1, 0]]},
        ],
        "arg_nodes": [0],
        "heads": [[2, 0]],
    }  # fmt: skip
    net = read(graph)
    assert net.list_arguments() == ["data", "fc_weight", "fc_bias", "bn_gamma", "bn_beta"]
    assert net.list_auxiliary_states() == ["bn_moving_mean", "bn_moving_var"]
    attrs = net.attr_dict()
    assert attrs["fc_weight"]["lr_mult"] == "1.2"
    assert attrs["fc"]["ctx_group"] == "stage1"
    assert "weight_lr_mult" not in attrs["fc"]


@pytest.mark.parametrize("version", [900, 904, 1201])
@pytest.mark.parametrize("given_inputs", [1, 3, 4])
def test_states_that_a_file_of_0_9_leaves_out(version, given_inputs):
    names = ["data", "bn_gamma", "bn_beta", "bn_moving_mean"][:given_inputs]
    nodes = [{"op": "null", "name": name, "inputs": []} for name in names]
    node = {"op": "BatchNorm", "name": "bn", "attr": {"fix_gamma": "False"}}
    graph = {
        "nodes": [*nodes, node | {"inputs": [[i, 0] for i in range(given_inputs)]}],
        "arg_nodes": list(range(given_inputs)),
        "heads": [[given_inputs, 0]],
        "attrs": {"mxnet_version": ["int", version]},
    }
    net = read(graph)
    assert net.list_arguments() == ["data", "bn_gamma", "bn_beta"]
    assert net.list_auxiliary_states() == ["bn_moving_mean", "bn_moving_var"]
    assert net.infer_shape(data=(2, 3))[2] == [(3,), (3,)]
    assert net.attr_dict()["bn_moving_var"]["__init__"] == '["one", {}]'
    graph["attrs"]["mxnet_version"][1] = 10000
    with pytest.raises(FileFormatError, match="expected 5 inputs"):
        read(graph)


def test_old_argmax_over_all_axes():
    graph = small()
    graph["nodes"][1] |= {"op": "argmax", "attrs": {"axis": "-1"}}
    assert read(graph).attr("axis") == "-1"
    graph["attrs"]["mxnet_version"][1] = 900
    assert read(graph).attr("axis") is None


def test_a_newer_file_is_read_with_a_warning():
    graph = small()
    graph["attrs"]["mxnet_version"][1] = 20000
    with pytest.warns(UserWarning, match="newer"):
        assert read(graph).list_arguments() == ["a"]


BROKEN = {
    "no object": (lambda g: g.clear(), "nodes"),
    "unknown graph key": (lambda g: g.update(extra=1), "extra"),
    "nodes no list": (lambda g: g.update(nodes={}), "nodes"),
    "node no object": (lambda g: g["nodes"].append(3), "node 2"),
    "unknown node key": (lambda g: g["nodes"][1].update(zap=1), "zap"),
    "unknown operator": (lambda g: g["nodes"][1].update(op="nonesuch"), "nonesuch"),
    "no name": (lambda g: g["nodes"][1].pop("name"), "name"),
    "unknown parameter": (lambda g: g["nodes"][1]["attrs"].update(zip="1"), "zip"),
    "wrong parameter": (lambda g: g["nodes"][1]["attrs"].update(act_type="no"), "act_type"),
    "number as attribute": (lambda g: g["nodes"][1]["attrs"].update(act_type=1), "expected text"),
    "variable with inputs": (lambda g: g["nodes"][0].update(inputs=[[0, 0]]), "variable"),
    "node out of range": (lambda g: g["nodes"][1].update(inputs=[[7, 0]]), "below 2, got 7"),
    "negative node": (lambda g: g["nodes"][1].update(inputs=[[-1, 0]]), "-1"),
    "bool node": (lambda g: g["nodes"][1].update(inputs=[[False, 0]]), "False"),
    "output out of range": (lambda g: g["nodes"][1].update(inputs=[[0, 5]]), "below 1"),
    "head out of range": (lambda g: g.update(heads=[[1, 3, 0]]), "heads"),
    "no heads": (lambda g: g.update(heads=[]), "heads"),
    "argument that is none": (lambda g: g.update(arg_nodes=[1]), "arg_nodes"),
    "cycle": (lambda g: g["nodes"][1].update(inputs=[[1, 0, 0]]), "cycle"),
    "too few inputs": (lambda g: g["nodes"][1].update(inputs=[]), "expected 1 inputs"),
    "too many inputs": (lambda g: g["nodes"][1].update(inputs=[[0, 0], [0, 0]]), "got 2"),
    "odd version": (lambda g: g.update(attrs={"mxnet_version": 7}), "mxnet_version"),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_broken_files_are_refused_with_the_part_named(case):
    change, message = BROKEN[case]
    graph = small()
    change(graph)
    with pytest.raises(FileFormatError, match=message):
        read(graph)


@pytest.mark.parametrize("text", ["", "[", "{}", "3", "null", "[" * 100_000, '{"nodes": 1e999}'])
def test_what_is_no_symbol_is_refused(text):
    with pytest.raises(FileFormatError):
        sym.load_json(text)


def test_a_file_error_names_the_file(tmp_path):
    path = tmp_path / "broken-symbol.json"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(FileFormatError, match=r"broken-symbol\.json"):
        sym.load(path)
    with pytest.raises(OSError, match="nothing"):
        sym.load(tmp_path / "nothing.json")


def test_hostile_shapes_do_not_run():
    graph = small()
    graph["nodes"][0]["attrs"] = {"__shape__": "__import__('os').abort()"}
    with pytest.raises(FileFormatError, match="__import__"):
        read(graph).infer_shape()
    graph["nodes"][0]["attrs"] = {"__shape__": "(9223372036854775807, 9223372036854775807)"}
    with pytest.raises(MXNetError, match=r"2\*\*58|2\^63|memory"):
        read(graph).simple_bind()


TREES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.long
@settings(max_examples=200, deadline=None)
@given(st.data())
def test_replacing_any_part_gives_a_symbol_or_an_error(data):
    graph = small()
    places = [(graph, key) for key in graph]
    places += [(node, key) for node in graph["nodes"] for key in node]
    holder, key = data.draw(st.sampled_from(places))
    holder[key] = data.draw(TREES)
    try:
        net = read(graph)
    except MXNetError:
        return
    assert sym.load_json(net.tojson()).tojson() == net.tojson()


@pytest.mark.long
@pytest.mark.timeout(60)
def test_time_is_linear_in_the_outputs_of_a_node():
    n = 20_000
    pieces = sym.SliceChannel(sym.Variable("a"), num_outputs=n, name="cut")
    text = sym.Concat(*pieces, name="joined").tojson()
    assert sym.load_json(text).get_internals().list_outputs()[-1] == "joined_output"


def nested(depth):
    graph = small()
    for _ in range(depth):
        outer = small()
        outer["nodes"][1] = {"op": "Flatten", "name": "f", "inputs": [[0, 0, 0]], "subgraphs": [graph]}
        graph = outer
    return graph


def test_subgraphs_within_each_other_are_bounded(tmp_path):
    read = sym.load_json(json.dumps(nested(16)))
    assert json.loads(read.tojson())["nodes"][1]["subgraphs"]
    path = tmp_path / "deep.json"
    path.write_text(json.dumps(nested(150)))
    with pytest.raises(FileFormatError, match="deep.json.*at most 16 subgraphs within each other"):
        sym.load(path)


def test_half_a_surrogate_pair_is_refused_in_files_and_named_when_saved(tmp_path):
    graph = small()
    graph["nodes"][0]["name"] = "\ud800"
    path = tmp_path / "a.json"
    path.write_text(json.dumps(graph))
    with pytest.raises(FileFormatError, match="a.json.*surrogates not allowed"):
        sym.load(path)
    with pytest.raises(FileFormatError, match="surrogates not allowed"):
        sym.load_json(json.dumps(graph))
    with pytest.raises(ArgumentError, match="b.json.*surrogates not allowed"):
        sym.var("\udfff").save(str(tmp_path / "b.json"))
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("marked", ["x", "s"])
def test_the_private_mark_of_graph_passes_is_refused(marked):
    graph = json.loads(sym.sigmoid(sym.Variable("x"), name="s").tojson())
    for node in graph["nodes"]:
        if node["name"] == marked:
            node["attrs"] = {"__prepared__": "1"}
    with pytest.raises(FileFormatError, match=f"'{marked}': attribute '__prepared__' is private"):
        sym.load_json(json.dumps(graph))
