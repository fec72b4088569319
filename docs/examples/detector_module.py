# SPDX-License-Identifier: Apache-2.0
"""The detector of `detector.py` as a symbol, trained as a Module."""

import numpy as np
from detector import ANCHORS, BATCH, CLASSES, RATIOS, SIZE, SIZES, STEPS, draw, overlap

import mx


def block(x, filters):
    """A convolution that halves height and width."""
    x = mx.sym.Convolution(x, kernel=(3, 3), pad=(1, 1), num_filter=filters, no_bias=True)
    x = mx.sym.relu(mx.sym.BatchNorm(x, fix_gamma=False))
    return mx.sym.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="max")


def heads():
    """Anchors, scores of the classes (0 is the background) and offsets of the boxes, of two scales."""
    fine = block(block(mx.sym.Variable("data"), 16), 32)
    found = []
    for features, sizes in zip((fine, block(fine, 32)), SIZES):
        anchors = mx.sym.contrib.MultiBoxPrior(features, sizes=sizes, ratios=RATIOS)
        found.append([mx.sym.reshape(anchors, (1, -1))])
        for width in (len(CLASSES) + 1, 4):
            head = mx.sym.Convolution(features, kernel=(3, 3), pad=(1, 1), num_filter=ANCHORS * width)
            found[-1].append(mx.sym.Flatten(mx.sym.transpose(head, (0, 2, 3, 1))))
    anchors, scores, boxes = (mx.sym.concat(*parts, dim=1) for parts in zip(*found))
    scores = mx.sym.transpose(mx.sym.reshape(scores, (0, -1, len(CLASSES) + 1)), (0, 2, 1))
    return mx.sym.reshape(anchors, (1, -1, 4)), scores, boxes


def network():
    """Chances of the classes, what the boxes are apart from the label, and the boxes that are found."""
    anchors, scores, boxes = heads()
    offsets, mask, classes = mx.sym.contrib.MultiBoxTarget(
        anchors, mx.sym.Variable("label"), scores, negative_mining_ratio=3, negative_mining_thresh=0.5
    )
    chances = mx.sym.SoftmaxOutput(
        scores,
        classes,
        multi_output=True,
        use_ignore=True,
        ignore_label=-1,
        normalization="valid",
        name="class",
    )
    apart = mx.sym.smooth_l1(mask * (boxes - offsets), scalar=1.0)
    apart = mx.sym.MakeLoss(apart, normalization="valid", name="box")
    found = mx.sym.contrib.MultiBoxDetection(mx.sym.BlockGrad(chances), mx.sym.BlockGrad(boxes), anchors)
    return mx.sym.Group([chances, apart, mx.sym.BlockGrad(found)])


def main():
    mx.random.seed(1)
    rng = np.random.default_rng(1)
    module = mx.mod.Module(network(), label_names=["label"])
    module.bind([("data", (BATCH, 3, SIZE, SIZE))], [("label", (BATCH, 1, 5))])
    module.init_params(mx.init.Xavier())
    module.init_optimizer(optimizer="adam", optimizer_params={"learning_rate": 3e-3, "rescale_grad": 1.0})
    for step in range(STEPS):
        x, label = draw(rng, BATCH)
        module.forward_backward(mx.io.DataBatch([x], [label]))
        module.update()
        if step % 100 == 0:
            print(f"step {step}: boxes are apart by {module.get_outputs()[1].sum().asscalar() / BATCH:.3f}")

    x, label = draw(rng, 6 * BATCH)
    best = module.predict(mx.io.NDArrayIter(x, label, BATCH, label_name="label"))[2][:, 0].asnumpy()
    expected = label[:, 0].asnumpy()
    right = float((best[:, 0] == expected[:, 0]).mean())
    shared = float(overlap(best[:, 2:], expected[:, 1:]).mean())
    print(f"{len(best)} new pictures: {right:.1%} of the shapes are named, mean overlap {shared:.3f}")
    assert right >= 0.9 and shared >= 0.7


if __name__ == "__main__":
    main()
