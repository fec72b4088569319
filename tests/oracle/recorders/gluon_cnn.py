# SPDX-License-Identifier: Apache-2.0
"""Records deformable convolutions of MXNet 1.9.1's Gluon. Runs under Python 3.8.

python gluon_cnn.py             records the cases below anew
python gluon_cnn.py --check     compares with what is recorded, and changes nothing
"""

import json
import os

os.environ.update(MXNET_MKLDNN_ENABLED="0", MXNET_STORAGE_FALLBACK_LOG_VERBOSE="0")
os.environ.setdefault("MXNET_SUBGRAPH_BACKEND", "NONE")

import mxnet as mx
import numpy as np
from common import write_or_check
from mxnet import autograd, nd
from mxnet.gluon.contrib import cnn

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "gluon", "cnn.json")

#: expression, shape of the images
CASES = [
    ("cnn.DeformableConvolution(3)", (2, 2, 3, 4)),
    ("cnn.DeformableConvolution(2, kernel_size=(3, 3), padding=(1, 1), in_channels=3)", (1, 3, 4, 5)),
    (
        "cnn.DeformableConvolution(4, 3, 2, 1, 2, groups=2, num_deformable_group=2, activation='relu', prefix='d_')",
        (2, 4, 6, 5),
    ),
    ("cnn.DeformableConvolution(2, (2, 3), offset_use_bias=False)", (1, 2, 4, 4)),
    (
        "cnn.DeformableConvolution(2, 2, use_bias=False, weight_initializer='ones', "
        "offset_weight_initializer='ones', offset_bias_initializer='ones')",
        (1, 2, 4, 3),
    ),
    ("cnn.ModulatedDeformableConvolution(3)", (2, 2, 3, 4)),
    (
        "cnn.ModulatedDeformableConvolution(2, kernel_size=(3, 3), padding=(1, 1), in_channels=3)",
        (1, 3, 4, 5),
    ),
    (
        "cnn.ModulatedDeformableConvolution(4, 3, 2, 1, groups=2, num_deformable_group=2, activation='tanh', "
        "use_bias=False, offset_use_bias=False)",
        (2, 4, 6, 5),
    ),
]


def drawn(random, shape):
    return nd.array(random.uniform(-1, 1, shape).astype("float32"))


def compute(number, expression, shape):
    """Names, shapes and texts of a layer, then its output and gradients with drawn parameters."""
    random = np.random.RandomState(number)
    with mx.name.NameManager():
        net = eval(expression, {"cnn": cnn})
    told = {
        "make": expression,
        "prefix": net.prefix,
        "before": repr(net),
        "unknown": {name: list(param.shape) for name, param in net.collect_params().items()},
    }
    net.initialize(mx.init.Constant(0.5))
    x = drawn(random, shape)
    told["first"] = net(x).asnumpy().tolist()
    params = net.collect_params()
    told["initial"] = {name: param.data().asnumpy().tolist() for name, param in params.items()}
    told["structure"] = {name: param.name for name, param in net._collect_params_with_prefix().items()}
    told["after"] = repr(net)
    told["values"] = {}
    for name, param in sorted(params.items()):
        value = drawn(random, param.shape)
        told["values"][name] = value.asnumpy().tolist()
        param.set_data(value)
    x.attach_grad()
    with autograd.record():
        out = net(x)
    told.update(x=x.asnumpy().tolist(), out=out.asnumpy().tolist())
    if "Modulated" not in expression:  # MXNet computes the others on GPUs alone
        head = drawn(random, out.shape)
        out.backward(head)
        grads = {name: param.grad().asnumpy().tolist() for name, param in params.items()}
        grads["x"] = x.grad.asnumpy().tolist()
        told.update(head=head.asnumpy().tolist(), grads=grads)
    net.hybridize()
    net(x)
    nodes = json.loads(net._cached_graph[1].tojson())["nodes"]
    told["nodes"] = [[node["name"], node["op"]] for node in nodes if node["op"] != "null"]
    return told


def main():
    write_or_check(PATH, [compute(i, *case) for i, case in enumerate(CASES)], 1e-4, indent=None)


if __name__ == "__main__":
    main()
