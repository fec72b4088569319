# SPDX-License-Identifier: Apache-2.0
"""mx.test_utils: gradients by differences, and results by NumPy."""
import mxnet as mx
import numpy as np
from mxnet.test_utils import (almost_equal, assert_almost_equal, check_numeric_gradient,
                              check_symbolic_backward, check_symbolic_forward, default_context, rand_ndarray,
                              rand_shape_2d, same, simple_forward)

rng = np.random.RandomState(14)
lhs, rhs = mx.sym.Variable('lhs'), mx.sym.Variable('rhs')
a, b = rng.uniform(0.5, 1, (3, 4)), rng.uniform(0.5, 1, (3, 4))
check_numeric_gradient(lhs * rhs + mx.sym.exp(lhs), {'lhs': a, 'rhs': b}, numeric_eps=1e-3, rtol=1e-2)
check_symbolic_forward(lhs / rhs, [a, b], [a / b], rtol=1e-4)
check_symbolic_backward(lhs * rhs, {'lhs': a, 'rhs': b}, [np.ones((3, 4))], {'lhs': b, 'rhs': a}, rtol=1e-4)
print('gradients agree')

data = mx.sym.Variable('data')
conv = mx.sym.Convolution(data, kernel=(3, 3), num_filter=2, pad=(1, 1), name='conv')
check_numeric_gradient(conv, {'data': rng.normal(size=(1, 2, 4, 4)), 'conv_weight': rng.normal(size=(2, 2, 3, 3)),
                              'conv_bias': np.zeros(2)}, numeric_eps=1e-2, rtol=5e-2, atol=1e-2)
print('convolution agrees')

assert_almost_equal(np.array([1.0, 2.0]), np.array([1.0, 2.0 + 1e-9]), rtol=1e-6)
print(almost_equal(np.array([1.0, 2.0]), np.array([1.0, 3.0]), rtol=1e-6))
print(same(np.ones(2), np.ones(2)), default_context(), len(rand_shape_2d()), rand_ndarray((2, 3), 'default').shape)
print(simple_forward(mx.sym.square(data), data=np.array([1.0, 2.0, 3.0])).tolist())
