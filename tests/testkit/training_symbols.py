# SPDX-License-Identifier: Apache-2.0
"""Networks with their losses as symbols, for trainings that run in MXNet and in mx. Runs under Python 3.8.

`training_blocks` has the same networks for Gluon. Equal names of parameters make them equal.
"""


def mlp(mx):
    """Two layers."""
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=32, name="fc1")
    net = mx.sym.Activation(net, act_type="relu", name="relu1")
    net = mx.sym.FullyConnected(net, num_hidden=5, name="fc2")
    return mx.sym.SoftmaxOutput(net, name="softmax")


def lenet(mx):
    """Two convolutions and two layers, with tanh."""
    net = mx.sym.Variable("data")
    for number, filters in ((1, 8), (2, 16)):
        net = mx.sym.Convolution(net, kernel=(5, 5), pad=(2, 2), num_filter=filters, name=f"conv{number}")
        net = mx.sym.Activation(net, act_type="tanh")
        net = mx.sym.Pooling(net, pool_type="max", kernel=(2, 2), stride=(2, 2))
    net = mx.sym.FullyConnected(mx.sym.Flatten(net), num_hidden=32, name="fc1")
    net = mx.sym.Activation(net, act_type="tanh")
    net = mx.sym.FullyConnected(net, num_hidden=5, name="fc2")
    return mx.sym.SoftmaxOutput(net, name="softmax")


def _normalized(mx, x, filters, kernel, stride, name):
    pad = (kernel // 2, kernel // 2)
    x = mx.sym.Convolution(
        x,
        kernel=(kernel, kernel),
        stride=(stride, stride),
        pad=pad,
        num_filter=filters,
        no_bias=True,
        name=name,
    )
    return mx.sym.BatchNorm(x, fix_gamma=False, eps=1e-5, momentum=0.9, name=name + "_bn")


def resnet20(mx):
    """The residual network of 20 layers for small images."""
    net = mx.sym.relu(_normalized(mx, mx.sym.Variable("data"), 16, 3, 1, "conv0"))
    for stage, filters in enumerate((16, 32, 64)):
        for unit in range(3):
            stride, name = 2 if stage and not unit else 1, f"stage{stage}_unit{unit}_"
            branch = mx.sym.relu(_normalized(mx, net, filters, 3, stride, name + "conv1"))
            branch = _normalized(mx, branch, filters, 3, 1, name + "conv2")
            if stride > 1:
                net = _normalized(mx, net, filters, 1, stride, name + "shortcut")
            net = mx.sym.relu(net + branch)
    net = mx.sym.Pooling(net, global_pool=True, pool_type="avg", kernel=(1, 1))
    net = mx.sym.FullyConnected(mx.sym.Flatten(net), num_hidden=5, name="fc")
    return mx.sym.SoftmaxOutput(net, name="softmax")


def language(mx, length):
    """An LSTM of two layers that predicts the next word; word 0 is padding."""
    net = mx.sym.Embedding(mx.sym.Variable("data"), input_dim=20, output_dim=12, name="embed")
    cells = mx.rnn.SequentialRNNCell()
    for layer in range(2):
        cells.add(mx.rnn.LSTMCell(16, prefix=f"lstm_l{layer}_"))
    net, _ = cells.unroll(length, net, layout="NTC", merge_outputs=True)
    net = mx.sym.FullyConnected(mx.sym.reshape(net, (-1, 16)), num_hidden=20, name="fc")
    label = mx.sym.reshape(mx.sym.Variable("softmax_label"), (-1,))
    return mx.sym.SoftmaxOutput(net, label, use_ignore=True, ignore_label=0, name="softmax")


def factors(mx):
    """Ratings of users for items."""
    found = []
    for name, count in (("user", 30), ("item", 25)):
        index = mx.sym.Variable(name)
        vector = mx.sym.Embedding(index, input_dim=count, output_dim=6, name=name + "_vector")
        found += [vector, mx.sym.Embedding(index, input_dim=count, output_dim=1, name=name + "_offset")]
    user, user_offset, item, item_offset = found
    score = mx.sym.sum(user * item, axis=1, keepdims=True) + user_offset + item_offset
    return mx.sym.LinearRegressionOutput(mx.sym.Flatten(score), mx.sym.Variable("label"), name="score")


#: sizes and ratios of the anchors on both scales of the detector, and how many there are at a place
SCALES, RATIOS, ANCHORS = ((0.3, 0.4), (0.6, 0.8)), (1.0, 2.0, 0.5), 4


def detector(mx):
    """A single-shot detector of two classes on two scales."""
    net, found = mx.sym.Variable("data"), []
    for scale, sizes in enumerate(SCALES):
        for number, filters in enumerate((8, 16)):
            name = f"scale{scale}_conv{number}"
            net = mx.sym.Convolution(net, kernel=(3, 3), pad=(1, 1), num_filter=filters, name=name)
            net = mx.sym.relu(net)
            if number or not scale:
                net = mx.sym.Pooling(net, pool_type="max", kernel=(2, 2), stride=(2, 2))
        heads = []
        for kind, width in (("class", 3), ("place", 4)):
            head = mx.sym.Convolution(
                net, kernel=(3, 3), pad=(1, 1), num_filter=width * ANCHORS, name=f"scale{scale}_{kind}"
            )
            heads.append(mx.sym.Flatten(mx.sym.transpose(head, (0, 2, 3, 1))))
        anchors = mx.sym.contrib.MultiBoxPrior(net, sizes=sizes, ratios=RATIOS, clip=True)
        found.append((mx.sym.Flatten(anchors), *heads))
    anchors, classes, places = (mx.sym.concat(*parts, dim=1) for parts in zip(*found))
    anchors = mx.sym.reshape(anchors, (0, -1, 4))
    classes = mx.sym.transpose(mx.sym.reshape(classes, (0, -1, 3)), (0, 2, 1))
    offsets, mask, wanted = mx.sym.contrib.MultiBoxTarget(
        anchors, mx.sym.Variable("label"), classes, overlap_threshold=0.5, negative_mining_ratio=3,
        negative_mining_thresh=0.5, ignore_label=-1, variances=(0.1, 0.1, 0.2, 0.2),
    )  # fmt: skip
    chances = mx.sym.SoftmaxOutput(
        classes,
        wanted,
        multi_output=True,
        use_ignore=True,
        ignore_label=-1,
        normalization="valid",
        name="class",
    )
    off = mx.sym.smooth_l1(mask * (places - offsets), scalar=1.0)
    off = mx.sym.MakeLoss(off, grad_scale=0.05, name="place")
    boxes = mx.sym.contrib.MultiBoxDetection(
        mx.sym.BlockGrad(chances), mx.sym.BlockGrad(places), anchors, nms_threshold=0.5, force_suppress=False
    )
    return mx.sym.Group([chances, off, mx.sym.BlockGrad(wanted), mx.sym.BlockGrad(boxes)])
