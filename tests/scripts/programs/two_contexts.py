# SPDX-License-Identifier: Apache-2.0
"""A Module on two contexts trains as on one."""
import mxnet as mx
import numpy as np

rng = np.random.RandomState(12)
x = rng.normal(size=(64, 5)).astype('float32')
y = x.argmax(axis=1).astype('float32')
net = mx.sym.FullyConnected(mx.sym.Variable('data'), num_hidden=8, name='fc1')
net = mx.sym.Activation(net, act_type='sigmoid')
net = mx.sym.FullyConnected(net, num_hidden=5, name='fc2')
net = mx.sym.SoftmaxOutput(net, name='softmax')
start = {'fc1_weight': rng.normal(size=(8, 5)), 'fc1_bias': np.zeros(8), 'fc2_weight': rng.normal(size=(5, 8)),
         'fc2_bias': np.zeros(5)}
found = []
for devices in ([mx.cpu(0)], [mx.cpu(0), mx.cpu(1)], [mx.cpu(0), mx.cpu(1), mx.cpu(2)]):
    for kv in ('local', 'device'):
        mod = mx.mod.Module(net, context=devices, work_load_list=[1] * len(devices))
        mod.fit(mx.io.NDArrayIter(x, y, 16), arg_params={k: mx.nd.array(v) for k, v in start.items()}, kvstore=kv,
                optimizer='adam', optimizer_params={'learning_rate': 0.05}, num_epoch=4, eval_metric='acc')
        weights = mod.get_params()[0]
        found.append(np.concatenate([weights[k].asnumpy().ravel() for k in sorted(weights)]))
        print(len(devices), kv, '%.4f' % np.abs(found[-1]).sum(), mod.score(mx.io.NDArrayIter(x, y, 16), 'acc'))
print(all(np.allclose(found[0], other, atol=1e-4) for other in found))
out = mod.predict(mx.io.NDArrayIter(x[:32], None, 16))
print(out.shape)
mod.forward(mx.io.DataBatch([mx.nd.array(x[:16])], [mx.nd.array(y[:16])]), is_train=True)
mod.backward()
print(mod.get_outputs()[0].shape, len(mod.get_outputs(merge_multi_context=False)[0]))
