# SPDX-License-Identifier: Apache-2.0
"""Module.fit with callbacks, a KVStore and checkpoints."""
import logging
import re

import mxnet as mx
import numpy as np

lines = []


class Handler(logging.Handler):
    def emit(self, record):
        lines.append(record.getMessage())


logging.getLogger().setLevel(logging.INFO)
logging.getLogger().handlers = [Handler()]

mx.random.seed(42)
np.random.seed(42)
rng = np.random.RandomState(0)
X = rng.uniform(-1, 1, (500, 1, 8, 8)).astype(np.float32)
Y = (X[:, 0, :4].sum(axis=(1, 2)) > X[:, 0, 4:].sum(axis=(1, 2))).astype(np.float32)

data = mx.sym.var('data')
conv1 = mx.sym.Convolution(data=data, kernel=(3, 3), num_filter=8)
tanh1 = mx.sym.Activation(data=conv1, act_type='tanh')
pool1 = mx.sym.Pooling(data=tanh1, pool_type='max', kernel=(2, 2), stride=(2, 2))
flatten = mx.sym.flatten(data=pool1)
fc1 = mx.sym.FullyConnected(data=flatten, num_hidden=2)
lenet = mx.sym.SoftmaxOutput(data=fc1, name='softmax')

batch_size = 50
train_iter = mx.io.NDArrayIter(X[:400], Y[:400], batch_size, shuffle=True)
val_iter = mx.io.NDArrayIter(X[400:], Y[400:], batch_size)
mod = mx.mod.Module(symbol=lenet, context=mx.cpu())
mod.fit(train_iter, eval_data=val_iter, optimizer='sgd', kvstore='local',
        optimizer_params=(('learning_rate', 0.2), ('momentum', 0.5)), eval_metric=['acc', 'ce'], num_epoch=10,
        initializer=mx.init.Xavier(rnd_type='gaussian', factor_type='in', magnitude=2),
        batch_end_callback=mx.callback.Speedometer(batch_size, 4),
        epoch_end_callback=mx.callback.do_checkpoint('lenet', period=5))

acc = mx.metric.Accuracy()
mod.score(val_iter, acc)
print(acc.get()[0], 'above 0.7', acc.get()[1] > 0.7)
print(mod.output_names, mod.data_shapes, mod.label_shapes)
for line in lines[:5]:
    print(re.sub(r'\d+\.\d+', '#', line))
print(sum('Saved checkpoint' in line for line in lines), 'checkpoints')

sym, arg_params, aux_params = mx.model.load_checkpoint('lenet', 10)
test = mx.mod.Module(symbol=sym, context=mx.cpu(), label_names=None)
test.bind(for_training=False, data_shapes=[('data', (1, 1, 8, 8))], label_shapes=test._label_shapes)
test.set_params(arg_params, aux_params, allow_missing=True)
expected = mod.predict(val_iter).asnumpy()[0]
from collections import namedtuple  # noqa: E402

Batch = namedtuple('Batch', ['data'])
test.forward(Batch([mx.nd.array(X[400:401])]))
print(np.allclose(test.get_outputs()[0].asnumpy()[0], expected, atol=1e-5))
