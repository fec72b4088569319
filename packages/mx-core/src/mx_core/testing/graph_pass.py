# SPDX-License-Identifier: Apache-2.0
"""Does a graph pass leave what graphs compute as it is? And what do the operators that passes make compute?"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from importlib import import_module
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np

from mx_core import dtypes, plugins
from mx_core.kernels import TensorSpec
from mx_core.testing.case import Case

_FLOAT32 = dtypes.code("float32")


def check_graph_pass(name: str, rtol: float = 1e-3, atol: float = 1e-4) -> None:
    """Runs sample graphs without passes, with this one alone, with all, and with all but this one.

    Outputs and gradients must agree. Needs mx-symbol, mx-ndarray and the operators of mx-operators.

    Raises
    ------
    AssertionError  a result differs, the pass wrote into the graph that it got, or it was set aside
    """
    for sample in _samples():
        given = json.loads(sample.symbol.tojson())["nodes"]
        plain = _results(sample, "none")
        for passes in (name, "all", f"-{name}"):
            changed = _results(sample, passes)
            for what, values in plain.items():
                where = f"{sample.symbol.name} with passes {passes!r}: {what}"
                least = atol * max(
                    1.0, float(np.abs(values).max(initial=0))
                )  # sums of large numbers may cancel
                np.testing.assert_allclose(changed[what], values, rtol, least, err_msg=where)
        nodes = json.loads(sample.symbol.tojson())["nodes"]
        written = [
            old["name"] for old, new in zip_longest(given, nodes, fillvalue={"name": "more"}) if old != new
        ]
        assert not written, f"it writes into the graph that it gets: into nodes {', '.join(written)}"
    aside = [f.error for f in plugins.faults() if f.entry.kind == "graph_passes" and f.entry.name == name]
    assert not aside, f"it was set aside: {aside[0]}"


def changes_samples(name: str) -> bool:
    """Whether a graph pass changes one of the sample graphs, alone or after the others."""
    trace = import_module("mx_symbol.passes.stages").trace
    return any(
        stage.name == name and stage.changed
        for sample in _samples()
        for passes in (name, "all")
        for is_train in (False, True)
        for stage in trace(sample.symbol, sample.shapes, is_train, passes)
    )


def cases_of_passes(name: str, dtype: str = "float32") -> Iterator[Case]:
    """Applications of an operator that only graph passes make, found in the sample graphs.

    Those of inference count, and where none has it those of training; then those that the passes would make on a GPU.

    Parameters
    ----------
    dtype : str
        What the float32 of the graphs is replaced by.
    """
    seen: set[Any] = set()
    trace = import_module("mx_symbol.passes.stages").trace
    counting = import_module("mx_symbol.graph.ir").counting_kernels
    for devices, is_train in (((), False), ((), True), (("gpu",), True)):
        if seen:
            return
        for sample in _samples():
            with counting(*devices):
                stages = list(trace(sample.symbol, sample.shapes, is_train))
            for stage in stages:
                for node in stage.after.find(name):
                    specs = [_as(stage.after.specs[entry], dtype) for entry in node.inputs]
                    outputs = [_as(stage.after.specs[entry], dtype) for entry in stage.after.outputs_of(node)]
                    key = (node.params, *specs)
                    if key not in seen:
                        seen.add(key)
                        source = np.random.default_rng(len(seen))
                        arrays = tuple(_array(spec, source) for spec in specs)
                        yield Case(node.op, node.params, arrays, tuple(outputs), False)


def _as(spec: TensorSpec, dtype: str) -> TensorSpec:
    return TensorSpec(spec.shape, dtypes.code(dtype)) if spec.dtype == _FLOAT32 else spec


def _array(spec: TensorSpec, source: np.random.Generator) -> Any:
    return source.uniform(-1, 1, spec.shape).astype(dtypes.numpy_dtype(spec.dtype))


class _Sample(NamedTuple):
    """A graph and the shapes it is bound with."""

    symbol: Any
    shapes: Mapping[str, tuple[int, ...]]


def _samples() -> Iterator[_Sample]:
    sym = import_module("mx_symbol").sym
    data = sym.Variable("data")
    matrix = {"data": (5, 4)}
    hidden = sym.Activation(sym.FullyConnected(data, num_hidden=6, name="first"), act_type="relu")
    layers = sym.SoftmaxActivation(sym.FullyConnected(hidden, num_hidden=4, name="second"), name="layers")
    yield _Sample(layers, matrix)
    chain = sym.elemwise_add(sym.log(sym.exp(data)), sym.relu(sym.tanh(data * 2 + 1)), name="elementwise")
    yield _Sample(chain, matrix)
    shapes = sym.sum(sym.transpose(sym.reshape(sym.sigmoid(data), shape=(4, 5))), axis=0, name="shapes")
    yield _Sample(shapes, matrix)
    first = sym.Convolution(data, kernel=(3, 3), pad=(1, 1), num_filter=16, no_bias=True, name="conv0")
    first = sym.relu(sym.BatchNorm(first, fix_gamma=False, name="norm0"))
    second = sym.Convolution(first, kernel=(1, 1), num_filter=16, name="conv1")
    images = sym.relu(sym.elemwise_add(second, first), name="images")
    yield _Sample(images, {"data": (2, 3, 8, 8)})
    strided = sym.Convolution(second + first, kernel=(1, 1), stride=(2, 2), num_filter=4, name="strided")
    yield _Sample(strided, {"data": (2, 3, 8, 8)})
    twice = [sym.tanh(sym.identity(data)) for _ in range(2)]
    constant = sym.exp(sym.ones(shape=(5, 4)) * 0.5)
    yield _Sample(sym.elemwise_mul(twice[0] + sym.BlockGrad(twice[1]), constant, name="repeats"), matrix)
    query, key, value = (sym.Variable(n) for n in ("query", "key", "value"))
    scores = sym.softmax(sym.batch_dot(query, key, transpose_b=True) * 0.5, axis=-1)
    heads = {name: (2, 6, 8) for name in ("query", "key", "value")}
    yield _Sample(sym.batch_dot(scores, value, name="attention"), heads)
    query, key, value = (sym.FullyConnected(data, num_hidden=8, flatten=False, name=f"{n}s") for n in heads)
    scores = sym.softmax(sym.batch_dot(query, key, transpose_b=True) * 0.5, axis=-1)
    yield _Sample(sym.batch_dot(scores, value, name="self_attention"), {"data": (2, 6, 8)})
    classes = sym.FullyConnected(data, num_hidden=6, name="classes")
    loss = sym.pick(sym.log_softmax(classes), sym.Variable("label"), name="loss")
    yield _Sample(loss, matrix)
    state = {"state": (1, 2, 4), "state_cell": (1, 2, 4)}
    stack = sym.RNN(data, state_size=4, num_layers=1, mode="lstm", name="stack", **{
        name: sym.Variable(name) for name in state
    })  # fmt: skip
    yield _Sample(stack, {"data": (3, 2, 5), **state})


def _results(sample: _Sample, passes: str) -> dict[str, Any]:
    found = {}
    for train in (False, True):
        source = np.random.default_rng(0)
        request = "write" if train else "null"
        executor = sample.symbol.simple_bind(grad_req=request, passes=passes, **sample.shapes)
        for table in (executor.arg_dict, executor.aux_dict):
            for _, array in sorted(table.items()):
                array[:] = source.uniform(0.1, 0.9, array.shape)
        output = executor.forward(is_train=train)[0]
        found[f"output, training={train}"] = output.asnumpy()
        if train:
            executor.backward(output)
            found |= {f"gradient of {n}": g.asnumpy() for n, g in executor.grad_dict.items() if g is not None}
    return found
