# SPDX-License-Identifier: Apache-2.0
"""Records what a monitor calls the inputs of operators in Apache MXNet 1.9.1. Runs under Python 3.8.

    python monitored.py             records everything anew
    python monitored.py --check     compares with what is recorded, and changes nothing

Of every operator the first case of `operators/` is run that MXNet runs on a CPU; each in a process of its own, since
some crash. MXNET_SUBGRAPH_BACKEND=NONE must be set: MXNet's graph passes give nodes other names.
"""

import json
import os
import sys

import mxnet as mx
import numpy as np
from common import function

HERE = os.path.dirname(os.path.abspath(__file__))
FAMILIES = os.path.join(HERE, os.pardir, "operators")
FILE = os.path.join(HERE, os.pardir, "names", "monitored.json")


def names_of(case, arrays):
    """Names of the inputs of one application, without that of the node."""
    given = [mx.sym.var("given_" + name) for name in case["arguments"] + case["aux"]]
    made = function(mx.sym, case["op"])(*given, name="op", **case["attrs"])
    arguments, aux = [
        [
            mx.nd.array(x, dtype=x.dtype)
            for x in (arrays["{}/{}/{}".format(case["id"], kind, n)] for n in names)
        ]
        for kind, names in (("arg", case["arguments"]), ("aux", case["aux"]))
    ]
    seen = []
    executor = made.bind(mx.cpu(), arguments, aux_states=aux)
    executor.set_monitor_callback(lambda name, _: seen.append(mx.base.py_str(name)), True)
    executor.forward(is_train=False)
    mx.nd.waitall()
    return [name[3:] for name in seen if name.startswith("op_")][: len(given)]


def apart(run, *args):
    """The result of a function in a process of its own; None if that fails."""
    source, sink = os.pipe()
    if not os.fork():
        try:
            os.write(sink, json.dumps(run(*args)).encode())
        finally:
            os._exit(0)
    os.close(sink)
    with os.fdopen(source) as stream:
        text = stream.read()
    os.wait()
    return json.loads(text) if text else None


def recorded():
    """Operator -> names of its inputs."""
    found = {}
    for family in sorted(name[:-5] for name in os.listdir(FAMILIES) if name.endswith(".json")):
        with open(os.path.join(FAMILIES, family + ".json")) as stream:
            cases = json.load(stream)
        arrays = np.load(os.path.join(FAMILIES, family + ".npz"))
        for case in cases:
            if case["op"] not in found:
                names = apart(names_of, case, arrays)
                if names:
                    found[case["op"]] = names
    return found


def main():
    lines = ["{}: {}".format(json.dumps(op), json.dumps(names)) for op, names in sorted(recorded().items())]
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    if "--check" in sys.argv:
        with open(FILE) as stream:
            sys.exit(0 if stream.read() == text else "monitored.json differs")
    with open(FILE, "w") as stream:
        stream.write(text)


if __name__ == "__main__":
    main()
