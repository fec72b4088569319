# SPDX-License-Identifier: Apache-2.0
"""Threads that bind and train one symbol, each with executors of its own."""

from __future__ import annotations

import numpy as np
from threads import ROUNDS, beside

from mx_core.context import cpu
from mx_ndarray import nd
from mx_symbol import sym

DATA = sym.Variable("data")
HIDDEN = sym.tanh(sym.dot(DATA, sym.Variable("weight")))
LOSS = sym.MakeLoss(sym.mean(sym.square(HIDDEN - sym.Variable("target"))))


def work(thread: int) -> None:
    """Steps of gradient descent; the loss and the gradient are those of NumPy."""
    for k in range(6 * ROUNDS):
        rows, width = 2 + (thread + k) % 4, 3 + k % 3
        random = np.random.default_rng(100 * thread + k)
        data, weight = random.normal(size=(rows, width)), random.normal(size=(width, 2))
        target = random.normal(size=(rows, 2))
        executor = LOSS.simple_bind(cpu(), data=data.shape, weight=weight.shape, target=target.shape)
        for name, values in (("data", data), ("weight", weight), ("target", target)):
            executor.arg_dict[name][:] = nd.array(values)
        for _ in range(3):
            loss = executor.forward(is_train=True)[0].asnumpy()
            executor.backward()
            hidden = np.tanh(data @ weight)
            np.testing.assert_allclose(loss, ((hidden - target) ** 2).mean(), rtol=1e-4)
            slope = data.T @ (2 * (hidden - target) / target.size * (1 - hidden**2))
            np.testing.assert_allclose(executor.grad_dict["weight"].asnumpy(), slope, rtol=1e-3, atol=1e-5)
            weight = weight - 0.1 * slope
            executor.arg_dict["weight"][:] = executor.arg_dict["weight"] - 0.1 * executor.grad_dict["weight"]


if __name__ == "__main__":
    for count in (1, 2, 4):
        beside(work, count)
    print("done")
