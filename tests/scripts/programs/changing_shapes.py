# SPDX-License-Identifier: Apache-2.0
"""A module that binds another one for each size of image, as detectors had it, and a loader that splits batches."""
import logging

import mxnet as mx
import numpy as np
from mxnet.executor_manager import _split_input_slice
from mxnet.module.base_module import BaseModule
from mxnet.module.module import Module


class AnyShape(BaseModule):
    def __init__(self, symbol, data_names, label_names, largest, fixed_prefix):
        super(AnyShape, self).__init__(logger=logging)
        self._symbol = symbol
        self._names = data_names, label_names
        self._largest = largest
        self._fixed = [name for name in symbol.list_arguments() if name.startswith(fixed_prefix)]
        self._module = None

    data_names = property(lambda self: self._names[0])
    output_names = property(lambda self: self._symbol.list_outputs())
    data_shapes = property(lambda self: self._module.data_shapes)
    label_shapes = property(lambda self: self._module.label_shapes)
    output_shapes = property(lambda self: self._module.output_shapes)

    def _new(self):
        return Module(self._symbol, self._names[0], self._names[1], logger=self.logger,
                      fixed_param_names=self._fixed)

    def bind(self, data_shapes, label_shapes=None, for_training=True, inputs_need_grad=False,
             force_rebind=False, shared_module=None, grad_req='write'):
        if self.binded:
            return
        self.for_training, self.inputs_need_grad, self.binded = for_training, inputs_need_grad, True
        self._module = self._new()
        self._module.bind(self._largest, label_shapes, for_training, inputs_need_grad)

    def init_params(self, initializer=None, arg_params=None, aux_params=None, allow_missing=False,
                    force_init=False, allow_extra=False):
        self._module.init_params(initializer, arg_params, aux_params, allow_missing, force_init)
        self.params_initialized = True

    def init_optimizer(self, kvstore='local', optimizer='sgd', optimizer_params=(), force_init=False):
        self._module.init_optimizer(kvstore, optimizer, optimizer_params, force_init)
        self.optimizer_initialized = True

    def get_params(self):
        return self._module.get_params()

    def forward(self, data_batch, is_train=None):
        bound = dict((name, shape) for name, shape in self._module.data_shapes + self._module.label_shapes)
        if any(bound[name] != shape for name, shape in data_batch.provide_data + data_batch.provide_label):
            module = self._new()
            module.bind(data_batch.provide_data, data_batch.provide_label, self._module.for_training,
                        self._module.inputs_need_grad, force_rebind=False, shared_module=self._module)
            self._module = module
        self._module.forward(data_batch, is_train=is_train)

    def backward(self, out_grads=None):
        self._module.backward(out_grads)

    def update(self):
        self._module.update()

    def get_outputs(self, merge_multi_context=True):
        return self._module.get_outputs(merge_multi_context)

    def get_input_grads(self, merge_multi_context=True):
        return self._module.get_input_grads(merge_multi_context)

    def update_metric(self, eval_metric, labels, pre_sliced=False):
        self._module.update_metric(eval_metric, labels)

    def install_monitor(self, mon):
        self._module.install_monitor(mon)


class Images(mx.io.DataIter):
    def __init__(self):
        super(Images, self).__init__()
        self.batch_size = 4
        self.reset()
        self.data = [mx.nd.zeros((4, 3, 8, 8))]
        self.label = [mx.nd.zeros((4,))]

    provide_data = property(lambda self: [('data', self.data[0].shape)])
    provide_label = property(lambda self: [('label', self.label[0].shape)])

    def reset(self):
        self.rng = np.random.RandomState(0)
        self.sizes = iter([(8, 8), (6, 10), (8, 8), (4, 4)])

    def next(self):
        height, width = next(self.sizes)
        label = np.arange(4) % 2
        images = np.zeros((4, 3, height, width))
        for part in _split_input_slice(self.batch_size, [1, 1]):
            images[part] = self.rng.uniform(size=(part.stop - part.start, 3, height, width))
        self.data = [mx.nd.array(images + 0.3 * label.reshape((4, 1, 1, 1)))]
        self.label = [mx.nd.array(label)]
        return mx.io.DataBatch(data=self.data, label=self.label, pad=0, index=0,
                               provide_data=self.provide_data, provide_label=self.provide_label)


class Pattern(mx.init.Initializer):
    def _init_weight(self, name, arr):
        arr[:] = (np.arange(arr.size).reshape(arr.shape) * 7 % 11 - 5) * 0.1


class LogLoss(mx.metric.EvalMetric):
    def __init__(self):
        super(LogLoss, self).__init__('LogLoss')

    def update(self, labels, preds):
        label = labels[0].asnumpy().astype('int32')
        chosen = preds[0].asnumpy()[np.arange(len(label)), label]
        self.sum_metric += -np.log(chosen + 1e-14).sum()
        self.num_inst += len(label)


net = mx.sym.Convolution(mx.sym.Variable('data'), kernel=(3, 3), pad=(1, 1), num_filter=4, name='conv1')
net = mx.sym.BatchNorm(net, use_global_stats=True, name='bn1')
net = mx.sym.Activation(net, act_type='relu')
net = mx.sym.Flatten(mx.sym.Pooling(net, global_pool=True, kernel=(1, 1), pool_type='avg'))
net = mx.sym.FullyConnected(net, num_hidden=2, name='fc')
net = mx.sym.SoftmaxOutput(net, mx.sym.Variable('label'), name='softmax')

module = AnyShape(net, ['data'], ['label'], [('data', (4, 3, 12, 12))], 'conv1')
metric = mx.metric.CompositeEvalMetric()
metric.add(LogLoss())
metric.add(mx.metric.Accuracy())


def report(epoch, symbol, arg_params, aux_params):
    print(epoch, sorted(arg_params), '%.4f' % arg_params['fc_bias'].asnumpy()[0])
    print(['%s %.4f' % pair for pair in metric.get_name_value()])


module.fit(Images(), eval_metric=metric, epoch_end_callback=report, kvstore='device', initializer=Pattern(),
           optimizer='sgd', num_epoch=3,
           optimizer_params={'learning_rate': 0.5, 'momentum': 0.9, 'wd': 0.0005, 'clip_gradient': 5})
print(module.data_shapes)
