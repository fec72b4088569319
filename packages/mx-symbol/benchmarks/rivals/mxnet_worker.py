# SPDX-License-Identifier: Apache-2.0
"""A network in MXNet 1.9.1, from its symbol file; for Python 3.8."""

from pathlib import Path

import mxnet as mx
from loop import network, serve


def make(folder, mode, kind):
    """An executor of the symbol."""
    net = mx.sym.load(str(Path(folder) / "symbol.json"))
    values = network(folder)[2]
    training = mode == "training"
    fixed = [n for n in net.list_arguments() if n == "data" or "begin" in n]
    request = {n: "null" if n in fixed or not training else "write" for n in net.list_arguments()}
    shapes = {n: values[n].shape for n in net.list_arguments()}
    executor = net.simple_bind(mx.cpu(), grad_req=request, **shapes)
    for table in (executor.arg_dict, executor.aux_dict):
        for name, array in table.items():
            array[:] = values[name]
    result = executor.forward(is_train=False)[0].asnumpy()
    head = mx.nd.ones(result.shape)

    def run():
        executor.forward(is_train=training)
        if training:
            executor.backward([head])
        mx.nd.waitall()

    return run, result


if __name__ == "__main__":
    serve(make)
