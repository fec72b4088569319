# SPDX-License-Identifier: Apache-2.0
"""Random numbers: shapes, moments and seeds."""
import mxnet as mx
import numpy as np

mx.random.seed(3)
n = 20000
for name, draw, mean, deviation in [
        ('uniform', mx.nd.random.uniform(-1, 3, shape=(n,)), 1, 4 / 12 ** 0.5),
        ('normal', mx.random.normal(2, 0.5, shape=(n,)), 2, 0.5),
        ('gamma', mx.nd.random.gamma(3, 2, shape=(n,)), 6, 12 ** 0.5),
        ('exponential', mx.nd.random.exponential(0.5, shape=(n,)), 0.5, 0.5),
        ('poisson', mx.nd.random.poisson(4, shape=(n,)), 4, 2),
        ('negative_binomial', mx.nd.random.negative_binomial(3, 0.5, shape=(n,)), 3, 6 ** 0.5),
        ('randint', mx.nd.random.randint(0, 10, shape=(n,)), 4.5, 8.25 ** 0.5)]:
    v = draw.asnumpy().astype('float64')
    print(name, draw.shape, draw.dtype.__name__, abs(v.mean() - mean) < 0.1 * deviation, abs(v.std() / deviation - 1) < 0.1)

mx.random.seed(7)
a = mx.nd.random.normal(shape=(5,)).asnumpy()
mx.random.seed(7)
print((a == mx.nd.random.normal(shape=(5,)).asnumpy()).all())

mu, sigma = mx.nd.array([0.0, 100.0]), mx.nd.array([1.0, 0.1])
both = mx.nd.random.normal(mu, sigma, shape=(2, 1000))
print(both.shape, abs(both[1].mean().asscalar() - 100) < 1)
probs = mx.nd.array([[0, 0.2, 0.8], [1.0, 0, 0]])
draws, logp = mx.nd.random.multinomial(probs, shape=500, get_prob=True)
print(draws.shape, logp.shape, np.unique(draws[0].asnumpy()).tolist(), draws[1].sum().asscalar())
print(abs((draws[0] == 2).mean().asscalar() - 0.8) < 0.1)
shuffled = mx.nd.random.shuffle(mx.nd.arange(100))
print(sorted(shuffled.asnumpy().tolist()) == list(range(100)), (shuffled.asnumpy() != np.arange(100)).any())
sym = mx.sym.random.uniform(low=2, high=3, shape=(4, 5))
out = sym.eval()[0]
print(out.shape, out.min().asscalar() >= 2, out.max().asscalar() < 3)
drop = mx.nd.Dropout(mx.nd.ones((100, 100)), p=0.3, mode='always')
print(abs((drop == 0).mean().asscalar() - 0.3) < 0.05, abs(drop.mean().asscalar() - 1) < 0.05)
print(mx.nd.random.randn(2, 3).shape, mx.nd.random.uniform(shape=(1,), dtype='float64').dtype.__name__)
print(mx.nd.sample_exponential(mx.nd.array([1.0, 4.0]), shape=3).shape)
