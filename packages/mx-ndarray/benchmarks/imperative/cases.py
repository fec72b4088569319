# SPDX-License-Identifier: Apache-2.0
"""The same small programs in each framework; `python cases.py FRAMEWORK` prints seconds per call as JSON.

Runs on Python 3.8 too, where MXNet 1.9.1 lives.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType
    from typing import Any

    import numpy as np

    Call = Callable[[], object]
    #: calls by name; calls that are never alike, each after what prepares so many of them; the wait
    Cases = tuple[dict[str, Call], dict[str, tuple[Callable[[int], object], Call]], Call]

BATCH, INPUTS, HIDDEN, CLASSES = 32, 784, 128, 10
LEARNING_RATE = 0.01
NESTED = [[1.5, 2.0, -3.0, 0.25]] * 4


def new_shapes() -> Iterator[tuple[int, int]]:
    """Shapes that were not used before."""
    return itertools.product(range(2, 1000), [7, 5])


def mlp_data() -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Images, labels and the weights of two layers."""
    import numpy as np

    random = np.random.RandomState(0)
    shapes = [(HIDDEN, INPUTS), (HIDDEN,), (CLASSES, HIDDEN), (CLASSES,)]
    weights = [(0.05 * random.standard_normal(shape)).astype(np.float32) for shape in shapes]
    images = random.standard_normal((BATCH, INPUTS)).astype(np.float32)
    return images, random.randint(0, CLASSES, BATCH), weights


def mxnet_cases(nd: ModuleType, autograd: ModuleType) -> Cases:
    """For MXNet's interface."""
    a, b, x = nd.ones((4, 4)), nd.ones((4, 4)), nd.ones((4, 4))
    x.attach_grad()

    def recorded() -> None:
        with autograd.record():
            y = x
            for _ in range(10):
                y = y * x
        y.backward()

    images, labels, weights = (
        nd.array(value) if not isinstance(value, list) else [nd.array(w) for w in value]
        for value in mlp_data()
    )
    for weight in weights:
        weight.attach_grad()
    w1, b1, w2, b2 = weights

    def step() -> None:
        with autograd.record():
            hidden = nd.relu(nd.FullyConnected(images, w1, b1, num_hidden=HIDDEN))
            scores = nd.FullyConnected(hidden, w2, b2, num_hidden=CLASSES)
            loss = nd.SoftmaxOutput(scores, labels, normalization="batch")
        loss.backward()
        for weight in weights:
            nd.sgd_update(weight, weight.grad, lr=LEARNING_RATE, out=weight)

    def assign() -> None:
        a[0] = 1.0

    shapes, ones = new_shapes(), new_shapes()
    pairs: dict[tuple[int, int], Any] = {}

    def add_new_shape() -> object:
        a = pairs.pop(next(shapes))
        return a + a

    def prepare(count: int) -> None:
        for shape in itertools.islice(new_shapes(), count):
            pairs[shape] = nd.empty(shape)
        nd.waitall()

    calls: dict[str, Call] = {
        "a + b": lambda: a + b,
        "a * 2": lambda: a * 2,
        "a[1]": lambda: a[1],
        "a[0] = 1.0": assign,
        "a[0, 0].asscalar()": lambda: a[0, 0].asscalar(),  # noqa: PLW0108
        "a.reshape((2, 8))": lambda: a.reshape((2, 8)),
        "ones((4, 4))": lambda: nd.ones((4, 4)),
        "full((4, 4), 2.5)": lambda: nd.full((4, 4), 2.5),
        "array of a 4x4 list": lambda: nd.array(NESTED),
        "random.uniform(0, 1, (4, 4))": lambda: nd.random.uniform(0, 1, (4, 4)),
        "dot(a, b)": lambda: nd.dot(a, b),
        "10 multiplications + backward": recorded,
        "MLP step": step,
    }
    once: dict[str, tuple[Callable[[int], object], Call]] = {
        "a + a, a new shape": (prepare, add_new_shape),
        "ones, a new shape": (lambda count: None, lambda: nd.ones(next(ones))),
    }
    return calls, once, nd.waitall


