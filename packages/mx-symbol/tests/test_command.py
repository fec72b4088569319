# SPDX-License-Identifier: Apache-2.0
"""`mx graph`: prints and draws what the passes make of a file."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from mx_core.errors import ArgumentError, ShapeError
from mx_symbol.command import graph

LENET = str(Path(__file__).parent / "data" / "lenet-symbol.json")
SHAPE = ("--shape", "data=2,1,28,28")


def mx_graph(*arguments):
    result = CliRunner().invoke(graph, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_text_of_stages():
    bound = mx_graph("show", LENET, *SHAPE, "--stage", "bound").splitlines()
    assert bound[0].startswith("conv1 = Convolution[")
    assert bound[0].endswith(": float32[2, 8, 26, 26]")
    trained = mx_graph("show", LENET, *SHAPE, "--train")
    assert "backward" in trained and "gradient" in trained
    assert mx_graph("show", LENET, *SHAPE, "--pass", "simplify").splitlines()[0].startswith("conv1")


def test_a_file_is_shown_without_any_shape():
    lines = mx_graph("show", LENET).splitlines()
    assert lines[0].startswith("conv1 = Convolution[") and lines[0].endswith(" : ?")
    known = mx_graph("show", LENET, *SHAPE, "--stage", "file").splitlines()
    assert known[0].endswith(": float32[2, 8, 26, 26]")
    for form, mark in (("dot", "digraph"), ("svg", "<svg")):
        assert mx_graph("show", LENET, "--form", form).startswith(mark)


def test_drawings_have_every_node():
    nodes = len(mx_graph("show", LENET, *SHAPE).splitlines()) - 1
    assert mx_graph("show", LENET, *SHAPE, "--form", "dot").count("shape=box,") >= nodes
    assert mx_graph("show", LENET, *SHAPE, "--form", "svg").count("<rect") > nodes


def test_what_each_pass_does():
    lines = mx_graph("passes", LENET, *SHAPE).splitlines()
    assert {"simplify", "cse", "fuse"} <= {line.split()[1] for line in lines}


def test_shapes_are_written_either_way():
    assert mx_graph("passes", LENET, "--shape", "data=2x1x28x28") == mx_graph("passes", LENET, *SHAPE)


def test_unknown_shapes_name_the_option():
    with pytest.raises(ShapeError, match="state shapes with --shape NAME="):
        mx_graph("passes", LENET)


def test_wrong_arguments_are_named():
    with pytest.raises(ArgumentError, match="--shape: expected NAME=1,3,224,224, got 'data'"):
        mx_graph("show", LENET, "--shape", "data")
    with pytest.raises(
        ArgumentError,
        match="no argument is named 'dat'; did you mean 'data'\\?; arguments: data, conv1_weight",
    ):
        mx_graph("show", LENET, "--shape", "dat=2,1,28,28")
    with pytest.raises(ArgumentError, match="'nothing' did not run; these did: "):
        mx_graph("show", LENET, *SHAPE, "--pass", "nothing")
