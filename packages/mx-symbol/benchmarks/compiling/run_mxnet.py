# SPDX-License-Identifier: Apache-2.0
"""Binds a symbol file and runs it twice; `mx` or MXNet 1.9.1. Runs on Python 3.8 too.

    python run_mxnet.py mx|mxnet FOLDER

Prints one line of JSON: seconds of wall clock and of processor time, from the loaded symbol to the first result, and
for a step after that.
"""

import importlib
import json
import os
import sys
import time


def steps(mx, net, shapes, training, fixed=()):
    """Seconds (wall, processor) to the first result, and of a later step."""
    began, spent = time.perf_counter(), time.process_time()
    requests = {n: "write" if training and n not in fixed else "null" for n in net.list_arguments()}
    executor = net.simple_bind(mx.cpu(), grad_req=requests, **shapes)
    head = mx.nd.ones(executor.outputs[0].shape)
    measured = []
    for _ in range(2):
        executor.forward(is_train=training)
        if training:
            executor.backward(head)
        mx.nd.waitall()
        measured.append((time.perf_counter() - began, time.process_time() - spent))
        began, spent = time.perf_counter(), time.process_time()
    return measured


def main():
    mx = importlib.import_module(sys.argv[1])
    folder = sys.argv[2]
    with open(os.path.join(folder, "case.json")) as file:
        case = json.load(file)
    shapes = {name: tuple(shape) for name, shape in case["shapes"].items()}
    small = mx.sym.tanh(mx.sym.Variable("data") + 1)
    steps(mx, small, {"data": (4, 4)}, True)  # what a process does once
    net = mx.sym.load(os.path.join(folder, "symbol.json"))
    first, later = steps(mx, net, shapes, case["training"], case["fixed"])
    print(json.dumps({"wall": first[0] - later[0], "processor": first[1] - later[1]}))


if __name__ == "__main__":
    main()
