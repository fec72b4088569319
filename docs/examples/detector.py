# SPDX-License-Identifier: Apache-2.0
"""A single-shot detector finds and names drawn shapes."""

import numpy as np

import mx

SIZE, BATCH, STEPS = 32, 32, 500
CLASSES = ("rectangle", "disc")
SIZES, RATIOS = ((0.3, 0.4), (0.55, 0.75)), (1, 2, 0.5)  # of the anchors, for each scale
ANCHORS = len(SIZES[0]) + len(RATIOS) - 1  # at each place
nn = mx.gluon.nn


def draw(rng, count):
    """Noisy pictures with one shape each; labels are (class, left, top, right, bottom), corners from 0 to 1."""
    pictures, labels = rng.normal(0, 0.2, (count, 3, SIZE, SIZE)), np.empty((count, 1, 5))
    rows, columns = np.indices((SIZE, SIZE)) + 0.5
    for picture, label in zip(pictures, labels):
        kind, (height, width) = rng.integers(0, 2), rng.uniform(9, 24, 2)
        if kind:
            width = height
        left, top = rng.uniform(0, SIZE - width), rng.uniform(0, SIZE - height)
        x, y = (columns - left) / width * 2 - 1, (rows - top) / height * 2 - 1  # from -1 to 1 in the shape
        inside = x**2 + y**2 < 1 if kind else np.maximum(abs(x), abs(y)) < 1
        picture[:, inside] += rng.uniform(0.5, 1, (3, 1))
        label[:] = kind, left / SIZE, top / SIZE, (left + width) / SIZE, (top + height) / SIZE
    return mx.nd.array(pictures), mx.nd.array(labels)


def block(filters):
    """A convolution that halves height and width."""
    net = nn.HybridSequential()
    net.add(nn.Conv2D(filters, 3, padding=1, use_bias=False), nn.BatchNorm(), nn.Activation("relu"))
    net.add(nn.MaxPool2D())
    return net


class Detector(mx.gluon.HybridBlock):
    """Anchors, scores of the classes (0 is the background) and offsets of the boxes, of two scales."""

    def __init__(self):
        super().__init__()
        self.fine = nn.HybridSequential()
        self.fine.add(block(16), block(32))
        self.coarse = block(32)
        self.fine_scores, self.coarse_scores = (
            nn.Conv2D(ANCHORS * (len(CLASSES) + 1), 3, padding=1) for _ in SIZES
        )
        self.fine_boxes, self.coarse_boxes = (nn.Conv2D(ANCHORS * 4, 3, padding=1) for _ in SIZES)

    def hybrid_forward(self, F, x):
        fine = self.fine(x)
        coarse = self.coarse(fine)
        anchors = [
            F.contrib.MultiBoxPrior(features, sizes=sizes, ratios=RATIOS).reshape((1, -1))
            for features, sizes in zip((fine, coarse), SIZES)
        ]
        scores = (self.fine_scores(fine), self.coarse_scores(coarse))
        boxes = (self.fine_boxes(fine), self.coarse_boxes(coarse))
        scores, boxes = (
            F.concat(*(F.flatten(part.transpose((0, 2, 3, 1))) for part in parts), dim=1)
            for parts in (scores, boxes)
        )
        return F.concat(*anchors, dim=1).reshape((1, -1, 4)), scores.reshape((0, -1, len(CLASSES) + 1)), boxes


def overlap(a, b):
    """Intersection over union of boxes (count, 4)."""
    low, high = np.maximum(a[:, :2], b[:, :2]), np.minimum(a[:, 2:], b[:, 2:])
    both = np.prod(np.maximum(high - low, 0), axis=1)
    return both / (np.prod(a[:, 2:] - a[:, :2], axis=1) + np.prod(b[:, 2:] - b[:, :2], axis=1) - both)


def main():
    mx.random.seed(1)
    rng = np.random.default_rng(1)
    net = Detector()
    net.initialize(mx.init.Xavier())
    net.hybridize()
    unsure, apart = mx.gluon.loss.SoftmaxCrossEntropyLoss(), mx.gluon.loss.HuberLoss()
    trainer = mx.gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 3e-3})
    for step in range(STEPS):
        x, label = draw(rng, BATCH)
        with mx.autograd.record():
            anchors, scores, boxes = net(x)
            with mx.autograd.pause():
                offsets, mask, classes = mx.nd.contrib.MultiBoxTarget(
                    anchors,
                    label,
                    scores.transpose((0, 2, 1)),
                    negative_mining_ratio=3,
                    negative_mining_thresh=0.5,
                )
            kept = mx.nd.expand_dims(classes >= 0, axis=2)  # hard examples alone
            loss = unsure(scores, classes, kept) * 10 + apart(boxes * mask, offsets) * 10
        loss.backward()
        trainer.step(BATCH)
        if step % 100 == 0:
            print(f"step {step}: loss {loss.mean().asscalar():.3f}")

    x, label = draw(rng, 200)
    anchors, scores, boxes = net(x)
    chances = mx.nd.softmax(scores).transpose((0, 2, 1))
    best = mx.nd.contrib.MultiBoxDetection(chances, boxes, anchors)[:, 0].asnumpy()  # the surest box of each
    expected = label[:, 0].asnumpy()
    right = float((best[:, 0] == expected[:, 0]).mean())
    shared = float(overlap(best[:, 2:], expected[:, 1:]).mean())
    print(f"200 new pictures: {right:.1%} of the shapes are named, mean overlap {shared:.3f}")
    assert right >= 0.9 and shared >= 0.7


if __name__ == "__main__":
    main()
