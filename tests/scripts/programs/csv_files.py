# SPDX-License-Identifier: Apache-2.0
"""CSVIter, and iterators around it."""
import mxnet as mx
import numpy as np

rng = np.random.RandomState(10)
x = rng.uniform(0, 100, (10, 4)).round(2)
y = rng.randint(0, 2, 10)
np.savetxt('data.csv', x, fmt='%g', delimiter=',')
np.savetxt('label.csv', y, fmt='%d')
it = mx.io.CSVIter(data_csv='data.csv', data_shape=(2, 2), label_csv='label.csv', label_shape=(1,), batch_size=4)
print([(d.name, d.shape) for d in it.provide_data + it.provide_label])
for epoch in range(2):
    for batch in it:
        print(batch.data[0].shape, batch.label[0].shape, batch.pad, '%.2f' % batch.data[0].sum().asscalar())
    it.reset()
whole = mx.io.CSVIter(data_csv='data.csv', data_shape=(4,), batch_size=5, round_batch=False)
print([b.data[0].asnumpy().shape for b in whole])

it.reset()
resized = mx.io.ResizeIter(it, 2)
print(sum(1 for _ in resized))
plain = mx.io.NDArrayIter({'a': x, 'b': x[:, :2]}, {'l': y}, 3, last_batch_handle='discard')
print([(d.name, d.shape) for d in plain.provide_data], sum(1 for _ in plain))
padded = mx.io.NDArrayIter(x, y, 4, last_batch_handle='pad')
print([b.pad for b in padded], len(list(mx.io.NDArrayIter(x, y, 5))))
pre = mx.io.PrefetchingIter(mx.io.NDArrayIter(x, y, 5))
print([b.label[0].asnumpy().tolist() for b in pre])


class Squares(mx.io.DataIter):
    def __init__(self, count):
        super(Squares, self).__init__(2)
        self.count, self.place = count, 0
        self.provide_data = [('data', (2, 1))]
        self.provide_label = [('softmax_label', (2,))]

    def reset(self):
        self.place = 0

    def next(self):
        if self.place == self.count:
            raise StopIteration
        self.place += 1
        value = mx.nd.array([[self.place], [self.place ** 2]])
        return mx.io.DataBatch([value], [mx.nd.zeros((2,))], pad=0)


print([b.data[0].asnumpy().ravel().tolist() for b in Squares(3)])
