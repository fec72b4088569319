# SPDX-License-Identifier: Apache-2.0
"""Graphs in numbers, and the fixed point of rules over them."""

import signal
import subprocess
import sys

import pytest

from mx_core.errors import PluginError
from mx_symbol import sym
from mx_symbol._core import FlatGraph, Inference
from mx_symbol.graph import Entry, Node, topological_order


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


def test_its_nodes_are_those_that_it_was_made_of():
    nodes = topological_order([sym.tanh(sym.Variable("x")).entries[0].node])
    made, given = FlatGraph(nodes), tuple(nodes)
    nodes.clear()
    assert made.nodes == given


@pytest.mark.parametrize("index", [1, 3, 5_000_000])
def test_an_output_that_a_node_does_not_have_is_refused(index):
    x, op = sym.Variable("x").entries[0].node, sym.tanh(sym.Variable("y")).entries[0].node
    reader = Node(op.op, op.params, "reader", None, [Entry(x, index)])
    message = rf"node 'x' has no output {index}; it has 1"
    with pytest.raises(PluginError, match=message):
        FlatGraph([x, reader])
    with pytest.raises(PluginError, match=message):
        FlatGraph([x, op]).number(Entry(x, index))
    with pytest.raises(PluginError, match=message):
        Inference(FlatGraph([x]), list, list).get(Entry(x, index))
    assert FlatGraph([reader]).outside == [Entry(x, index)]


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


@pytest.mark.timeout(20)
def test_a_rule_that_leaves_out_what_it_was_told_takes_nothing_away():
    x = sym.Variable("x")
    net = sym.relu(x)
    state = Inference(flat_of(net), lambda node, inputs, outputs: ((None,), (None,)), first_known)
    state.assign(x.entries[0], (2,))
    state.assign(net.entries[0], (3,))
    state.run()
    assert (state.get(x.entries[0]), state.get(net.entries[0])) == ((2,), (3,))


def test_a_rule_is_asked_again_with_what_its_answer_made_of_an_input():
    x = sym.Variable("x")
    net = sym.relu(x)

    def rule(node, inputs, outputs):
        return (frozenset({2}),), (inputs[0] if inputs[0] == {1, 2} else None,)

    state = Inference(flat_of(net), rule, lambda entry, old, new: old | new)
    state.assign(x.entries[0], frozenset({1}))
    state.run()
    assert state.get(net.entries[0]) == {1, 2}


@pytest.mark.parametrize(("depth", "earlier_round"), [(1, False), (3, False), (1, True)])
def test_a_rule_that_raised_is_asked_again_and_so_are_the_nodes_behind_it(depth, earlier_round):
    x = net = sym.Variable("x")
    for _ in range(depth):
        net = sym.tanh(net)
    broken = False

    def rule(node, inputs, outputs):
        if broken:
            raise ValueError("not yet")
        return inputs, inputs

    state = Inference(flat_of(net), rule, first_known)
    if earlier_round:
        state.run()
    broken = True
    state.assign(x.entries[0], (2,))
    for _ in range(2):
        with pytest.raises(ValueError, match="not yet"):
            state.run()
    broken = False
    state.run()
    assert state.get(net.entries[0]) == (2,)


def test_rules_that_never_agree_are_interrupted():
    # The rules are asked once for each value, and the merge, getattr(entry, old, new), is no Python code either.
    code = """
import signal
from mx_symbol import sym
from mx_symbol._core import FlatGraph, Inference
from mx_symbol.graph import topological_order

x = sym.Variable("x")
net = sym.Group([sym.tanh(x), sym.relu(x)])
flip = {"this": "that", "that": "this"}
rule = lambda node, inputs, outputs: ((flip[inputs[0]],), outputs)
state = Inference(FlatGraph(topological_order(e.node for e in net.entries)), rule, getattr)
state.assign(x.entries[0], "this")
signal.signal(signal.SIGALRM, signal.default_int_handler)
signal.setitimer(signal.ITIMER_REAL, 0.2)
state.run()
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert "KeyboardInterrupt" in done.stderr
    assert done.returncode in (1, -signal.SIGINT)
