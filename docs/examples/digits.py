# SPDX-License-Identifier: Apache-2.0
"""A small convolutional network recognises at least 98 % of handwritten digits, as a Module and in Gluon."""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import mx

BATCH, EPOCHS, SETTINGS = 64, 25, {"learning_rate": 2e-3, "wd": 1e-4}


def by_module(train, test):
    """Accuracy of a Module."""
    net = mx.sym.Variable("data")
    for filters in (32, 64):
        net = mx.sym.Convolution(net, kernel=(3, 3), pad=(1, 1), num_filter=filters, no_bias=True)
        net = mx.sym.relu(mx.sym.BatchNorm(net, fix_gamma=False))
        net = mx.sym.Pooling(net, kernel=(2, 2), stride=(2, 2), pool_type="max")
    net = mx.sym.Dropout(mx.sym.Flatten(net), p=0.3)
    net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(net, num_hidden=10), name="softmax")
    module = mx.mod.Module(net)
    module.fit(
        train,
        num_epoch=EPOCHS,
        initializer=mx.init.Xavier(),
        optimizer="adam",
        optimizer_params=SETTINGS,
    )
    return dict(module.score(test, "acc"))["accuracy"]


def in_gluon(train, test):
    """Accuracy of the same network in Gluon."""
    nn = mx.gluon.nn
    net = nn.HybridSequential()
    for filters in (32, 64):
        net.add(nn.Conv2D(filters, 3, padding=1, use_bias=False), nn.BatchNorm(), nn.Activation("relu"))
        net.add(nn.MaxPool2D())
    net.add(nn.Dropout(0.3), nn.Dense(10))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = mx.gluon.Trainer(net.collect_params(), "adam", SETTINGS)
    for _ in range(EPOCHS):
        train.reset()
        for batch in train:
            with mx.autograd.record():
                error = loss(net(batch.data[0]), batch.label[0])
            error.backward()
            trainer.step(BATCH)
    accuracy = mx.metric.Accuracy()
    test.reset()
    for batch in test:
        kept = BATCH - batch.pad  # the last batch is filled up
        accuracy.update(batch.label[0][:kept], net(batch.data[0])[:kept])
    return accuracy.get()[1]


def main():
    mx.random.seed(1)
    np.random.seed(1)
    digits = load_digits()
    images = digits.images[:, None].astype(np.float32) / 16
    x, x_test, y, y_test = train_test_split(images, digits.target, test_size=360, random_state=0)
    for name, train in (("Module", by_module), ("Gluon", in_gluon)):
        accuracy = train(
            mx.io.NDArrayIter(x, y, BATCH, shuffle=True, last_batch_handle="discard"),
            mx.io.NDArrayIter(x_test, y_test, BATCH),
        )
        print(f"{name}: {accuracy:.2%} of 360 digits")
        assert accuracy >= 0.98


if __name__ == "__main__":
    main()
