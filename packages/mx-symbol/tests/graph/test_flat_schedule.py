# SPDX-License-Identifier: Apache-2.0
"""Schedules in numbers: values, steps and what nodes have in common."""

from __future__ import annotations

import pytest

from mx_symbol import sym
from mx_symbol._core import FlatGraph, FlatSchedule
from mx_symbol.graph import Entry, topological_order
from mx_symbol.memory.plan import Step
from mx_symbol.passes.bound_graph import build


def bound(net, **shapes):
    return build(net.entries, shapes, {}, {})


def scheduled(graph, kept=(), after=None):
    nodes = list(graph.schedule)
    waits = [()] * len(nodes) if after is None else after
    return FlatSchedule(FlatGraph(nodes), graph.specs, kept, waits)


def test_values_are_what_is_read_or_kept_in_the_order_in_which_it_is_computed():
    a = sym.Variable("a")
    halves = sym.SliceChannel(sym.exp(a, name="e"), num_outputs=2, name="halves")
    graph = bound(sym.tanh(halves[1], name="t"), a=(2, 4))
    made = scheduled(graph, graph.heads)
    assert [(entry.name, number) for entry, number in made.values.items()] == [
        ("e_output", 0),
        ("halves_output1", 1),
        ("t_output", 2),
    ]
    assert made.names == {0: "e_output", 1: "halves_output1", 2: "t_output"}
    assert [step[:2] for step in made.steps] == [((), (0,)), ((0,), (1,)), ((1,), (2,))]
    assert all(type(step) is Step for step in made.steps)


def test_inputs_of_which_only_the_shape_matters_are_not_read():
    a = sym.Variable("a")
    graph = bound(sym.zeros_like(sym.exp(a), name="z"), a=(2,))
    made = scheduled(graph, graph.heads)
    assert made.names == {0: "z_output"}
    assert [step.reads for step in made.steps] == [(), ()]


def test_steps_have_the_pairs_that_may_share_memory_and_the_steps_they_follow():
    a = sym.Variable("a")
    graph = bound(sym.tanh(sym.exp(a)) + sym.tanh(sym.sqrt(a)), a=(2,))
    after = [(), (), (), (1,), (0, 2)]
    made = scheduled(graph, graph.heads, after)
    assert [step.after for step in made.steps] == after
    tanhs = [step for node, step in zip(graph.schedule, made.steps, strict=True) if node.op.name == "tanh"]
    assert tanhs[0].inplace == ((0, 0),) and tanhs[0].inplace is tanhs[1].inplace
    with pytest.raises(ValueError, match="an item of after per node"):
        scheduled(graph, (), after[1:])


def test_alike_nodes_have_one_signature():
    a, b = sym.Variable("a"), sym.Variable("b")
    net = sym.Group([sym.tanh(sym.tanh(a)), sym.tanh(b), sym.exp(a)])
    graph = bound(net, a=(2,), b=(3,))
    made = scheduled(graph, graph.heads)
    assert made.signatures == [0, 0, 1, 2]
    assert made.firsts == [0, 2, 3]


def test_touched_entries_come_once_in_order():
    a, b = sym.Variable("a"), sym.Variable("b")
    net = sym.exp(b) + sym.tanh(a) + b
    graph = bound(net, a=(2,), b=(2,))
    made = scheduled(graph, graph.heads)
    asked = {*map(Entry, graph.arguments.values()), *graph.heads}
    assert [entry.name for entry in made.touched(asked)] == ["b", "a", graph.heads[0].name]
    assert made.touched(frozenset()) == []


def test_what_a_graph_knows_of_kinds():
    a, b = sym.Variable("a"), sym.Variable("b")
    net = sym.tanh(a) + sym.tanh(b)
    graph = FlatGraph(topological_order(entry.node for entry in net.entries))
    assert [node.name for node in graph.variables] == ["a", "b"]
    assert [facts.op.name for facts in graph.kinds] == ["tanh", "elemwise_add"]
    asked = []
    found = graph.select(lambda facts: (asked.append(facts), facts.op.name == "tanh")[1])
    assert [node.op.name for node in found] == ["tanh", "tanh"] and len(asked) == 2


def test_variables_and_unknown_specs_are_refused():
    graph = bound(sym.tanh(sym.Variable("a")), a=(2,))
    (node,) = graph.schedule
    with pytest.raises(ValueError, match="nodes with an operator"):
        FlatSchedule(FlatGraph([node.inputs[0].node, node]), graph.specs, (), [(), ()])
    with pytest.raises(KeyError):
        FlatSchedule(FlatGraph([node]), {}, (), [()])
