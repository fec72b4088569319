# SPDX-License-Identifier: Apache-2.0
"""Two convolutional networks against each other learn to draw digits, which another classifier recognises."""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import mx

BATCH, EPOCHS, NOISE = 64, 100, 32
nn = mx.gluon.nn


def generator():
    """From noise to pictures of 8 × 8 pixels between -1 and 1."""
    net = nn.HybridSequential()
    net.add(nn.Dense(64 * 4, use_bias=False), nn.BatchNorm(), nn.LeakyReLU(0.2))
    net.add(nn.HybridLambda(lambda F, x: x.reshape((0, 64, 2, 2))))
    net.add(
        nn.Conv2DTranspose(32, 4, strides=2, padding=1, use_bias=False), nn.BatchNorm(), nn.LeakyReLU(0.2)
    )
    net.add(nn.Conv2DTranspose(1, 4, strides=2, padding=1, activation="tanh"))
    return net


def discriminator():
    """Scores of pictures: above 0 if they seem real."""
    net = nn.HybridSequential()
    for filters in (32, 64):
        net.add(nn.Conv2D(filters, 4, strides=2, padding=1), nn.LeakyReLU(0.2), nn.Dropout(0.3))
    net.add(nn.Dense(1))
    return net


def noise(count):
    """What the generator begins with."""
    return mx.nd.random.normal(shape=(count, NOISE))


def images_of_digits():
    """Pictures of (1, 8, 8) numbers between -1 and 1, and what they show."""
    digits = load_digits()
    return digits.images[:, None].astype(np.float32) / 8 - 1, digits.target


def recognised(pictures, images, shows):
    """Whether a classifier of the data recognises the pictures, of each kind, and their mean is the data's."""
    pictures, data = pictures.reshape(-1, 64), images.reshape(-1, 64)
    classifier = LogisticRegression(max_iter=1000).fit(data[:900], shows[:900])
    mixed = np.random.default_rng(1).permuted(data, axis=0)  # each pixel from another digit
    shown = [classifier.predict_proba(each) for each in (pictures, data[900:], mixed)]
    drawn, held_out, control = (float((each.max(axis=1) > 0.9).mean()) for each in shown)
    kinds = np.bincount(shown[0].argmax(axis=1), minlength=10)
    apart = np.abs(pictures.mean(axis=0) - data.mean(axis=0)).mean()
    print(
        f"clearly digits: {drawn:.0%} of those drawn, {held_out:.0%} of real ones, {control:.0%} of mixed pixels"
    )
    print(f"of each kind: {kinds.tolist()}; mean pixels are {apart:.3f} from the data's, of a range of 2")
    return drawn > held_out / 2 and drawn > 2 * control and kinds.min() > 20 and apart < 0.1


def main():
    mx.random.seed(1)
    np.random.seed(1)
    images, shows = images_of_digits()
    nets = generator(), discriminator()
    for net in nets:
        net.initialize(mx.init.Normal(0.05))
        net.hybridize()
    draw, judge = nets
    trainers = [
        mx.gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 1e-3, "beta1": 0.5}) for net in nets
    ]
    loss = mx.gluon.loss.SigmoidBCELoss()
    real, false = mx.nd.ones((BATCH, 1)), mx.nd.zeros((BATCH, 1))
    loader = mx.gluon.data.DataLoader(images, BATCH, shuffle=True, last_batch="discard")
    for epoch in range(EPOCHS):
        for batch in loader:
            with mx.autograd.record():
                drawn = draw(noise(BATCH))
                error = loss(judge(batch), real * 0.9) + loss(judge(drawn.detach()), false)
            error.backward()
            trainers[1].step(BATCH)
            with mx.autograd.record():
                deceit = loss(judge(drawn), real)
            deceit.backward()
            trainers[0].step(BATCH)
        if epoch % 20 == 19:
            print(f"epoch {epoch}: losses {deceit.mean().asscalar():.2f}, {error.mean().asscalar():.2f}")
    assert recognised(draw(noise(1000)).asnumpy(), images, shows)


if __name__ == "__main__":
    main()
