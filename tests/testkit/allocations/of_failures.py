# SPDX-License-Identifier: Apache-2.0
"""Repeats some work while one allocation after the other fails, and prints how it ended.

    python of_failures.py WORK MOST

with the name of the work, and how many of its allocations fail, spread over all of them. A failure is a MemoryError or
an MXNetError; then the same work gives the right result.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
from counting import Counter

import mx
from mx_core import services
from mx_engine._core import Recorder
from mx_storage import Random, StorageManager

FOLDER = tempfile.mkdtemp(prefix="mx-failures-")
NET = mx.sym.Activation(
    mx.sym.Convolution(mx.sym.Variable("data"), kernel=(3, 3), num_filter=8), act_type="relu"
)
NET = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(NET, num_hidden=5), name="softmax")
SHAPE = (2, 3, 9, 9)
DATA = mx.nd.array(np.linspace(-1, 1, 486).reshape(SHAPE))


def fill(executor: Any) -> None:
    for name, array in sorted(executor.arg_dict.items()):
        array[:] = DATA if name == "data" else 0.01


def bind() -> Any:
    executor = NET.simple_bind(data=SHAPE)
    fill(executor)
    (output,) = executor.forward(is_train=True)
    executor.backward()
    return [output, executor.grad_dict["fullyconnected0_weight"]]


def infer() -> Any:
    executor = NET.simple_bind(data=SHAPE, grad_req="null")
    fill(executor)
    return executor.forward(is_train=False)


def save() -> Any:
    path = f"{FOLDER}/saved.params"
    mx.nd.save(path, {"x": DATA, "y": DATA + 1})
    with open(path, "rb") as file:
        return [np.frombuffer(file.read(), np.uint8)]


def load() -> Any:
    return list(mx.nd.load(f"{FOLDER}/kept.params").values())


def symbol() -> Any:
    return mx.sym.load_json(NET.tojson()).infer_shape(data=SHAPE)[1]


def record() -> Any:
    x = DATA.copy()
    x.attach_grad()
    with mx.autograd.record():
        y = (mx.nd.dot(x.reshape((6, 81)), x.reshape((81, 6))) * x[0, 0, 0, 0]).sum()
    y.backward()
    return [y, x.grad]


def dots() -> Any:
    x = DATA.reshape((18, 27))
    return [mx.nd.Convolution(DATA, mx.nd.ones((4, 3, 2, 2)), no_bias=True, kernel=(2, 2), num_filter=4),
            mx.nd.softmax(mx.nd.dot(x, x.T))]  # fmt: skip


def operations() -> Any:
    engine, told = services.engine(), []
    variable = engine.new_variable()
    engine.push(lambda: told.append(1), writes=[variable])
    for number in (2, 3):
        engine.push_async(lambda done, number=number: (told.append(number), done()), writes=[variable])
    engine.wait_for_variable(variable)
    return [np.array(told)]


def memory() -> Any:
    manager = StorageManager("mine")
    blocks = [manager.alloc(nbytes, tag="some") for nbytes in (10, 5000, 3 << 20)]
    held = manager.holders().get("some", 0)
    Random("mine").reserve(2)
    Recorder(5).clear()
    del blocks
    return [np.array([held, manager.stats().bytes_in_use])]


WORK: dict[str, Callable[[], Any]] = {
    work.__name__: work for work in (bind, infer, save, load, symbol, record, dots, operations, memory)
}


def values(results: Any) -> list[Any]:
    return [result.asnumpy() if isinstance(result, mx.nd.NDArray) else result for result in results]


def main(name: str, most: int) -> None:
    counter, work = Counter(), WORK[name]
    mx.nd.save(f"{FOLDER}/kept.params", {"x": DATA, "y": DATA + 1})
    expected = values(work())
    values(work())
    counter.begin()
    values(work())
    n = counter.failable()
    ended: dict[str, int] = {}
    for allowed in sorted({int(i) for i in np.linspace(0, n - 1, min(n, most))}):
        print(f"{name}: allocation {allowed} of {n} fails", file=sys.stderr, flush=True)
        counter.fail(allowed)
        try:
            values(work())
            how = "done"
        except (MemoryError, mx.MXNetError) as error:
            how = type(error).__name__
            del error
        finally:
            failed = counter.failed()
            counter.failable()
        try:
            mx.nd.waitall()
        except (MemoryError, mx.MXNetError) as error:
            how = type(error).__name__
            del error
        if not failed:
            how = "not asked for"
        ended[how] = ended.get(how, 0) + 1
        for got, wanted in zip(values(work()), expected, strict=True):
            np.testing.assert_array_equal(got, wanted)
    print(json.dumps({"allocations": n, "ended": ended}))


main(sys.argv[1], int(sys.argv[2]))
