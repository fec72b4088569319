# SPDX-License-Identifier: Apache-2.0
"""Graph passes: order, effect, how they are switched off, what they may not do."""

from types import SimpleNamespace

import numpy as np
import pytest

from mx_core.errors import ArgumentError, PluginError, PluginWarning
from mx_core.graph import PREPARED
from mx_core.plugins import Entry as Contribution
from mx_core.plugins import aside
from mx_core.plugins.registries import Provenance
from mx_core.plugins.specs import target
from mx_ndarray import nd
from mx_symbol import sym
from mx_symbol.graph import Entry, Node
from mx_symbol.graph.ir import Graph
from mx_symbol.passes import pipeline as passes


@pytest.fixture(autouse=True)
def lenient(monkeypatch):
    """What does not work is set aside, also where the other tests want it raised."""
    monkeypatch.delenv("MX_STRICT_PLUGINS", raising=False)


class Registered:
    """A registry of passes as `plugins.registry` gives it."""

    def __init__(self, **specs):
        self._specs = specs

    def items(self):
        for name, spec in self._specs.items():
            yield Contribution(
                "graph_passes", name, spec, Provenance("acme", "acme-passes", "1.0"), "acme.py:7"
            )

    def names(self):
        return list(self._specs)


def spec(apply, stage="graph", after=(), before=()):
    return SimpleNamespace(stage=stage, apply=target(apply), after=after, before=before)


@pytest.fixture
def register(monkeypatch):
    real = passes.plugins.registry
    monkeypatch.setattr(aside, "_faults", {})

    def use(**specs):
        made = Registered(**specs)
        monkeypatch.setattr(
            passes.plugins, "registry", lambda kind: made if kind == "graph_passes" else real(kind)
        )

    return use


def without_exp(graph):
    """Drops every exp: easy to see in a result."""
    return graph.replace({Entry(node): node.inputs[0] for node in graph.find("exp")})


def exp_to_tanh(graph):
    return graph.replace({Entry(n): graph.apply("tanh", n.inputs, n.name)[0] for n in graph.find("exp")})


def unchanged(graph):
    return graph


def test_edges_decide_the_order_then_the_alphabet():
    specs = {
        "a": spec(unchanged, after=("d",)), "b": spec(unchanged), "c": spec(unchanged, before=("b",)),
        "d": spec(unchanged), "e": spec(unchanged, stage="inference", before=("a",)),
    }  # fmt: skip
    assert passes.ordered(specs, "graph") == ["c", "b", "d", "a"]
    circle = {"a": spec(unchanged, after=("b",)), "b": spec(unchanged, after=("a",))}
    with pytest.raises(PluginError, match="before the other: a, b"):
        passes.ordered(circle, "graph")


def test_a_pass_changes_what_is_run_and_what_is_differentiated(register):
    register(tanh=spec(exp_to_tanh))
    executor = sym.exp(sym.Variable("a")).simple_bind(a=(2,))
    executor.forward(is_train=True, a=np.ones(2))
    executor.backward(nd.ones((2,)))
    np.testing.assert_allclose(executor.outputs[0].asnumpy(), np.tanh([1, 1]), rtol=1e-5)
    np.testing.assert_allclose(executor.grad_dict["a"].asnumpy(), 1 - np.tanh([1, 1]) ** 2, rtol=1e-4)
    assert [n.op.name for n in executor.get_optimized_symbol().nodes if n.op] == ["tanh"]


def test_inference_passes_leave_training_alone(register):
    register(drop=spec(without_exp, stage="inference"))
    executor = (sym.exp(sym.Variable("a")) + 1).simple_bind(a=(1,))
    one = np.ones(1)
    np.testing.assert_allclose(executor.forward(is_train=True, a=one)[0].asnumpy(), [np.e + 1])
    np.testing.assert_allclose(executor.forward(is_train=False)[0].asnumpy(), [2])


