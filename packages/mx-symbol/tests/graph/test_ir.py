# SPDX-License-Identifier: Apache-2.0
"""The graph fulfils the contract that passes are written against."""

from __future__ import annotations

import inspect

import pytest

from mx_core import graph as contract
from mx_core import operators
from mx_symbol import sym
from mx_symbol.graph import Entry, Node
from mx_symbol.graph.ir import Graph, changed, parameters
from mx_symbol.passes.stages import trace


def test_nodes_entries_and_graphs_fulfil_the_protocols():
    graph = next(trace(sym.exp(sym.Variable("a")), {"a": (2,)})).before
    (node,) = graph.nodes
    assert isinstance(graph, contract.Graph)
    assert isinstance(node, contract.Node)
    assert isinstance(graph.outputs[0], contract.Entry)


@pytest.mark.parametrize(
    ("protocol", "made"), [(contract.Node, Node), (contract.Entry, Entry), (contract.Graph, Graph)]
)
def test_methods_take_the_arguments_that_the_contract_says(protocol, made):
    methods = [name for name, value in vars(protocol).items() if inspect.isfunction(value)]
    for name in (n for n in methods if not n.startswith("_")):
        expected, found = (inspect.signature(getattr(owner, name)) for owner in (protocol, made))
        assert list(expected.parameters.values()) == list(found.parameters.values()), name


def test_parameters_of_graphs_tell_zeros_apart():
    op = operators.get("_div_scalar")
    plus, minus = (parameters(op, {"scalar": zero}) for zero in (0.0, -0.0))
    assert (str(plus.scalar), str(minus.scalar)) == ("0.0", "-0.0") and parameters(
        op, {"scalar": 0.0}
    ) is plus
    for zero in (-0.0, 0.0):
        assert str(changed(parameters(op, {"scalar": 1.0}), scalar=zero).scalar) == str(zero)
