# SPDX-License-Identifier: Apache-2.0
"""A KVStore by hand: push, pull, an updater, an optimizer."""
import mxnet as mx

kv = mx.kv.create('local')
shape = (2, 3)
kv.init(3, mx.nd.ones(shape) * 2)
a = mx.nd.zeros(shape)
kv.pull(3, out=a)
print(a.asnumpy().tolist(), kv.type, kv.rank, kv.num_workers)
kv.push(3, mx.nd.ones(shape) * 8)
kv.pull(3, out=a)
print(a.asnumpy().tolist())

contexts = [mx.Context('cpu', i) for i in range(4)]
kv.push(3, [mx.nd.ones(shape, ctx=ctx) for ctx in contexts])
outs = [mx.nd.zeros(shape, ctx=ctx) for ctx in contexts]
kv.pull(3, out=outs)
print([float(o.asnumpy()[1, 1]) for o in outs], outs[2].context)


def update(key, input, stored):
    print('update on key: %d' % key)
    stored += input * 2


kv._set_updater(update)
kv.pull(3, out=a)
kv.push(3, mx.nd.ones(shape))
kv.pull(3, out=a)
print(a.asnumpy().tolist())

keys = [5, 7, 9]
kv.init(keys, [mx.nd.ones(shape)] * len(keys))
kv.push(keys, [mx.nd.ones(shape)] * len(keys))
b = [mx.nd.zeros(shape)] * len(keys)
kv.pull(keys, out=b)
print(b[1].asnumpy().tolist())

named = mx.kv.create('device')
named.init('weight', mx.nd.ones((3,)))
named.set_optimizer(mx.optimizer.create('sgd', learning_rate=0.1, momentum=0.9))
weight = mx.nd.zeros((3,))
for step in range(3):
    named.push('weight', [mx.nd.array([1, 2, 3]), mx.nd.array([1, 1, 1], ctx=mx.cpu(1))])
    named.pull('weight', out=weight)
    print(' '.join('%.4f' % v for v in weight.asnumpy()))
named.save_optimizer_states('kv.states')
named.load_optimizer_states('kv.states')
named.push('weight', mx.nd.zeros((3,)))
named.pull('weight', out=weight)
print(' '.join('%.4f' % v for v in weight.asnumpy()))