def test_an_argument_that_a_pass_removes_is_still_an_argument(register):
    def first_input(graph):
        return graph.replace({graph.outputs[0]: graph.outputs[0].node.inputs[0]})

    register(cut=spec(first_input))
    net = sym.exp(sym.Variable("a")) + sym.Variable("b")
    executor = net.simple_bind(a=(2,))
    assert executor.arg_dict["b"].shape == (2,)
    executor.grad_dict["b"][:] = 5
    executor.forward(is_train=True)
    executor.backward(nd.ones((2,)))
    assert executor.outputs[0].asnumpy().tolist() == [1, 1]
    assert executor.grad_dict["b"].asnumpy().tolist() == [0, 0]


def with_outputs(graph, outputs):
    return Graph(outputs, graph.grads, graph.specs, graph.context)


def with_fresh_variable(graph):
    fresh = Entry(Node(None, None, "fresh"))
    graph.specs[fresh] = graph.specs[graph.outputs[0]]
    return with_outputs(graph, [fresh])


@pytest.mark.parametrize(
    ("apply", "message"),
    [
        (lambda graph: list(graph.outputs), "returned list"),
        (
            lambda graph: with_outputs(graph, graph.outputs * 2),
            "returned 2 outputs and 0 gradients; expected 1",
        ),
        (with_fresh_variable, "new variables: fresh"),
        (
            lambda graph: with_outputs(graph, graph.apply("expand_dims", graph.outputs, "more", axis=0)),
            r"float32\[1, 1\]; expected float32\[1\]",
        ),
    ],
)
def test_a_pass_that_returns_something_else_is_named(register, apply, message):
    register(odd=spec(apply))
    with pytest.warns(
        PluginWarning, match=f"'odd' of plug-in 'acme' .* at acme.py:7 is set aside: .*{message}"
    ):
        executor = sym.exp(sym.Variable("a")).simple_bind(a=(1,))
    assert executor.forward(a=np.zeros(1))[0].asscalar() == 1  # the graph goes on without it
    sym.exp(sym.Variable("a")).simple_bind(a=(1,))  # and nothing more is said


def test_replacements_that_lead_into_a_circle_are_refused(register):
    def circle(graph):
        (node,) = graph.find("exp")
        return graph.replace({Entry(node): graph.apply("tanh", [Entry(node)], "after")[0]})

    register(circle=spec(circle))
    with pytest.warns(PluginWarning, match="depend on itself"):
        sym.exp(sym.Variable("a")).simple_bind(a=(1,))


def test_a_pass_that_reads_an_output_that_no_node_has_is_set_aside_itself(register):
    def past_the_end(graph):
        (node,) = graph.find("exp")
        nowhere = Entry(node.inputs[0].node, 5_000_000)
        graph.specs[nowhere] = graph.specs[node.inputs[0]]
        return graph.replace({Entry(node): graph.apply("tanh", [nowhere], "lost")[0]})

    register(beyond=spec(past_the_end))
    with pytest.warns(PluginWarning, match="'beyond' .* is set aside: .*'a' has no output 5000000; it has 1"):
        executor = sym.exp(sym.Variable("a")).simple_bind(a=(1,))
    assert executor.forward(a=np.zeros(1))[0].asscalar() == 1


def test_a_pass_that_prepares_what_changes_is_set_aside_itself(register):
    def prepared(graph):
        made = {}
        for node in graph.find("tanh"):
            made[Entry(node)] = graph.apply("tanh", node.inputs, node.name, attrs={PREPARED: "1"})[0]
        return graph.replace(made)

    register(early=spec(prepared))
    net = sym.tanh(sym.sin(sym.Variable("a")), name="t")
    with pytest.warns(
        PluginWarning, match="'early' .* is set aside: node 't' has the attribute '__prepared__'"
    ):
        executor = net.simple_bind(a=(1,))
    np.testing.assert_allclose(executor.forward(a=np.ones(1))[0].asnumpy(), np.tanh(np.sin([1])), rtol=1e-6)


def empties_outputs(graph):
    graph.outputs = []
    return graph


def forgets_all(graph):
    vars(graph).clear()
    return graph


def reads_itself(graph):
    (node,) = graph.find("exp")
    node.inputs = (Entry(node),)
    return graph


def reads_itself_in_place(graph):
    (node,) = graph.find("exp")
    node.inputs[0] = Entry(node)
    return graph


def becomes_another(graph):
    (node,) = graph.find("exp")
    (tanh,) = graph.apply("tanh", node.inputs, "other")
    node.op, node.params = tanh.node.op, tanh.node.params
    return graph


