# SPDX-License-Identifier: Apache-2.0
"""Metrics of a program's own: a function, a class, several together."""
import mxnet as mx
import numpy as np


def rmse(label, pred):
    return np.sqrt(np.mean((label - pred.flatten()) ** 2))


class TopTwo(mx.metric.EvalMetric):
    def __init__(self):
        super(TopTwo, self).__init__('top-two')

    def update(self, labels, preds):
        for label, pred in zip(labels, preds):
            best = mx.nd.topk(pred, k=2).asnumpy()
            label = label.asnumpy()
            self.sum_metric += (best == label[:, None]).sum()
            self.num_inst += len(label)


pred = mx.nd.array([[0.1, 0.5, 0.4], [0.7, 0.2, 0.1], [0.3, 0.2, 0.5], [0.2, 0.5, 0.3]])
label = mx.nd.array([2, 0, 0, 0])

metrics = mx.metric.CompositeEvalMetric()
for child in [mx.metric.create('acc'), TopTwo(), mx.metric.TopKAccuracy(top_k=2), mx.metric.CrossEntropy(),
              mx.metric.Perplexity(ignore_label=None)]:
    metrics.add(child)
metrics.update([label], [pred])
for name, value in zip(*metrics.get()):
    print(name, '%.5f' % value)
metrics.reset()
print(np.isnan(metrics.get()[1][0]))

custom = mx.metric.np(rmse)
custom.update([mx.nd.array([1, 2, 3])], [mx.nd.array([[1.5], [2.5], [2]])])
custom.update([mx.nd.array([1, 2, 3])], [mx.nd.array([[1], [2], [3]])])
print(*custom.get())
named = mx.metric.CustomMetric(lambda label, pred: (float(label.sum()), 4), name='sums')
named.update([label], [pred])
print(named.get_name_value())
print(mx.metric.create(['mse', 'mae']).get()[0])
f1 = mx.metric.F1()
f1.update([mx.nd.array([0, 1, 1, 0])], [mx.nd.array([[.9, .1], [.2, .8], [.6, .4], [.3, .7]])])
print(f1.get())
