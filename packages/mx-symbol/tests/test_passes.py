# SPDX-License-Identifier: Apache-2.0
"""Graph passes of plug-ins: order, effect, what they may not do."""

from types import SimpleNamespace

import numpy as np
import pytest

from mx_core import operators
from mx_core.errors import PluginError
from mx_ndarray import nd
from mx_symbol import passes, sym
from mx_symbol.graph import Entry, Node, rewrite


class Registered:
    """A registry of passes as `plugins.registry` gives it."""

    def __init__(self, **specs):
        self._specs = specs

    def items(self):
        for name, spec in self._specs.items():
            yield SimpleNamespace(name=name, value=spec)


def spec(apply, stage="graph", after=(), before=()):
    return SimpleNamespace(stage=stage, apply=apply, after=after, before=before)


@pytest.fixture
def register(monkeypatch):
    real = passes.plugins.registry

    def use(**specs):
        made = Registered(**specs)
        monkeypatch.setattr(
            passes.plugins, "registry", lambda kind: made if kind == "graph_passes" else real(kind)
        )

    return use


def without_exp(heads):
    """Drops every exp: easy to see in a result."""
    return rewrite(heads, lambda n, inputs: inputs if n.op and n.op.name == "exp" else None)


def exp_to_tanh(heads):
    def replace(node, inputs):
        if node.op is None or node.op.name != "exp":
            return None
        return [Entry(Node(operators.get("tanh"), node.params, node.name, None, inputs))]

    return rewrite(heads, replace)


def test_edges_decide_the_order_then_the_alphabet():
    specs = {
        "a": spec(None, after=("d",)), "b": spec(None), "c": spec(None, before=("b",)),
        "d": spec(None), "e": spec(None, stage="inference", before=("a",)),
    }  # fmt: skip
    assert passes.ordered(specs, "graph") == ["c", "b", "d", "a"]
    circle = {"a": spec(None, after=("b",)), "b": spec(None, after=("a",))}
    with pytest.raises(PluginError, match="before each other: a, b"):
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
    net = sym.exp(sym.Variable("a")) + 1
    one = np.ones(1)
    np.testing.assert_allclose(net.simple_bind(a=(1,)).forward(a=one)[0].asnumpy(), [np.e + 1])
    inference = net.simple_bind(grad_req="null", a=(1,))
    assert inference.forward(a=one)[0].asnumpy() == [2]


def test_an_argument_that_a_pass_removes_is_still_an_argument(register):
    def first_input(heads):
        return (heads[0].node.inputs[0],)

    register(cut=spec(first_input))
    net = sym.exp(sym.Variable("a")) + sym.Variable("b")
    executor = net.simple_bind(a=(2,))
    assert executor.arg_dict["b"].shape == (2,)
    executor.grad_dict["b"][:] = 5
    executor.forward(is_train=True)
    executor.backward(nd.ones((2,)))
    assert executor.outputs[0].asnumpy().tolist() == [1, 1]
    assert executor.grad_dict["b"].asnumpy().tolist() == [0, 0]


@pytest.mark.parametrize(
    ("apply", "message"),
    [
        (lambda heads: list(heads), "returned list"),
        (lambda heads: heads * 2, "returned 2 outputs"),
        (lambda heads: (Entry(Node(None, None, "fresh")),), "new variables: fresh"),
    ],
)
def test_a_pass_that_returns_something_else_is_named(register, apply, message):
    register(odd=spec(apply))
    with pytest.raises(PluginError, match=f"'odd'.*{message}"):
        sym.exp(sym.Variable("a")).simple_bind(a=(1,))


def test_an_unknown_stage_is_refused(register):
    register(late=spec(without_exp, stage="layout"))
    with pytest.raises(PluginError, match="'layout'; expected one of graph, inference"):
        sym.exp(sym.Variable("a")).simple_bind(a=(1,))