def writes_attributes(graph):
    (node,) = graph.find("exp")
    node.attrs[PREPARED] = "1"
    return exp_to_tanh(graph)


def forgets_shapes(graph):
    graph.specs.clear()
    return graph


def forgets_times(graph):
    graph.times.clear()
    return graph


@pytest.mark.parametrize(
    ("apply", "where"),
    [
        (empties_outputs, "outputs"),
        (forgets_all, "outputs; grads; specs; .*whole"),
        (reads_itself, "nodes e"),
        (reads_itself_in_place, "nodes e"),
        (becomes_another, "nodes e"),
        (writes_attributes, "nodes e"),
        (forgets_shapes, "specs"),
        (forgets_times, "times"),
    ],
)
@pytest.mark.parametrize("stage", ["graph", "program"])
def test_a_pass_that_writes_into_the_graph_is_named_and_undone(register, apply, where, stage):
    register(odd=spec(apply, stage), odd_too=spec(unchanged, stage))
    net = sym.exp(sym.Variable("a"), name="e")
    before = net.tojson()
    with pytest.warns(
        PluginWarning, match=f"'odd' .* is set aside: it writes into the graph that it gets: into {where}"
    ):
        executor = net.simple_bind(a=(2,))
        executor.forward(is_train=True, a=np.ones(2))
    executor.backward(nd.ones((2,)))
    np.testing.assert_allclose(executor.outputs[0].asnumpy(), np.exp([1, 1]), rtol=1e-5)
    np.testing.assert_allclose(executor.grad_dict["a"].asnumpy(), np.exp([1, 1]), rtol=1e-5)
    assert net.tojson() == before


def test_what_a_pass_wrote_before_it_failed_is_undone(register):
    def fails_halfway(graph):
        reads_itself_in_place(graph)
        graph.outputs = ()
        raise RuntimeError("no licence")

    register(odd=spec(fails_halfway))
    with pytest.warns(PluginWarning, match="'odd' .* is set aside: RuntimeError: no licence"):
        executor = sym.exp(sym.Variable("a")).simple_bind(a=(1,))
    assert executor.forward(a=np.zeros(1))[0].asscalar() == 1


def test_a_pass_that_writes_into_a_subgraph_is_named_and_undone(register):
    def writes_below(graph):
        for node in graph.nodes:
            for symbol in node.subgraphs:
                symbol.entries[0].node.inputs.clear()
        return graph

    register(odd=spec(writes_below))
    net, inner = sym.exp(sym.Variable("a")), sym.tanh(sym.Variable("b"), name="inner")
    net.entries[0].node.subgraphs = (inner,)
    with pytest.warns(PluginWarning, match="'odd' .* is set aside: .*: into nodes inner"):
        net.simple_bind(a=(1,))
    assert inner.list_arguments() == ["b"]


def test_what_a_pass_spoils_in_the_table_of_readers_is_made_anew(register):
    def spoils_readers(graph):
        graph.readers.clear()
        return graph

    def asks_readers(graph):
        (node,) = graph.find("log")
        assert graph.only_reader(Entry(node.inputs[0].node)) == (node, 0)
        return graph

    register(
        asks_first=spec(asks_readers), odd=spec(spoils_readers, after=("asks_first",)),
        yes=spec(asks_readers, after=("odd",)),
    )  # fmt: skip
    executor = sym.log(sym.exp(sym.Variable("a"))).simple_bind(a=(1,))
    assert executor.forward(a=np.ones(1))[0].asscalar() == pytest.approx(1)
    assert not aside.faults()


def leaves_out_a_head(graph):
    made = exp_to_tanh(graph)
    made.outputs = ()
    return made


def made_by_hand(graph):
    (node,) = graph.find("exp")
    (low,) = graph.apply("tanh", node.inputs, "low")
    unknown = node.copy()
    (high,) = graph.apply("tanh", [low], "high")
    high.node.inputs[0] = Entry(unknown)
    return graph.replace({Entry(node): high})


def reads_itself_when_new(graph):
    made = exp_to_tanh(graph)
    (node,) = made.find("tanh")
    node.inputs = [Entry(node)]
    return made


