# SPDX-License-Identifier: Apache-2.0
"""MXNet 1.9.1, which reads our symbol files. Runs on Python 3.8."""

import os

import mxnet as mx
import numpy as np


def prepare(framework, folder, training, dtype):
    """Step, finish and checksum of a task."""
    net = mx.sym.load(os.path.join(folder, "symbol.json"))
    if not training:
        net = net.optimize_for("MKLDNN")
    arrays = np.load(os.path.join(folder, "arrays.npz"))
    inputs = net.list_arguments() + net.list_auxiliary_states()
    shapes = {name: arrays[name].shape for name in inputs if name in arrays}
    requests = {n: "write" if n != "data" else "null" for n in net.list_arguments()} if training else "null"
    executor = net.simple_bind(mx.cpu(), grad_req=requests, **shapes)
    for table in (executor.arg_dict, executor.aux_dict):
        for name, array in table.items():
            array[:] = arrays[name]
    head = mx.nd.ones(executor.outputs[0].shape)

    def step():
        executor.forward(is_train=training)
        if training:
            executor.backward(head)

    return step, mx.nd.waitall, lambda: float(np.abs(executor.forward()[0].asnumpy()).mean())
