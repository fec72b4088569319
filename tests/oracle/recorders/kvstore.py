# SPDX-License-Identifier: Apache-2.0
"""Records stores of MXNet 1.9.1 on several CPU contexts, compressed pushes included. Runs under Python 3.8.

python kvstore.py             records the cases below anew
python kvstore.py --check     compares with what is recorded, and changes nothing
"""

import os

import mxnet as mx
import numpy as np
from common import write_or_check
from mxnet import nd

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "training", "kvstore.json")

#: optimizers by name, with their arguments
TEST = ("Test", {"rescale_grad": 0.5})
PRECISE = ("SGD", {"learning_rate": 2.0**-10, "momentum": 0.5, "multi_precision": True})
#: type of the store, parameters of compression, type of elements, arrays of a push, elements, optimizer
CASES = [
    (kind, compression, dtype, count, size, updates)
    for kind, compression in (
        ("local", None),
        ("device", None),
        ("device", {"type": "2bit", "threshold": 0.5}),
        ("device", {"type": "2bit", "threshold": 0.375}),
    )
    for dtype in (("float32",) if compression else ("float32", "float64", "float16", "int32"))
    for count, size, updates in ((1, 5, None), (2, 16, TEST), (3, 33, None), (4, 40, TEST))
    if not (updates and dtype == "int32")
] + [(kind, None, "float16", 2, 20, PRECISE) for kind in ("local", "device")]


def compute(number, kind, compression, dtype, count, size, updates):
    """Four pushes of whole numbers of eighths, so that sums are exact, with what is pulled after each."""
    random = np.random.RandomState(number)
    store = mx.kv.create(kind)
    if compression:
        store.set_gradient_compression(compression)
    scale = 1 if dtype == "int32" else 8

    def drawn():
        return random.randint(-8, 9, size) / scale

    first = drawn()
    store.init("w", nd.array(first, dtype=dtype))
    if updates:
        name, arguments = updates
        store.set_optimizer(mx.optimizer.create(name, **arguments))
    found = {
        "kind": kind,
        "compression": compression,
        "dtype": dtype,
        "updates": updates,
        "first": first.tolist(),
        "pushed": [],
        "pulled": [],
    }
    for _ in range(4):
        pushed = [drawn() for _ in range(count)]
        store.push("w", [nd.array(each, mx.cpu(i), dtype) for i, each in enumerate(pushed)])
        outs = [nd.zeros(size, mx.cpu(i), dtype) for i in range(count)]
        store.pull("w", outs)
        values = [out.asnumpy().astype("float64").tolist() for out in outs]
        assert all(each == values[0] for each in values)
        found["pushed"].append([each.tolist() for each in pushed])
        found["pulled"].append(values[0])
    return found


def main():
    write_or_check(PATH, [compute(i, *case) for i, case in enumerate(CASES)], 0, None)


if __name__ == "__main__":
    main()
