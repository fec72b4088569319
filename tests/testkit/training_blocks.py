# SPDX-License-Identifier: Apache-2.0
"""Networks with their losses as blocks of Gluon, for trainings that run in MXNet and in mx. Runs under Python 3.8.

A block gives the losses of a batch, one for each example. `training_symbols` has the same networks as symbols.
"""

try:
    from .training_symbols import ANCHORS, RATIOS, SCALES
except ImportError:  # a recorder runs beside it
    from training_symbols import ANCHORS, RATIOS, SCALES


def _judged(mx, net):
    """A classifier with its loss."""

    class Judged(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__(prefix="")
            self.net, self.loss = net, mx.gluon.loss.SoftmaxCrossEntropyLoss()

        def hybrid_forward(self, F, data, label):
            return self.loss(self.net(data), label)

    return Judged()


def mlp(mx):
    nn, net = mx.gluon.nn, mx.gluon.nn.HybridSequential(prefix="")
    net.add(nn.Dense(32, activation="relu", prefix="fc1_"), nn.Dense(5, prefix="fc2_"))
    return _judged(mx, net)


def lenet(mx):
    nn, net = mx.gluon.nn, mx.gluon.nn.HybridSequential(prefix="")
    for number, filters in ((1, 8), (2, 16)):
        net.add(nn.Conv2D(filters, 5, padding=2, activation="tanh", prefix=f"conv{number}_"), nn.MaxPool2D())
    net.add(nn.Flatten(), nn.Dense(32, activation="tanh", prefix="fc1_"), nn.Dense(5, prefix="fc2_"))
    return _judged(mx, net)


def resnet20(mx):
    nn = mx.gluon.nn

    def normalized(filters, kernel, stride, name):
        made = nn.HybridSequential(prefix="")
        made.add(
            nn.Conv2D(filters, kernel, stride, kernel // 2, use_bias=False, prefix=name + "_"),
            nn.BatchNorm(epsilon=1e-5, momentum=0.9, prefix=name + "_bn_"),
        )
        return made

    class Unit(mx.gluon.HybridBlock):
        def __init__(self, filters, stride, name):
            super().__init__(prefix="")
            self.first = normalized(filters, 3, stride, name + "conv1")
            self.second = normalized(filters, 3, 1, name + "conv2")
            self.shortcut = normalized(filters, 1, stride, name + "shortcut") if stride > 1 else None

        def hybrid_forward(self, F, x):
            short = x if self.shortcut is None else self.shortcut(x)
            return F.relu(short + self.second(F.relu(self.first(x))))

    net = nn.HybridSequential(prefix="")
    net.add(normalized(16, 3, 1, "conv0"), nn.Activation("relu"))
    for stage, filters in enumerate((16, 32, 64)):
        for unit in range(3):
            net.add(Unit(filters, 2 if stage and not unit else 1, f"stage{stage}_unit{unit}_"))
    net.add(nn.GlobalAvgPool2D(), nn.Dense(5, prefix="fc_"))
    return _judged(mx, net)


def language(mx):
    class Language(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__(prefix="")
            self.embed = mx.gluon.nn.Embedding(20, 12, prefix="embed_")
            self.lstm = mx.gluon.rnn.LSTM(16, num_layers=2, layout="NTC", prefix="lstm_")
            self.fc = mx.gluon.nn.Dense(20, flatten=False, prefix="fc_")

        def hybrid_forward(self, F, data, label):
            scores = F.log_softmax(self.fc(self.lstm(self.embed(data))))
            return -(F.pick(scores, label) * (label != 0)).sum(axis=1)

    return Language()


def factors(mx):
    nn = mx.gluon.nn

    class Factors(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__(prefix="")
            self.user, self.user_offset = (
                nn.Embedding(30, size, prefix=f"user_{kind}_")
                for kind, size in (("vector", 6), ("offset", 1))
            )
            self.item, self.item_offset = (
                nn.Embedding(25, size, prefix=f"item_{kind}_")
                for kind, size in (("vector", 6), ("offset", 1))
            )
            self.loss = mx.gluon.loss.L2Loss()

        def hybrid_forward(self, F, user, item, label):
            score = (self.user(user) * self.item(item)).sum(axis=1)
            score = score + self.user_offset(user).reshape((-1,)) + self.item_offset(item).reshape((-1,))
            return self.loss(score, label)

    return Factors()


def detector(mx):
    nn = mx.gluon.nn

    class Detector(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__(prefix="")
            self.bodies, self.kinds, self.places = [], [], []
            for scale in range(len(SCALES)):
                body = nn.HybridSequential(prefix="")
                for number, filters in enumerate((8, 16)):
                    name = f"scale{scale}_conv{number}_"
                    body.add(nn.Conv2D(filters, 3, padding=1, activation="relu", prefix=name))
                    if number or not scale:
                        body.add(nn.MaxPool2D())
                self.bodies.append(body)
                self.kinds.append(nn.Conv2D(3 * ANCHORS, 3, padding=1, prefix=f"scale{scale}_class_"))
                self.places.append(nn.Conv2D(4 * ANCHORS, 3, padding=1, prefix=f"scale{scale}_place_"))
            for child in self.bodies + self.kinds + self.places:
                self.register_child(child)

        def hybrid_forward(self, F, data, label):
            found = []
            for body, kind, place, sizes in zip(self.bodies, self.kinds, self.places, SCALES):
                data = body(data)
                anchors = F.contrib.MultiBoxPrior(data, sizes=sizes, ratios=RATIOS, clip=True)
                heads = (F.flatten(F.transpose(head(data), (0, 2, 3, 1))) for head in (kind, place))
                found.append((F.flatten(anchors), *heads))
            anchors, classes, places = (F.concat(*parts, dim=1) for parts in zip(*found))
            anchors = anchors.reshape((0, -1, 4))
            classes = F.transpose(classes.reshape((0, -1, 3)), (0, 2, 1))
            offsets, mask, wanted = F.contrib.MultiBoxTarget(
                anchors, label, classes, overlap_threshold=0.5, negative_mining_ratio=3,
                negative_mining_thresh=0.5, ignore_label=-1, variances=(0.1, 0.1, 0.2, 0.2),
            )  # fmt: skip
            valid = wanted >= 0
            scores = F.log_softmax(classes, axis=1)
            unsure = -(F.pick(scores, wanted, axis=1) * valid).sum() / valid.sum()
            off = F.smooth_l1(mask * (places - offsets), scalar=1.0).sum()
            boxes = F.contrib.MultiBoxDetection(
                F.exp(F.BlockGrad(scores)),
                F.BlockGrad(places),
                anchors,
                nms_threshold=0.5,
                force_suppress=False,
            )
            return unsure + 0.05 * off, boxes

    return Detector()
