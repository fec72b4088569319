# SPDX-License-Identifier: Apache-2.0
"""What a symbol says about itself."""
import json

import mxnet as mx

data = mx.sym.Variable('data')
conv1 = mx.sym.Convolution(data, kernel=(5, 5), num_filter=20, name='conv1')
act1 = mx.sym.Activation(conv1, act_type='relu', name='relu1')
pool1 = mx.sym.Pooling(act1, pool_type='max', kernel=(2, 2), stride=(2, 2), name='pool1')
bn = mx.sym.BatchNorm(pool1, name='bn')
flat = mx.sym.Flatten(bn, name='flat')
fc1 = mx.sym.FullyConnected(flat, num_hidden=50, name='fc1')
with mx.AttrScope(lr_mult='0.1', ctx_group='dev2'):
    fc2 = mx.sym.FullyConnected(fc1, num_hidden=10, name='fc2')
net = mx.sym.SoftmaxOutput(fc2, name='softmax')

mx.viz.print_summary(net, shape={'data': (1, 3, 28, 28)})
arg_shapes, out_shapes, aux_shapes = net.infer_shape(data=(4, 3, 28, 28))
print(list(zip(net.list_arguments(), arg_shapes)))
print(out_shapes, list(zip(net.list_auxiliary_states(), aux_shapes)))
print(net.get_internals().list_outputs())
print(sorted(net.attr_dict()['fc2_weight'].items()), net.get_internals()['conv1_output'].attr('kernel'))
print([node['op'] for node in json.loads(net.tojson())['nodes']])
print(mx.sym.load_json(net.tojson()).list_arguments() == net.list_arguments())

with mx.name.Prefix('left_'):
    left = mx.sym.FullyConnected(data, num_hidden=2)
both = mx.sym.Group([left, mx.sym.sum(data)])
print(left.name.startswith('left_'), both.list_arguments()[0], len(both.list_outputs()))
top = mx.sym.FullyConnected(mx.sym.Variable('features'), name='top', num_hidden=3)
composed = top(features=left)
print(composed.list_arguments()[-2:], 'features' in composed.list_arguments())
print(net.infer_type(data='float32')[1], data.infer_shape_partial()[0])
