# SPDX-License-Identifier: Apache-2.0
"""A network with two outputs, an iterator that gives both labels, and a metric with a value for each."""
import mxnet as mx
import numpy as np

rng = np.random.RandomState(4)
x = rng.randn(60, 5).astype('float32')
classes = x[:, :3].argmax(axis=1).astype('float32')
sums = x.sum(axis=1)


class TwoLabels(mx.io.DataIter):
    def __init__(self, data_iter):
        super(TwoLabels, self).__init__()
        self.data_iter = data_iter
        self.batch_size = data_iter.batch_size

    @property
    def provide_data(self):
        return self.data_iter.provide_data

    @property
    def provide_label(self):
        shape = self.data_iter.provide_label[0][1]
        return [('class_label', shape), ('sum_label', shape)]

    def reset(self):
        self.data_iter.reset()

    def next(self):
        batch = self.data_iter.next()
        both = batch.label[0].asnumpy()
        return mx.io.DataBatch(data=batch.data, label=[mx.nd.array(np.floor(both)), batch.label[0]],
                               pad=batch.pad, index=batch.index)


class PerTask(mx.metric.EvalMetric):
    def __init__(self, num):
        self.tasks = num
        super(PerTask, self).__init__('per-task')

    def reset(self):
        self.num_inst = [0] * self.tasks
        self.sum_metric = [0.0] * self.tasks

    def update(self, labels, preds):
        right = preds[0].asnumpy().argmax(axis=1) == labels[0].asnumpy()
        errors = np.abs(preds[1].asnumpy().ravel() - labels[1].asnumpy())
        for i, values in enumerate((right, errors)):
            self.sum_metric[i] += float(values.sum())
            self.num_inst[i] += len(values)

    def get(self):
        values = [s / n if n else float('nan') for s, n in zip(self.sum_metric, self.num_inst)]
        return ['accuracy', 'error'], values


class Pattern(mx.init.Initializer):
    def _init_weight(self, name, arr):
        arr[:] = (np.arange(arr.size).reshape(arr.shape) * 7 % 11 - 5) * 0.05


hidden = mx.sym.FullyConnected(mx.sym.Variable('data'), num_hidden=6, name='hidden')
first = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(hidden, num_hidden=3, name='one'), name='class')
second = mx.sym.LinearRegressionOutput(mx.sym.FullyConnected(hidden, num_hidden=1, name='two'), name='sum')
both = mx.sym.Group([first, second])
print(both.list_arguments())

data = TwoLabels(mx.io.NDArrayIter(x, classes + 0.25, batch_size=20))
module = mx.mod.Module(both, label_names=['class_label', 'sum_label'])
module.fit(data, eval_metric=PerTask(num=2), initializer=Pattern(), num_epoch=4,
           optimizer_params={'learning_rate': 0.05, 'momentum': 0.5})
for name, value in module.score(data, PerTask(num=2)):
    print(name, '%.4f' % value)
print(['%.4f' % v for v in module.get_params()[0]['one_bias'].asnumpy()])
