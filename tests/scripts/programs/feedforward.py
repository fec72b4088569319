# SPDX-License-Identifier: Apache-2.0
"""A perceptron by mx.model.FeedForward, as scripts of 2016 have it."""
import logging

import mxnet as mx
import numpy as np

logging.basicConfig(level=logging.WARNING)
mx.random.seed(1)
np.random.seed(1)

x = np.random.normal(size=(400, 6)).astype('float32')
y = (x[:, 0] + x[:, 1] > 0).astype('float32')

data = mx.symbol.Variable('data')
fc1 = mx.symbol.FullyConnected(data=data, name='fc1', num_hidden=16)
act1 = mx.symbol.Activation(data=fc1, name='relu1', act_type='relu')
fc2 = mx.symbol.FullyConnected(data=act1, name='fc2', num_hidden=2)
softmax = mx.symbol.SoftmaxOutput(data=fc2, name='softmax')

model = mx.model.FeedForward(
    ctx=mx.cpu(), symbol=softmax, num_epoch=15, optimizer='sgd', learning_rate=0.5, momentum=0.9, wd=0.00001,
    initializer=mx.init.Xavier(factor_type='in', magnitude=2.34))
train = mx.io.NDArrayIter(x, y, batch_size=40, shuffle=True)
val = mx.io.NDArrayIter(x, y, batch_size=40)
model.fit(X=train, eval_data=val, eval_metric='accuracy')

prob = model.predict(val)
print('prob', prob.shape, type(prob).__name__)
print('rows sum to one', bool(np.allclose(prob.sum(axis=1), 1, atol=1e-5)))
val.reset()
print('accuracy above 0.95', model.score(val) > 0.95)
print(sorted((k, v.shape) for k, v in model.arg_params.items()))

model.save('ff', 15)
loaded = mx.model.FeedForward.load('ff', 15, ctx=mx.cpu())
val.reset()
print('loaded predicts the same', bool(np.allclose(loaded.predict(val), prob, atol=1e-6)))

made = mx.model.FeedForward.create(softmax, X=x, y=y, ctx=mx.cpu(), num_epoch=1, learning_rate=0.1,
                                   numpy_batch_size=50)
print('created', sorted(made.aux_params), made.num_epoch)
