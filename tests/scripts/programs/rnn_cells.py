# SPDX-License-Identifier: Apache-2.0
"""Cells of mx.rnn: unrolled, fused and not, with packed weights and checkpoints."""
import mxnet as mx
import numpy as np


def values(symbol, **shapes):
    ex = symbol.simple_bind(ctx=mx.cpu(), **shapes)
    rng = np.random.RandomState(0)
    for name in sorted(ex.arg_dict):
        ex.arg_dict[name][:] = rng.uniform(-0.5, 0.5, ex.arg_dict[name].shape)
    return [out.asnumpy() for out in ex.forward()]


for cell in [mx.rnn.RNNCell(4, prefix='rnn_'), mx.rnn.LSTMCell(4, prefix='lstm_', forget_bias=1.0),
             mx.rnn.GRUCell(4, prefix='gru_')]:
    inputs = [mx.sym.Variable('t%d_data' % i) for i in range(3)]
    outputs, states = cell.unroll(3, inputs)
    group = mx.sym.Group(outputs)
    print(sorted(cell.params._params), group.list_outputs())
    found = values(group, t0_data=(2, 5), t1_data=(2, 5), t2_data=(2, 5))
    print(' '.join('%.4f' % v for v in found[-1].ravel()))

bi = mx.rnn.BidirectionalCell(mx.rnn.GRUCell(3, prefix='l_'), mx.rnn.GRUCell(3, prefix='r_'))
out, _ = bi.unroll(2, mx.sym.Variable('data'), layout='NTC', merge_outputs=True)
print(out.infer_shape(data=(2, 2, 4))[1], '%.5f' % values(out, data=(2, 2, 4))[0].sum())

fused = mx.rnn.FusedRNNCell(4, num_layers=2, mode='lstm', prefix='f_', get_next_state=True)
plain = fused.unfuse()
weights = {'f_parameters': mx.nd.array(np.random.RandomState(2).uniform(-1, 1, 5 * 16 + 4 * 16 + 2 * 4 * 16 + 4 * 16))}
unpacked = fused.unpack_weights(weights)
print(sorted((k, v.shape) for k, v in unpacked.items())[:4], len(unpacked))
packed = fused.pack_weights(unpacked)
print(list(packed), packed['f_parameters'].shape)
stacked, _ = fused.unroll(3, mx.sym.Variable('data'), layout='NTC', merge_outputs=True)
print(stacked.infer_shape(data=(2, 3, 5))[1])
one = stacked.bind(mx.cpu(), {'data': mx.nd.ones((2, 3, 5)), 'f_parameters': packed['f_parameters']}).forward()[0]
series, _ = plain.unroll(3, mx.sym.Variable('data'), layout='NTC', merge_outputs=True)
args = {k: v for k, v in plain.pack_weights(unpacked).items()}
two = series.bind(mx.cpu(), dict(args, data=mx.nd.ones((2, 3, 5)))).forward()[0]
print('fused is plain', bool(np.allclose(one.asnumpy(), two.asnumpy(), atol=1e-5)))

mx.rnn.save_rnn_checkpoint(plain, 'cells', 3, series, args, {})
_, loaded, _ = mx.rnn.load_rnn_checkpoint(plain, 'cells', 3)
print(sorted(loaded) == sorted(args), all(np.allclose(loaded[k].asnumpy(), args[k].asnumpy()) for k in args))
