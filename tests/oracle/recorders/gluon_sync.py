# SPDX-License-Identifier: Apache-2.0
"""Records SyncBatchNorm of MXNet 1.9.1 on several CPU contexts. Runs under Python 3.8.

python gluon_sync.py             records the cases below anew
python gluon_sync.py --check     compares with what is recorded, and changes nothing
"""

import os

os.environ.setdefault("MXNET_SUBGRAPH_BACKEND", "NONE")

import mxnet as mx
import numpy as np
from common import write_or_check
from mxnet import autograd, nd
from mxnet.gluon.contrib.nn import SyncBatchNorm

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "gluon", "sync.json")

#: number of contexts, shape of one context's batch, arguments
CASES = [
    (2, [3, 3, 2], {}),
    (2, [4, 2], {"momentum": 0.7, "epsilon": 1e-3}),
    (3, [2, 4, 3, 3], {"scale": False}),
    (2, [2, 3, 2], {"center": False}),
    (2, [2, 3, 2], {"use_global_stats": True}),
    (1, [4, 3, 2], {}),
]


def compute(number, count, shape, arguments):
    """Two steps of a layer on each context, and what it predicts then."""
    random = np.random.RandomState(number)
    contexts = [mx.cpu(i) for i in range(count)]
    net = SyncBatchNorm(num_devices=count, prefix="s%d_" % number, **arguments)
    net.initialize(ctx=contexts)
    net(nd.zeros(shape))
    given = {"gamma": random.uniform(0.5, 2, shape[1]), "beta": random.uniform(-1, 1, shape[1])}
    for name, values in given.items():
        getattr(net, name).set_data(nd.array(values))
    found = {key: values.tolist() for key, values in given.items()}
    found.update(count=count, arguments=arguments, x=[], head=[], out=[], grad=[])
    for _ in range(2):
        draws = random.uniform(-2, 2, (2, count, *shape)).astype("float32")
        x, heads = ([nd.array(each, ctx=ctx) for each, ctx in zip(part, contexts)] for part in draws)
        for each in x:
            each.attach_grad()
        with autograd.record():
            out = [net(each) for each in x]
        autograd.backward(out, heads)
        nd.waitall()
        for key, arrays in (("x", x), ("head", heads), ("out", out), ("grad", [each.grad for each in x])):
            found[key].append([each.asnumpy().tolist() for each in arrays])
    found["predicted"] = [net(each).asnumpy().tolist() for each in x]
    for name in ("gamma", "beta"):
        param = getattr(net, name)
        if param.grad_req != "null":
            found[name + "_grad"] = [param.grad(ctx).asnumpy().tolist() for ctx in contexts]
    for name in ("running_mean", "running_var"):
        found[name] = [getattr(net, name).data(ctx).asnumpy().tolist() for ctx in contexts]
    return found


def main():
    write_or_check(PATH, [compute(i, *case) for i, case in enumerate(CASES)], 1e-4, None)


if __name__ == "__main__":
    main()
