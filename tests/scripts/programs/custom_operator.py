# SPDX-License-Identifier: Apache-2.0
"""A softmax with its gradient in Python, as a custom operator in a Module."""
import mxnet as mx
import numpy as np


class Softmax(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        x = in_data[0].asnumpy()
        y = np.exp(x - x.max(axis=1).reshape((x.shape[0], 1)))
        y /= y.sum(axis=1).reshape((x.shape[0], 1))
        self.assign(out_data[0], req[0], mx.nd.array(y))

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        lab = in_data[1].asnumpy().ravel().astype(np.int32)
        y = out_data[0].asnumpy()
        y[np.arange(lab.shape[0]), lab] -= 1.0
        self.assign(in_grad[0], req[0], mx.nd.array(y))


@mx.operator.register("softmax_of_mine")
class SoftmaxProp(mx.operator.CustomOpProp):
    def __init__(self):
        super(SoftmaxProp, self).__init__(need_top_grad=False)

    def list_arguments(self):
        return ['data', 'label']

    def list_outputs(self):
        return ['output']

    def infer_shape(self, in_shape):
        data_shape = in_shape[0]
        label_shape = (in_shape[0][0],)
        output_shape = in_shape[0]
        return [data_shape, label_shape], [output_shape], []

    def create_operator(self, ctx, shapes, dtypes):
        return Softmax()


rng = np.random.RandomState(3)
x = rng.normal(size=(200, 5)).astype('f')
y = x[:, :3].argmax(axis=1)

data = mx.symbol.Variable('data')
fc = mx.symbol.FullyConnected(data=data, name='fc', num_hidden=3)
mlp = mx.symbol.Custom(data=fc, name='softmax', op_type='softmax_of_mine')
print(mlp.list_arguments(), mlp.list_outputs(), mlp.infer_shape(data=(20, 5)))

mod = mx.mod.Module(mlp, context=mx.cpu(0))
train = mx.io.NDArrayIter(x, y, 20)
start = {'fc_weight': mx.nd.array(rng.normal(size=(3, 5))), 'fc_bias': mx.nd.zeros((3,))}
mod.fit(train, arg_params=start, num_epoch=5, optimizer='sgd', optimizer_params={'learning_rate': 0.3})
print(mod.score(train, 'acc'))
for name, value in sorted(mod.get_params()[0].items()):
    print(name, ' '.join('%.4f' % v for v in value.asnumpy().ravel()))

out = mx.nd.Custom(mx.nd.array([[1, 2, 3]]), mx.nd.array([0]), op_type='softmax_of_mine')
print(out.shape, ' '.join('%.5f' % v for v in out.asnumpy()[0]))