def numbers_no_times(graph):
    made = exp_to_tanh(graph)
    made.times = dict.fromkeys(made.nodes, "soon")
    return made


@pytest.mark.parametrize(
    ("apply", "message"),
    [
        (leaves_out_a_head, "returned 0 outputs"),
        (made_by_hand, "node 'high' reads 'exp.*_output', whose shape is not known"),
        (reads_itself_when_new, "depend on itself"),
        (numbers_no_times, "TypeError"),
    ],
)
def test_a_pass_that_spoils_what_it_returns_is_named(register, apply, message):
    register(odd=spec(apply))
    with pytest.warns(PluginWarning, match=f"'odd' .* is set aside: .*{message}"):
        executor = sym.exp(sym.Variable("a")).simple_bind(a=(1,))
    assert executor.forward(a=np.zeros(1))[0].asscalar() == 1


def no_licence(graph):
    raise RuntimeError("no licence")


@pytest.mark.parametrize(
    ("broken", "cause"),
    [
        (spec(no_licence), "RuntimeError: no licence"),
        (spec("no_such_module:apply"), "No module named 'no_such_module'"),
        (spec(exp_to_tanh, after=("broken",)), "must each run before the other"),
    ],
)
def test_a_pass_that_does_not_work_is_left_out(register, broken, cause):
    register(broken=broken, tanh=spec(exp_to_tanh))
    with pytest.warns(PluginWarning, match=f"graph passes: 'broken' of plug-in 'acme'.*{cause}"):
        executor = sym.exp(sym.Variable("a")).simple_bind(a=(2,))
    np.testing.assert_allclose(executor.forward(a=np.ones(2))[0].asnumpy(), np.tanh([1, 1]), rtol=1e-5)


def misspelt_operator(graph):
    return graph.replace({Entry(n): graph.apply("sqare", n.inputs, n.name)[0] for n in graph.find("exp")})


def unknown_parameter(graph):
    made = {n: graph.apply("square", n.inputs, n.name, foo=1)[0] for n in graph.find("exp")}
    return graph.replace({Entry(n): entry for n, entry in made.items()})


def nodes_for_entries(graph):
    return graph.replace({n: n.inputs[0] for n in graph.find("exp")})


def tuples_for_entries(graph):
    return graph.replace({Entry(n): n.inputs for n in graph.find("exp")})


@pytest.mark.parametrize(
    ("broken", "cause"),
    [
        (misspelt_operator, "UnknownOperatorError: operator 'sqare' is not registered"),
        (unknown_parameter, "ArgumentError: .* cannot find argument 'foo'"),
        (nodes_for_entries, "expected an Entry of the graph or of what apply made, got <exp 'exp"),
        (tuples_for_entries, r"expected an Entry of the graph or of what apply made, got \[Entry\("),
    ],
)
def test_an_error_of_mx_in_a_strangers_pass_is_the_passes(register, broken, cause):
    register(broken=spec(broken))
    with pytest.warns(PluginWarning, match=f"graph passes: 'broken' of plug-in 'acme'.*{cause}"):
        executor = sym.exp(sym.Variable("a")).simple_bind(a=(2,))
    np.testing.assert_allclose(executor.forward(a=np.ones(2))[0].asnumpy(), np.exp([1, 1]), rtol=1e-5)


def test_passes_are_switched_by_argument_and_environment(register, monkeypatch):
    register(tanh=spec(exp_to_tanh), drop=spec(without_exp, after=("tanh",)))
    net = sym.exp(sym.Variable("a"))

    def operators_run(**options):
        executor = net.simple_bind(grad_req="null", a=(1,), **options)
        return [node.op.name for node in executor.nodes()]

    assert operators_run() == ["tanh"]
    assert operators_run(passes="-tanh") == ["_copy"]
    assert operators_run(passes="drop") == ["_copy"]
    assert operators_run(passes="none") == ["exp"]
    assert operators_run(passes="all,-drop,-tanh") == ["exp"]
    monkeypatch.setenv("MX_PASSES", "none")
    assert operators_run() == ["exp"]
    assert operators_run(passes="all") == ["tanh"]
    with pytest.raises(ArgumentError, match="no graph pass is named 'tan'; did you mean 'tanh'"):
        operators_run(passes="-tan")
