# SPDX-License-Identifier: Apache-2.0
"""Does a graph pass leave what graphs compute as it is?"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import numpy as np

from mx_core import plugins


def check_graph_pass(name: str, rtol: float = 1e-3, atol: float = 1e-4) -> None:
    """Runs sample graphs with no pass and with this one alone, and compares outputs and gradients.

    Needs mx-symbol, mx-ndarray and the operators of mx-operators.

    Raises
    ------
    AssertionError  a result differs, or the pass was set aside
    """
    for symbol in _graphs():
        plain, changed = (_results(symbol, passes) for passes in ("none", name))
        for what, values in plain.items():
            np.testing.assert_allclose(changed[what], values, rtol, atol, err_msg=f"{symbol.name}: {what}")
    aside = [f.error for f in plugins.faults() if f.entry.kind == "graph_passes" and f.entry.name == name]
    assert not aside, f"it was set aside: {aside[0]}"


def _graphs() -> Iterator[Any]:
    sym = import_module("mx_symbol").sym
    data = sym.Variable("data")
    hidden = sym.Activation(sym.FullyConnected(data, num_hidden=6, name="first"), act_type="relu")
    yield sym.SoftmaxActivation(sym.FullyConnected(hidden, num_hidden=4, name="second"), name="layers")
    yield sym.elemwise_add(sym.log(sym.exp(data)), sym.relu(sym.tanh(data * 2 + 1)), name="elementwise")
    yield sym.sum(sym.transpose(sym.reshape(sym.sigmoid(data), shape=(4, 5))), axis=0, name="shapes")


def _results(symbol: Any, passes: str) -> dict[str, Any]:
    found = {}
    for train in (False, True):
        source = np.random.default_rng(0)
        executor = symbol.simple_bind(data=(5, 4), grad_req="write" if train else "null", passes=passes)
        for _, array in sorted(executor.arg_dict.items()):
            array[:] = source.uniform(0.1, 0.9, array.shape)
        output = executor.forward(is_train=train)[0]
        found[f"output, training={train}"] = output.asnumpy()
        if train:
            executor.backward(output)
            found |= {f"gradient of {n}": g.asnumpy() for n, g in executor.grad_dict.items() if g is not None}
    return found
