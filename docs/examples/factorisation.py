# SPDX-License-Identifier: Apache-2.0
"""Matrix factorisation by gradients comes as near to a matrix as its singular value decomposition, the optimum."""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import TruncatedSVD

import mx

RANK, BATCH, EPOCHS = 8, 960, 60


def settings():
    """Of Adam; the rate is halved after every 400 steps."""
    schedule = mx.lr_scheduler.FactorScheduler(step=400, factor=0.5, base_lr=0.03)
    return {"learning_rate": 0.03, "lr_scheduler": schedule}


def by_module(data, shape):
    """The product of the factors that a Module finds."""
    row, column = (
        mx.sym.Embedding(mx.sym.Variable(name), input_dim=count, output_dim=RANK, name=f"{name}_factor")
        for name, count in zip(("row", "column"), shape)
    )
    score = mx.sym.sum(row * column, axis=1)
    net = mx.sym.LinearRegressionOutput(score, mx.sym.Variable("value"), name="score")
    module = mx.mod.Module(net, data_names=["row", "column"], label_names=["value"])
    module.fit(
        data,
        num_epoch=EPOCHS,
        eval_metric="mse",
        initializer=mx.init.Normal(0.3),
        optimizer="adam",
        optimizer_params=settings(),
    )
    parameters, _ = module.get_params()
    return parameters["row_factor_weight"].asnumpy() @ parameters["column_factor_weight"].asnumpy().T


class Factors(mx.gluon.HybridBlock):
    """Values at places, whose columns come first: an iterator has its arrays in the order of their names."""

    def __init__(self, rows, columns):
        super().__init__()
        self.row = mx.gluon.nn.Embedding(rows, RANK)
        self.column = mx.gluon.nn.Embedding(columns, RANK)

    def hybrid_forward(self, F, column, row):
        return (self.row(row) * self.column(column)).sum(axis=1)


def in_gluon(data, shape):
    """The product of the factors that Gluon finds."""
    net, loss = Factors(*shape), mx.gluon.loss.L2Loss()
    net.initialize(mx.init.Normal(0.3))
    net.hybridize()
    trainer = mx.gluon.Trainer(net.collect_params(), "adam", settings())
    for _ in range(EPOCHS):
        data.reset()
        for batch in data:
            with mx.autograd.record():
                error = loss(net(*batch.data), batch.label[0])
            error.backward()
            trainer.step(BATCH)
    return net.row.weight.data().asnumpy() @ net.column.weight.data().asnumpy().T


def main():
    mx.random.seed(1)
    np.random.seed(1)
    matrix = load_digits().data[:300].astype(np.float32) / 16
    svd = TruncatedSVD(RANK, algorithm="arpack")
    best = np.linalg.norm(matrix - svd.inverse_transform(svd.fit_transform(matrix)))
    rows, columns = (places.ravel() for places in np.indices(matrix.shape))
    inputs = {"row": rows, "column": columns}
    data = mx.io.NDArrayIter(inputs, {"value": matrix.ravel()}, BATCH, shuffle=True)
    print(f"singular value decomposition: distance {best:.3f}")
    for name, train in (("Module", by_module), ("Gluon", in_gluon)):
        data.reset()
        distance = np.linalg.norm(matrix - train(data, matrix.shape))
        print(f"{name}: distance {distance:.3f}")
        assert best * 0.999 < distance < best * 1.03


if __name__ == "__main__":
    main()
