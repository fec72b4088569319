# SPDX-License-Identifier: Apache-2.0
"""Linear and logistic regression, as a Module and in Gluon, find the coefficients that scikit-learn finds."""

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.preprocessing import scale

import mx

STEPS = 800


def by_module(x, y, output, **settings):
    """Coefficients and offset of a Module that sees all examples in each step; `output` has the loss."""
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=1, name="fc")
    module = mx.mod.Module(output(net, mx.sym.Variable("label")), label_names=["label"])
    module.fit(
        mx.io.NDArrayIter(x, y, len(x), label_name="label"),
        num_epoch=STEPS,
        initializer=mx.init.Zero(),
        optimizer_params={"momentum": 0.9, **settings},
        eval_metric="mse",
    )
    parameters, _ = module.get_params()
    return parameters["fc_weight"].asnumpy()[0], parameters["fc_bias"].asscalar()


def in_gluon(x, y, loss, **settings):
    """The same in Gluon."""
    x, y = mx.nd.array(x), mx.nd.array(y).reshape((-1, 1))
    net = mx.gluon.nn.Dense(1)
    net.initialize(mx.init.Zero())
    net.bias.wd_mult = 0  # a Module does not decay offsets either
    net.hybridize()
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"momentum": 0.9, **settings})
    for _ in range(STEPS):
        with mx.autograd.record():
            error = loss(net(x), y)
        error.backward()
        trainer.step(len(x))
    return net.weight.data().asnumpy()[0], net.bias.data().asscalar()


def compare(name, found, expected, offset):
    """Prints and asserts the largest difference."""
    apart = max(np.abs(found[0] - expected).max(), abs(found[1] - offset))
    print(f"{name}: {len(expected)} coefficients, apart by at most {apart:.1e}")
    assert apart < 0.01


def main():
    x, y = (scale(values).astype(np.float32) for values in load_diabetes(return_X_y=True))
    exact = LinearRegression().fit(x, y)
    settings = {"learning_rate": 0.3}
    found = by_module(x, y, mx.sym.LinearRegressionOutput, **settings)
    compare("linear, Module", found, exact.coef_, exact.intercept_)
    found = in_gluon(x, y, mx.gluon.loss.L2Loss(), **settings)
    compare("linear, Gluon", found, exact.coef_, exact.intercept_)

    x, y = load_breast_cancer(return_X_y=True)
    x, y = scale(x).astype(np.float32), y.astype(np.float32)
    exact = LogisticRegression(C=1.0, tol=1e-8, max_iter=1000).fit(x, y)
    settings = {"learning_rate": 1.0, "wd": 1 / len(x)}  # C weighs the sum of the losses against the decay
    found = by_module(x, y, mx.sym.LogisticRegressionOutput, **settings)
    compare("logistic, Module", found, exact.coef_[0], exact.intercept_[0])
    found = in_gluon(x, y, mx.gluon.loss.SigmoidBCELoss(), **settings)
    compare("logistic, Gluon", found, exact.coef_[0], exact.intercept_[0])


if __name__ == "__main__":
    main()