def torch_cases() -> Cases:
    """For PyTorch in eager mode."""
    import torch

    a, b = torch.ones(4, 4), torch.ones(4, 4)
    x = torch.ones(4, 4, requires_grad=True)
    head = torch.ones(4, 4)

    def recorded() -> None:
        x.grad = None
        y = x
        for _ in range(10):
            y = y * x
        y.backward(head)

    images, labels, weights = mlp_data()
    images, labels = torch.from_numpy(images), torch.from_numpy(labels).long()
    weights = [torch.from_numpy(weight).requires_grad_() for weight in weights]
    w1, b1, w2, b2 = weights
    optimizer = torch.optim.SGD(weights, lr=LEARNING_RATE)
    functional = torch.nn.functional

    def step() -> None:
        optimizer.zero_grad()
        hidden = torch.relu(functional.linear(images, w1, b1))
        functional.cross_entropy(functional.linear(hidden, w2, b2), labels).backward()
        optimizer.step()

    def assign() -> None:
        a[0] = 1.0

    shapes, ones = new_shapes(), new_shapes()
    pairs: dict[tuple[int, int], Any] = {}

    def add_new_shape() -> object:
        a = pairs.pop(next(shapes))
        return a + a

    def prepare(count: int) -> None:
        for shape in itertools.islice(new_shapes(), count):
            pairs[shape] = torch.empty(shape)

    calls: dict[str, Call] = {
        "a + b": lambda: a + b,
        "a * 2": lambda: a * 2,
        "a[1]": lambda: a[1],
        "a[0] = 1.0": assign,
        "a[0, 0].asscalar()": lambda: a[0, 0].item(),  # noqa: PLW0108
        "a.reshape((2, 8))": lambda: a.reshape((2, 8)),
        "ones((4, 4))": lambda: torch.ones((4, 4)),
        "full((4, 4), 2.5)": lambda: torch.full((4, 4), 2.5),
        "array of a 4x4 list": lambda: torch.tensor(NESTED),
        "random.uniform(0, 1, (4, 4))": lambda: torch.rand((4, 4)),
        "dot(a, b)": lambda: torch.mm(a, b),
        "10 multiplications + backward": recorded,
        "MLP step": step,
    }
    once: dict[str, tuple[Callable[[int], object], Call]] = {
        "a + a, a new shape": (prepare, add_new_shape),
        "ones, a new shape": (lambda count: None, lambda: torch.ones(next(ones))),
    }
    return calls, once, lambda: None


def numpy_cases() -> Cases:
    """For NumPy, which has no gradients."""
    import numpy as np

    a, b = np.ones((4, 4), np.float32), np.ones((4, 4), np.float32)
    random = np.random.default_rng()

    def assign() -> None:
        a[0] = 1.0

    calls: dict[str, Call] = {
        "a + b": lambda: a + b,
        "a * 2": lambda: a * 2,
        "a[1]": lambda: a[1],
        "a[0] = 1.0": assign,
        "a[0, 0].asscalar()": lambda: a[0, 0].item(),  # noqa: PLW0108
        "a.reshape((2, 8))": lambda: a.reshape((2, 8)),
        "ones((4, 4))": lambda: np.ones((4, 4), np.float32),
        "full((4, 4), 2.5)": lambda: np.full((4, 4), 2.5, np.float32),
        "array of a 4x4 list": lambda: np.array(NESTED, np.float32),
        "random.uniform(0, 1, (4, 4))": lambda: random.random((4, 4), np.float32),
        "dot(a, b)": lambda: np.dot(a, b),
    }
    return calls, {}, lambda: None


def cases(framework: str) -> Cases:
    """Calls by name, calls that are never alike with what prepares them, and the wait of a framework."""
    if framework == "mx":
        from mx_ndarray import autograd, nd

        return mxnet_cases(nd, autograd)
    if framework == "MXNet 1.9.1":
        import mxnet

        return mxnet_cases(mxnet.nd, mxnet.autograd)
    return torch_cases() if framework == "PyTorch" else numpy_cases()


def once_each(prepare: Callable[[int], object], call: Call, wait: Call, number: int = 300) -> float:
    """Seconds per call where no two calls are alike."""
    prepare(number)
    return timed(call, wait, number) / number


def seconds(call: Call, wait: Call, lasting: float = 0.1, turns: int = 5) -> float:
    """Best of the turns, per call; a turn ends when everything is computed."""
    call()
    wait()
    number, taken = 1, 0.0
    best = float("inf")
    while taken < lasting / 4:
        number *= 2
        taken = timed(call, wait, number)
    for _ in range(turns):
        best = min(best, timed(call, wait, number) / number)
    return best


def timed(call: Call, wait: Call, number: int) -> float:
    """Seconds of `number` calls, up to their end."""
    began = time.perf_counter()
    for _ in range(number):
        call()
    wait()
    return time.perf_counter() - began


def main() -> None:
    """Measures one framework."""
    answers, sys.stdout = sys.stdout, sys.stderr  # what a library prints is no answer
    os.environ.setdefault("OMP_NUM_THREADS", str(os.cpu_count()))
    calls, once, wait = cases(sys.argv[1])
    figures = {name: seconds(call, wait) for name, call in calls.items()}
    figures.update({name: once_each(*both, wait) for name, both in once.items()})
    print(json.dumps(figures), file=answers)


if __name__ == "__main__":
    main()
