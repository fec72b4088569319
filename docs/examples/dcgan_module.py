# SPDX-License-Identifier: Apache-2.0
"""The networks of `dcgan.py` as symbols, trained as two Modules: one gives the other its gradient."""

import numpy as np
from dcgan import BATCH, EPOCHS, NOISE, images_of_digits, noise, recognised

import mx

SETTINGS = {"learning_rate": 1e-3, "beta1": 0.5}


def leaky(x):
    """A fifth of what is below 0 stays."""
    return mx.sym.LeakyReLU(x, act_type="leaky", slope=0.2)


def generator():
    """From noise to pictures of 8 × 8 pixels between -1 and 1."""
    x = mx.sym.FullyConnected(mx.sym.Variable("noise"), num_hidden=64 * 4, no_bias=True)
    x = mx.sym.reshape(leaky(mx.sym.BatchNorm(x, fix_gamma=False)), (0, 64, 2, 2))
    x = mx.sym.Deconvolution(x, kernel=(4, 4), stride=(2, 2), pad=(1, 1), num_filter=32)
    x = leaky(mx.sym.BatchNorm(x, fix_gamma=False))
    x = mx.sym.Deconvolution(x, kernel=(4, 4), stride=(2, 2), pad=(1, 1), num_filter=1, no_bias=False)
    return mx.sym.tanh(x)


def discriminator():
    """Chances that pictures are real."""
    x = mx.sym.Variable("data")
    for filters in (32, 64):
        x = mx.sym.Convolution(x, kernel=(4, 4), stride=(2, 2), pad=(1, 1), num_filter=filters)
        x = mx.sym.Dropout(leaky(x), p=0.3)
    return mx.sym.LogisticRegressionOutput(mx.sym.FullyConnected(x, num_hidden=1), mx.sym.Variable("label"))


def made_module(symbol, data, label, **binding):
    """A Module of a symbol, ready to train."""
    module = mx.mod.Module(symbol, [data[0]], label and [label[0]])
    module.bind([data], label and [label], **binding)
    module.init_params(mx.init.Normal(0.05))
    module.init_optimizer(optimizer="adam", optimizer_params=SETTINGS)
    return module


def main():
    mx.random.seed(1)
    np.random.seed(1)
    images, shows = images_of_digits()
    draw = made_module(generator(), ("noise", (2 * BATCH, NOISE)), None)
    judge = made_module(
        discriminator(), ("data", (2 * BATCH, 1, 8, 8)), ("label", (2 * BATCH, 1)), inputs_need_grad=True
    )
    real, false = mx.nd.ones((BATCH, 1)), mx.nd.zeros((BATCH, 1))
    truth, deceit = mx.nd.concat(real * 0.9, false, dim=0), mx.nd.concat(real, real, dim=0)
    loader = mx.io.NDArrayIter(images, batch_size=BATCH, shuffle=True, last_batch_handle="discard")
    for epoch in range(EPOCHS):
        loader.reset()
        for batch in loader:
            draw.forward(mx.io.DataBatch([noise(2 * BATCH)]), is_train=True)
            drawn = draw.get_outputs()[0]
            both = mx.nd.concat(batch.data[0], drawn[:BATCH], dim=0)
            judge.forward_backward(mx.io.DataBatch([both], [truth]))
            judge.update()
            judge.forward_backward(mx.io.DataBatch([drawn], [deceit]))
            draw.backward(judge.get_input_grads())  # the judge itself is not updated
            draw.update()
        if epoch % 20 == 19:
            print(
                f"epoch {epoch}: {judge.get_outputs()[0].mean().asscalar():.0%} of the drawn ones seem real"
            )
    pictures = draw.predict(mx.io.NDArrayIter({"noise": noise(1000)}, batch_size=2 * BATCH))
    assert recognised(pictures.asnumpy(), images, shows)


if __name__ == "__main__":
    main()
