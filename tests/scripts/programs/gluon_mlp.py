# SPDX-License-Identifier: Apache-2.0
"""The loop of Gluon: record, backward, step."""
from __future__ import print_function

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn

ctx = mx.cpu()
rng = np.random.RandomState(1)
X = nd.array(rng.normal(size=(200, 4)), ctx=ctx)
w = nd.array([[1.0], [-2.0], [0.5], [3.0]])
Y = nd.dot(X, w) + 0.7

net = nn.Sequential()
with net.name_scope():
    net.add(nn.Dense(1))
net.collect_params().initialize(mx.init.Zero(), ctx=ctx)
square_loss = gluon.loss.L2Loss()
trainer = gluon.Trainer(net.collect_params(), 'sgd', {'learning_rate': 0.2})
data = gluon.data.DataLoader(gluon.data.ArrayDataset(X, Y), batch_size=20, shuffle=False)
for epoch in range(3):
    total = 0
    for xb, yb in data:
        with autograd.record():
            loss = square_loss(net(xb), yb)
        loss.backward()
        trainer.step(xb.shape[0])
        total += nd.mean(loss).asscalar()
    print('epoch %d loss %.5f' % (epoch, total / len(data)))
print('weight', ' '.join('%.4f' % v for v in net[0].weight.data().asnumpy()[0]), 'bias %.4f' % net[0].bias.data().asscalar())
trainer.set_learning_rate(0.01)
print(trainer.learning_rate)


class MLP(gluon.Block):
    def __init__(self, **kwargs):
        super(MLP, self).__init__(**kwargs)
        with self.name_scope():
            self.dense0 = nn.Dense(64)
            self.dense1 = nn.Dense(2)

    def forward(self, x):
        x = nd.relu(self.dense0(x))
        return self.dense1(x)


mlp = MLP(prefix='mlp_')
mlp.initialize(mx.init.Normal(sigma=.1), ctx=ctx)
print(mlp(X).shape, sorted(mlp.collect_params()))
print(mlp)
mlp.save_parameters('mlp.params')
again = MLP()
again.load_parameters('mlp.params', ctx=ctx)
print(bool((again(X) == mlp(X)).min().asscalar()))

a = nd.array([[1, 2], [3, 4]])
a.attach_grad()
with autograd.record():
    b = a * 2
    while (nd.norm(b) < 100).asscalar():
        b = b * 2
    c = b[0].sum()
c.backward()
print(a.grad.asnumpy().tolist())
