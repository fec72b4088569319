# SPDX-License-Identifier: Apache-2.0
"""A Monitor that watches outputs, weights and gradients of a Module."""
import logging

import mxnet as mx
import numpy as np

lines = []


class Handler(logging.Handler):
    def emit(self, record):
        lines.append(record.getMessage())


logging.getLogger().setLevel(logging.INFO)
logging.getLogger().handlers = [Handler()]


def norm_stat(d):
    return mx.nd.norm(d) / np.sqrt(d.size)


rng = np.random.RandomState(6)
x = rng.normal(size=(40, 3)).astype('float32')
y = (x[:, 0] > 0).astype('float32')
data = mx.symbol.Variable('data')
fc1 = mx.symbol.FullyConnected(data, name='fc1', num_hidden=4)
act = mx.symbol.Activation(fc1, name='tanh1', act_type='tanh')
fc2 = mx.symbol.FullyConnected(act, name='fc2', num_hidden=2)
mlp = mx.symbol.SoftmaxOutput(fc2, name='softmax')
start = {'fc1_weight': rng.normal(size=(4, 3)), 'fc1_bias': np.zeros(4), 'fc2_weight': rng.normal(size=(2, 4)),
         'fc2_bias': np.zeros(2)}
mon = mx.mon.Monitor(2, norm_stat, pattern='(fc1|fc2|tanh1)_(weight|output|bias)$', sort=True)
mod = mx.mod.Module(mlp, context=mx.cpu())
mod.fit(mx.io.NDArrayIter(x, y, 10), arg_params={k: mx.nd.array(v) for k, v in start.items()}, monitor=mon, num_epoch=1,
        optimizer='sgd', optimizer_params={'learning_rate': 0.1})
for line in lines:
    if line.startswith('Batch'):
        print(line.strip())

seen = []
ex = mlp.simple_bind(mx.cpu(), data=(2, 3))
ex.set_monitor_callback(lambda name, array: seen.append(name))
ex.forward()
print(sorted(set(n if isinstance(n, str) else n.decode() for n in seen)))
