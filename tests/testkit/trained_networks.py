# SPDX-License-Identifier: Apache-2.0
"""Three small networks that programs in fresh interpreters train: text of Python that makes `net`."""

from __future__ import annotations

NAMES = ("perceptron", "convolutions", "recurrent")

#: the program's first argument names the network; data has the shape (batch, 3, 8, 8), labels are below 4
NETWORK = """
import hashlib, logging, sys
import numpy as np
import mx
logging.disable()
def perceptron(x):
    x = mx.sym.FullyConnected(mx.sym.flatten(x), num_hidden=300)
    return mx.sym.Dropout(mx.sym.Activation(x, act_type="relu"), p=0.3)
def convolutions(x):
    x = mx.sym.BatchNorm(mx.sym.Convolution(x, kernel=(3, 3), num_filter=8), fix_gamma=False)
    return mx.sym.flatten(mx.sym.Pooling(mx.sym.Activation(x, act_type="relu"), kernel=(2, 2), stride=(2, 2)))
def recurrent(x):
    x = mx.sym.transpose(mx.sym.reshape(x, shape=(0, -3, -1)), axes=(1, 0, 2))
    states = [mx.sym.zeros((1, 8, 12)), mx.sym.zeros((1, 8, 12))]
    x = mx.sym.RNN(x, mx.sym.Variable("rnn_weight"), *states, state_size=12, num_layers=1, mode="lstm")
    return mx.sym.mean(x, axis=0)
net = globals()[sys.argv[1]](mx.sym.Variable("data"))
net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(net, num_hidden=4), name="softmax")
"""

#: prints a number for the bits of `module`'s parameters and auxiliary states
DIGEST = """
digest = hashlib.sha256()
for parameters in module.get_params():
    for _, array in sorted(parameters.items()):
        digest.update(array.asnumpy().tobytes())
print(digest.hexdigest())
"""
