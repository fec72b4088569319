# SPDX-License-Identifier: Apache-2.0
"""Training on two contexts gives the parameters of training on one, as a Module and in Gluon."""

import numpy as np
from sklearn.datasets import load_digits

import mx

BATCH, EPOCHS, SETTINGS = 60, 3, {"learning_rate": 0.1, "momentum": 0.9}
DIGITS = load_digits()
X, Y = DIGITS.data[:1740].astype(np.float32) / 16, DIGITS.target[:1740].astype(np.float32)
RNG = np.random.default_rng(1)
START = {"fc1_weight": RNG.normal(0, 0.1, (32, 64)), "fc2_weight": RNG.normal(0, 0.1, (10, 32))}


def by_module(contexts):
    """Parameters of a Module, which splits each batch."""
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=32, no_bias=True, name="fc1")
    net = mx.sym.FullyConnected(mx.sym.tanh(net), num_hidden=10, no_bias=True, name="fc2")
    module = mx.mod.Module(mx.sym.SoftmaxOutput(net, name="softmax"), context=contexts)
    module.fit(
        mx.io.NDArrayIter(X, Y, BATCH),
        arg_params={name: mx.nd.array(value) for name, value in START.items()},
        num_epoch=EPOCHS,
        kvstore="local",
        optimizer_params=SETTINGS,
    )
    parameters, _ = module.get_params()
    return {name: parameters[name].asnumpy() for name in START}


def in_gluon(contexts):
    """Parameters in Gluon, where the program splits each batch and the Trainer sums the gradients."""
    nn = mx.gluon.nn
    net = nn.HybridSequential(prefix="")
    net.add(nn.Dense(32, activation="tanh", use_bias=False, in_units=64, prefix="fc1_"))
    net.add(nn.Dense(10, use_bias=False, in_units=32, prefix="fc2_"))
    net.initialize(ctx=contexts)
    for name, value in START.items():
        net.collect_params()[name].set_data(mx.nd.array(value))
    net.hybridize()
    loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", SETTINGS, kvstore="local")
    loader = mx.gluon.data.DataLoader(mx.gluon.data.ArrayDataset(X, Y), BATCH)
    for _ in range(EPOCHS):
        for batch in loader:
            xs, ys = (mx.gluon.utils.split_and_load(part, contexts) for part in batch)
            with mx.autograd.record():
                errors = [loss(net(x), y) for x, y in zip(xs, ys)]
            mx.autograd.backward(errors)
            trainer.step(BATCH)
    return {name: net.collect_params()[name].data(contexts[0]).asnumpy() for name in START}


def main():
    one, two = [mx.cpu(0)], [mx.cpu(0), mx.cpu(1)]
    found = [train(contexts) for train in (by_module, in_gluon) for contexts in (one, two)]
    moved = max(np.abs(found[0][name] - START[name]).max() for name in START)
    apart = max(np.abs(found[0][name] - other[name]).max() for other in found[1:] for name in START)
    print(f"parameters moved by up to {moved:.2f}; four trainings are apart by at most {apart:.1e}")
    assert moved > 0.5 and apart < 1e-3


if __name__ == "__main__":
    main()
