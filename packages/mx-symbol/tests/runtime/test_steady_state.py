# SPDX-License-Identifier: Apache-2.0
"""What a step costs once everything is compiled: a few calls of Python, no memory, whatever the size of the graph."""

import gc
import sys
from collections import Counter

import pytest

from mx_core import services
from mx_ndarray import nd
from mx_symbol import CachedOp, sym


def network(layers):
    """Layers with weights, and a loss."""
    x = sym.Variable("data")
    for _ in range(layers):
        x = sym.tanh(sym.FullyConnected(x, num_hidden=8))
    return sym.MakeLoss(sym.sum(x, axis=1))


def calls_of(run):
    """How often Python functions are entered, native ones not counted."""
    counted = Counter()

    def note(frame, event, arg):
        if event == "call":
            counted[frame.f_code.co_qualname] += 1

    gc.disable()  # a collection calls what other tests have registered with it
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
        gc.enable()
    counted.pop("calls_of.<locals>.<lambda>", None)
    return counted


def step(executor):
    executor.forward(is_train=True)
    executor.backward()


def executor_of(layers, training):
    executor = network(layers).simple_bind(grad_req="write" if training else "null", data=(4, 8))
    for _ in range(3):
        step(executor) if training else executor.forward()
    nd.waitall()
    return executor


@pytest.mark.parametrize(("training", "most"), [(False, 5), (True, 11)])
def test_python_calls_do_not_grow_with_the_graph(training, most):
    counts = []
    for layers in (1, 60):
        executor = executor_of(layers, training)
        found = calls_of(lambda: step(executor) if training else executor.forward())
        counts.append(sum(found.values()))
    assert counts[0] == counts[1] <= most


def test_python_calls_of_a_cached_op_do_not_grow_with_the_graph():
    counts = []
    for layers in (1, 60):
        op = CachedOp(network(layers))
        shapes = dict(zip(op.input_names, network(layers).infer_shape(data=(4, 8))[0], strict=False))
        inputs = [
            nd.ones(shapes.get(name, (8, 8) if name.endswith("weight") else (8,))) for name in op.input_names
        ]
        for _ in range(3):
            op(*inputs)
        counts.append(sum(calls_of(lambda: op(*inputs)).values()))
    assert counts[1] <= counts[0] <= 40


def fresh():
    """How often memory was asked of the system; scratch of kernels comes from the pool."""
    stats = services.storage().stats()
    return stats.allocations - stats.pool_hits


@pytest.mark.parametrize("training", [False, True])
def test_no_memory_is_asked_for(training):
    executor = executor_of(20, training)
    asked = []
    for _ in range(5):  # how many kernels want scratch at once is a matter of chance, until all that can have
        before = fresh()
        for _ in range(50):
            step(executor) if training else executor.forward()
        nd.waitall()
        asked.append(fresh() - before)
    assert asked[-1] == 0 and sum(asked) <= 2, asked
