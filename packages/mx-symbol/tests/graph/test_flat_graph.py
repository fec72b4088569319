# SPDX-License-Identifier: Apache-2.0
"""Graphs in numbers, and the fixed point of rules over them."""

import pytest

from mx_symbol import sym
from mx_symbol._core import FlatGraph, Inference
from mx_symbol.graph import Entry, topological_order


def flat_of(net):
    return FlatGraph(topological_order(entry.node for entry in net.entries))


def first_known(entry, old, new):
    """A merge that keeps what is known."""
    return new if old is None else old


def test_outputs_are_numbered_node_by_node_and_then_what_is_read_of_other_nodes():
    x = sym.Variable("x")
    halves = sym.split(x, num_outputs=2, name="halves")
    net = halves[0] + halves[1]
    made = flat_of(net)
    entries = [Entry(node, i) for node in made.nodes for i in range(node.num_outputs)]
    assert [made.number(entry) for entry in entries] == [0, 1, 2, 3]
    assert (made.n_entries, made.outside) == (4, [])
    alone = FlatGraph([net.entries[0].node])
    assert alone.outside == list(halves.entries)
    assert [alone.number(entry) for entry in alone.outside] == [1, 2]
    with pytest.raises(KeyError):
        alone.number(Entry(x.entries[0].node))


def test_a_rule_is_asked_once_for_nodes_that_are_alike():
    net = x = sym.Variable("x")
    for _ in range(50):
        net = sym.tanh(net)
    asked = []

    def rule(node, inputs, outputs):
        asked.append(node.name)
        return inputs, inputs

    state = Inference(flat_of(net), rule, first_known)
    state.assign(x.entries[0], "known")
    state.run()
    assert state.get(net.entries[0]) == "known"
    assert len(asked) == 1


def test_knowledge_flows_back_to_inputs_and_from_there_to_their_other_readers():
    x, y = sym.Variable("x"), sym.Variable("y")
    left, right = sym.tanh(x, name="left"), sym.elemwise_add(x, y, name="right")

    def rule(node, inputs, outputs):
        found = next((v for v in (*inputs, *outputs) if v is not None), None)
        return (found,) * len(inputs), (found,) * len(outputs)

    state = Inference(flat_of(sym.Group([left, right])), rule, first_known)
    state.run()
    assert state.get(left.entries[0]) is None
    state.assign(right.entries[0], 7)
    state.run()
    assert [state.get(net.entries[0]) for net in (x, y, left)] == [7, 7, 7]


def test_a_rule_that_gives_another_number_of_values_is_refused():
    net = sym.tanh(sym.Variable("x"))
    state = Inference(flat_of(net), lambda node, inputs, outputs: ((), outputs), first_known)
    with pytest.raises(ValueError, match="another number of values"):
        state.run()
