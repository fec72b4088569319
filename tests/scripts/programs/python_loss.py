# SPDX-License-Identifier: Apache-2.0
"""A SequentialModule whose last part is a loss in Python."""
import mxnet as mx
import numpy as np


def multiclass_hinge(scores, labels):
    scores, labels = scores.asnumpy(), labels.asnumpy().astype(int)
    n = scores.shape[0]
    margin = 1 + scores - scores[np.arange(n), labels].reshape((n, 1))
    margin[np.arange(n), labels] = 0
    worst = margin.argmax(axis=1)
    grad = np.zeros_like(scores)
    for i in range(n):
        if margin[i, worst[i]] > 0:
            grad[i, labels[i]] -= 1
            grad[i, worst[i]] += 1
    return grad


rng = np.random.RandomState(13)
x = rng.normal(size=(120, 4)).astype('float32')
y = x[:, :3].argmax(axis=1).astype('float32')
data = mx.symbol.Variable('data')
fc1 = mx.symbol.FullyConnected(data, name='fc1', num_hidden=8)
act1 = mx.symbol.Activation(fc1, name='relu1', act_type='relu')
fc2 = mx.symbol.FullyConnected(act1, name='fc2', num_hidden=3)
start = {'fc1_weight': rng.normal(size=(8, 4)) / 2, 'fc1_bias': np.zeros(8), 'fc2_weight': rng.normal(size=(3, 8)) / 2,
         'fc2_bias': np.zeros(3)}

mlp = mx.mod.Module(fc2, label_names=None, context=mx.cpu())
loss = mx.mod.PythonLossModule(grad_func=multiclass_hinge)
mod = mx.mod.SequentialModule().add(mlp).add(loss, take_labels=True, auto_wiring=True)
train = mx.io.NDArrayIter(x, y, 20)
mod.fit(train, arg_params={k: mx.nd.array(v) for k, v in start.items()}, num_epoch=6, optimizer='sgd',
        optimizer_params={'learning_rate': 0.2}, eval_metric='acc')
print(mod.score(train, 'acc'))
args = mod.get_params()[0]
for name in sorted(args):
    print(name, '%.4f' % np.abs(args[name].asnumpy()).sum())
print(mod.data_names, mod.output_names)

one = mx.mod.Module(fc1, label_names=[])
two = mx.mod.Module(mx.sym.SoftmaxOutput(mx.sym.Variable('fc1_output'), name='softmax'), data_names=['fc1_output'])
chain = mx.mod.SequentialModule()
chain.add(one).add(two, take_labels=True, auto_wiring=True)
chain.bind(train.provide_data, train.provide_label)
chain.init_params(mx.init.One())
train.reset()
chain.forward(next(iter(train)), is_train=False)
print(chain.get_outputs()[0].shape, '%.4f' % chain.get_outputs()[0][0, 0].asscalar())
