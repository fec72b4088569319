# SPDX-License-Identifier: Apache-2.0
"""Checkpoints with optimizer states: a training that is resumed ends where one without a break does."""
import mxnet as mx
import numpy as np

rng = np.random.RandomState(4)
x = rng.normal(size=(60, 3)).astype('float32')
y = (x.sum(axis=1) > 0).astype('float32')
net = mx.sym.FullyConnected(mx.sym.Variable('data'), num_hidden=2, name='fc')
net = mx.sym.SoftmaxOutput(net, name='softmax')
start = {'fc_weight': mx.nd.array(rng.normal(size=(2, 3))), 'fc_bias': mx.nd.zeros((2,))}
settings = {'learning_rate': 0.1, 'momentum': 0.9, 'wd': 0.001}


def it():
    return mx.io.NDArrayIter(x, y, 20)


through = mx.mod.Module(net)
through.fit(it(), arg_params=start, num_epoch=4, optimizer_params=settings)

half = mx.mod.Module(net)
half.fit(it(), arg_params=start, num_epoch=2, optimizer_params=settings,
         epoch_end_callback=mx.callback.module_checkpoint(half, 'half', period=2, save_optimizer_states=True))
resumed = mx.mod.Module.load('half', 2, load_optimizer_states=True, data_names=['data'])
resumed.fit(it(), begin_epoch=2, num_epoch=4, optimizer_params=settings)
for name in ('fc_weight', 'fc_bias'):
    a, b = (m.get_params()[0][name].asnumpy() for m in (through, resumed))
    print(name, ' '.join('%.5f' % v for v in a.ravel()), bool(np.allclose(a, b, atol=1e-6)))

mx.model.save_checkpoint('other', 7, net, start, {})
symbol, args, auxs = mx.model.load_checkpoint('other', 7)
print(symbol.list_arguments(), sorted(args), auxs)
mx.nd.save('pair.nd', {'arg:fc_weight': start['fc_weight'], 'aux:m': mx.nd.ones((2,))})
print(sorted((k, v.shape) for k, v in mx.nd.load('pair.nd').items()))
mx.nd.save('list.nd', [mx.nd.ones((1, 2)), mx.nd.zeros((3,))])
print([v.shape for v in mx.nd.load('list.nd')])
print(resumed.score(it(), ['acc', 'ce']))
