# SPDX-License-Identifier: Apache-2.0
"""Files that MXNet 1.9.1 wrote: read and written again they are the same, and so is what the same calls build here."""

import json
import re
from pathlib import Path

import pytest

from mx_symbol import NameManager, sym
from testkit import written_networks

FILES = sorted((Path(__file__).parents[1] / "data" / "written").glob("*-symbol.json"))
NAMES = [file.name.removesuffix("-symbol.json") for file in FILES]


def comparable(text):
    """Without counts of outputs that only MXNet's own kernels have, and versions of entries."""
    nodes = text[: text.index('"node_row_ptr"')]
    return re.sub(r"(\[\d+, \d+), \d+\]", r"\1]", nodes), text[text.index('"heads"') :]


@pytest.mark.parametrize("file", FILES, ids=NAMES)
def test_reading_and_writing_gives_the_file_back(file):
    text = file.read_text()
    assert comparable(sym.load_json(text).tojson()) == comparable(text)


@pytest.mark.parametrize("file", FILES, ids=NAMES)
def test_the_same_calls_write_the_same_file(file):
    with NameManager():
        net = getattr(written_networks, file.name.removesuffix("-symbol.json"))()
    assert comparable(net.tojson()) == comparable(file.read_text())


def test_every_field_is_where_readers_look_for_it():
    graph = json.loads(written_networks.attrs().tojson())
    assert list(graph) == ["nodes", "arg_nodes", "node_row_ptr", "heads", "attrs"]
    assert {key for node in graph["nodes"] for key in node} == {"op", "name", "attrs", "inputs"}
    (conv,) = [node for node in graph["nodes"] if node["op"] == "Convolution"]
    assert conv["attrs"]["kernel"] == "(1, 1)"
    assert conv["attrs"]["__lr_mult__"] == "1.0"
    assert conv["attrs"]["__force_mirroring__"] == "True"
    assert conv["attrs"]["__after__"] == "yes"


def test_parameters_keep_the_text_they_were_given_in():
    data = sym.Variable("data")
    assert (data * 2.0).list_attr() == {"scalar": "2.0"}
    assert (data * 2).list_attr() == {"scalar": "2"}
    assert sym.sum(data, axis=1).list_attr() == {"axis": "1"}
    assert sym.sum(data, axis=(1,)).list_attr() == {"axis": "(1,)"}


def test_a_copy_keeps_them_and_a_changed_node_does_not():
    net = sym.sum(sym.Variable("data"), axis=1, name="s")
    assert net.__copy__().list_attr() == {"axis": "1"}
    node = net.entries[0].node
    node.params = node.op.Param.parse({"axis": (0,)}, op="sum")
    assert net.list_attr() == {"axis": "(0,)"}
