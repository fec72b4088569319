# SPDX-License-Identifier: Apache-2.0
"""autograd.Function, derivatives of derivatives, and gradients that stop."""
import mxnet as mx
import numpy as np
from mxnet import autograd, nd


class sigmoid(autograd.Function):
    def forward(self, x):
        y = 1 / (1 + mx.nd.exp(-x))
        self.save_for_backward(y)
        return y

    def backward(self, dy):
        y, = self.saved_tensors
        return dy * y * (1 - y)


x = nd.array([-1.0, 0.0, 2.0])
x.attach_grad()
func = sigmoid()
with autograd.record():
    m = func(x)
m.backward(nd.array([1.0, 10.0, 100.0]))
print(' '.join('%.5f' % v for v in x.grad.asnumpy()))

with autograd.record():
    y = nd.sin(x)
    first = autograd.grad(y, x, create_graph=True, retain_graph=True)[0]
    first.backward()
print(' '.join('%.5f' % v for v in x.grad.asnumpy()))

w = nd.array([[1.0, 2.0]])
w.attach_grad(grad_req='add')
for _ in range(3):
    with autograd.record(train_mode=False):
        print(autograd.is_recording(), autograd.is_training())
        z = (w * w).sum() + nd.BlockGrad(w).sum() + w.detach().sum()
    z.backward()
print(w.grad.asnumpy().tolist())

a, b = nd.array([3.0]), nd.array([4.0])
grads = [nd.zeros((1,)), nd.zeros((1,))]
autograd.mark_variables([a, b], grads)
with autograd.record():
    c = a * b + b
    with autograd.pause():
        d = a * 100
    e = c + d
autograd.backward([e, c], head_grads=[nd.ones((1,)), nd.array([2.0])])
print([float(g.asscalar()) for g in grads])


class Twice(autograd.Function):
    def forward(self, x, y):
        return x + y, x * y

    def backward(self, ds, dp):
        return ds + 2 * dp, ds - dp


p, q = nd.array([1.0, 2.0]), nd.array([5.0, 6.0])
p.attach_grad()
q.attach_grad()
with autograd.record():
    s, t = Twice()(p, q)
    loss = (s * 2 + t * 3).sum()
loss.backward()
print(p.grad.asnumpy().tolist(), q.grad.asnumpy().tolist())
print(np.round(loss.asscalar(), 3))
