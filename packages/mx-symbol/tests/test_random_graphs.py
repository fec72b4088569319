# SPDX-License-Identifier: Apache-2.0
"""Random graphs: optimised, planned, side by side, under a budget, they compute what one node at a time computes."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mx_core import plugins
from mx_core.errors import MXNetError
from mx_ndarray import nd
from mx_symbol import sym
from mx_symbol.memory.check import check_any_order, check_plan
from mx_symbol.passes import OPTIONAL
from testkit.random_graphs import NAMES, SHAPE, graphs


@pytest.fixture(autouse=True)
def several_cores(monkeypatch):
    monkeypatch.setattr("mx_symbol.graph.planning._workers", lambda context: 2)


def passes():
    """Nothing switched off, one pass off, one pass alone, none at all."""
    names = sorted(set(plugins.registry("graph_passes").names()) - OPTIONAL)
    return st.sampled_from(["", "none", *(f"-{name}" for name in names), *names])


REQUESTS = st.fixed_dictionaries({name: st.sampled_from(["write", "add", "null"]) for name in NAMES})


def bound(net, requests, **options):
    """An executor with a gradient as requested per variable; other arguments, such as gamma, write theirs."""
    table = {name: requests.get(name, "write") for name in net.list_arguments()}
    shapes = {name: SHAPE for name in NAMES if name in table}
    return net.simple_bind(grad_req=table, **shapes, **options)


def under_budget(net, requests, share, options):
    """The same in part of the memory, or in the least that the refusal names."""
    planned = bound(net, requests, **options).memory_plan(True).total_bytes
    if not planned:
        return bound(net, requests, **options)
    budget = max(int(planned * share), 1)
    try:
        return bound(net, requests, memory_budget=budget, **options)
    except MXNetError as error:
        least = int(re.search(r"and (\d+) with the recomputation found", str(error))[1])
        assert budget < least <= planned
        return bound(net, requests, memory_budget=least, **options)


def trained(executor):
    """Two training steps on other values each, and an inference."""
    rng = np.random.default_rng(3)
    gradients = [array for array in executor.grad_arrays if array is not None]
    for array in gradients:
        array[:] = 0.25  # what `add` adds to
    results = []
    for _ in range(2):
        for array in executor.arg_arrays:
            array[:] = rng.normal(size=array.shape)
        outputs = executor.forward(is_train=True)
        executor.backward([nd.array(rng.normal(size=y.shape)) for y in outputs])
        results += [y.asnumpy() for y in (*outputs, *gradients, *executor.aux_arrays)]
    return results + [y.asnumpy() for y in executor.forward()]


def assert_same(run, requests, chosen, mode, branches, share):
    net = sym.Group(run(sym, [sym.Variable(name) for name in NAMES]))
    naive = bound(net, requests, passes="none", branches="never")
    naive.set_monitor_callback(lambda name, array: None)  # node by node, an array per value
    expected = trained(naive)
    options = {"passes": chosen, "branches": branches}
    if share is None:
        executor = bound(net, requests, memory_mode=mode, **options)
    else:
        executor = under_budget(net, requests, share, options)
    for got, want in zip(trained(executor), expected, strict=True):
        scale = np.abs(want).max() + 0.1
        np.testing.assert_allclose(got / scale, want / scale, atol=2e-4)
    for training in (True, False):
        made = executor._schedule(executor._mode(training))
        check_plan(made.steps, made.sizes, made.external, made.plan)
        if made.branches or mode == "most_parallel" and share is None:
            check_any_order(made.steps, made.sizes, made.external, made.plan, made.n_forward)


CHOICES = st.tuples(
    graphs(symbolic=True), REQUESTS, passes(), st.sampled_from(["least_memory", "most_parallel"]),
    st.sampled_from(["never", "always"]), st.none() | st.floats(0.3, 1.0),
)  # fmt: skip


@pytest.mark.long
@settings(max_examples=200, deadline=None)
@given(CHOICES)
def test_what_is_optimised_and_planned_computes_what_nodes_one_by_one_compute(drawn):
    assert_same(*drawn)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@settings(max_examples=4000, deadline=None)
@given(CHOICES)
def test_thousands_of_graphs(drawn):
    assert_same(*drawn)
