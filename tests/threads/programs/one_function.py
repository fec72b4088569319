# SPDX-License-Identifier: Apache-2.0
"""Threads that call one CachedOp with many signatures: nobody sees another's values."""

from __future__ import annotations

import numpy as np
from threads import ROUNDS, beside

from mx_ndarray import autograd, nd
from mx_symbol import sym
from mx_symbol.runtime.cached_op import CachedOp


def network() -> CachedOp:
    """Layers whose values lie in the shared arena: tanh(2x) + relu(x), then the mean of each row."""
    x = sym.Variable("x")
    return CachedOp(sym.mean(sym.tanh(x * 2.0) + sym.relu(x), axis=1))


def partitioned() -> CachedOp:
    """A graph that splits where a shape depends on values: the rows of x whose mark is 1, twice."""
    x, mark = sym.Variable("x"), sym.Variable("mark")
    return CachedOp(sym.contrib.boolean_mask(x, mark) * 2.0)


def work_on(function: CachedOp, split: CachedOp, thread: int) -> None:
    """Calls with shapes and types of its own; every fourth call is differentiated."""
    for k in range(24 * ROUNDS):
        shape = (1 + (k + thread) % 5, 1 + (3 * k + thread) % 7)
        dtype = ("float32", "float64")[k % 2]
        values = np.linspace(-1 - thread, 1 + k, shape[0] * shape[1]).reshape(shape).astype(dtype)
        x = nd.array(values, dtype=dtype)
        expected = (np.tanh(2 * values) + np.maximum(values, 0)).mean(axis=1)
        if k % 4 == 0:
            x.attach_grad()
            with autograd.record():
                made = function(x)
            made.backward()
            slope = (2 * (1 - np.tanh(2 * values) ** 2) + (values > 0)) / shape[1]
            np.testing.assert_allclose(x.grad.asnumpy(), slope, rtol=1e-4, atol=1e-5)
        else:
            made = function(x)
        np.testing.assert_allclose(made.asnumpy(), expected, rtol=1e-4, atol=1e-5)
        mark = np.arange(shape[0]) % 2
        chosen = split(x, nd.array(mark)).asnumpy() if mark.any() else 2 * values[:0]
        np.testing.assert_allclose(chosen, 2 * values[mark == 1], rtol=1e-6)


if __name__ == "__main__":
    function, split = network(), partitioned()
    for count in (1, 2, 4):
        beside(lambda thread: work_on(function, split, thread), count)
    print("done")
