# SPDX-License-Identifier: Apache-2.0
"""Trainings of 50 steps, as a Module and in Gluon, for MXNet and for mx, and their losses. Runs under Python 3.8.

Parameters and batches come from NumPy's generators, whose numbers do not depend on its version.
"""

import zlib

import numpy as np

try:
    from . import training_blocks, training_symbols
except ImportError:  # a recorder runs beside it
    import training_blocks
    import training_symbols

STEPS = 50
STYLES = ("module", "imperative", "hybridised")
#: name -> optimizer, its settings, and by how much a step divides the sum of the gradients
TRAININGS = {
    "mlp": ("sgd", {"learning_rate": 0.1, "momentum": 0.9, "wd": 1e-4}, 16),
    "lenet": ("nag", {"learning_rate": 0.02, "momentum": 0.9}, 16),
    # small steps: a ReLU that rounding turns on or off changes later losses by as much as a step is long
    "resnet20": ("sgd", {"learning_rate": 0.0005, "wd": 1e-3}, 16),
    "language": ("rmsprop", {"learning_rate": 0.01, "clip_gradient": 1.0}, 8),
    "factors": ("adagrad", {"learning_rate": 0.3}, 32),
    "detector": ("adam", {"learning_rate": 0.005}, 1),
}


def initial(name, shape):
    """The first value of the parameter with this name."""
    if name.endswith(("gamma", "var")):
        return np.ones(shape, np.float32)
    if not name.endswith("weight"):
        return np.zeros(shape, np.float32)
    rng, deviation = np.random.RandomState(zlib.crc32(name.encode())), np.sqrt(2 / np.prod(shape[1:]))
    return rng.normal(0, deviation, shape).astype(np.float32)


def _examples(rng, shape, size):
    """Noisy copies of five patterns."""
    label = rng.randint(0, 5, size)
    patterns = np.random.RandomState(1).normal(0, 1, (5, *shape))
    return [patterns[label] + rng.normal(0, 1, (size, *shape))], label


def _sentences(rng, length):
    """Words that follow each other by a rule, but for a tenth; the ends are padded."""
    words = np.zeros((8, length + 1))
    for sentence in words:
        word = rng.randint(1, 20)
        for place in range(rng.randint(length // 2, length + 1) + 1):
            sentence[place] = word
            word = rng.randint(1, 20) if rng.uniform() < 0.1 else word * 7 % 19 + 1
    return [words[:, :-1]], words[:, 1:]


def _ratings(rng):
    user, item = rng.randint(0, 30, 32), rng.randint(0, 25, 32)
    tastes = np.random.RandomState(1).normal(0, 1, (55, 3))
    return [user, item], (tastes[user] * tastes[item + 30]).sum(axis=1) + 0.1 * rng.normal(0, 1, 32)


def _drawings(rng):
    """Pictures with one or two rectangles, and their classes and corners."""
    pictures, label = rng.normal(0, 0.1, (4, 3, 16, 16)), -np.ones((4, 2, 5))
    for picture, boxes in zip(pictures, label):
        for box in boxes[: rng.randint(1, 3)]:
            kind, (width, height) = rng.randint(0, 2), rng.randint(5, 12, 2)
            x, y = rng.randint(0, 17 - width), rng.randint(0, 17 - height)
            picture[kind, y : y + height, x : x + width] += 1
            # no two overlaps are equal
            corners = np.array([x, y, x + width, y + height]) + rng.uniform(-0.3, 0.3, 4)
            box[:] = np.append(kind, np.clip(corners / 16, 0, 1))
    return [pictures], label


def batches(name, steps):
    """Inputs and label of each step."""
    rng, found = np.random.RandomState(7), []
    for step in range(steps):
        if name == "mlp":
            found.append(_examples(rng, (10,), 16))
        elif name in ("lenet", "resnet20"):
            found.append(_examples(rng, (1, 12, 12) if name == "lenet" else (3, 8, 8), 16))
        elif name == "language":
            found.append(_sentences(rng, (5, 8, 12)[rng.randint(0, 3)] if step else 12))
        else:
            found.append((_ratings if name == "factors" else _drawings)(rng))
    return [([x.astype(np.float32) for x in inputs], label.astype(np.float32)) for inputs, label in found]


def loss_of(name, outputs, label):
    """The loss that a Module's outputs and the label have."""
    first = outputs[0].astype(np.float64)
    if name == "factors":
        return float(((first[:, 0] - label) ** 2).mean() / 2)
    if name != "detector":
        label, size = label.astype(int).ravel(), len(label)
        chances = first[np.arange(len(first)), label]
        return float(-(np.log(chances) * (label > 0 if name == "language" else 1)).sum() / size)
    wanted = outputs[2].astype(int)
    chances = np.take_along_axis(first, np.maximum(wanted, 0)[:, None], 1)[:, 0]
    return float(-np.log(chances[wanted >= 0]).mean() + 0.05 * outputs[1].sum())


def _module(mx, name, first):
    """A bound module, and what describes a batch; that of a language model has a symbol for each length."""
    (inputs, label), symbol = first, getattr(training_symbols, name)
    names = ("user", "item") if name == "factors" else ("data",)
    target = ("label",) if name in ("factors", "detector") else ("softmax_label",)
    if name == "language":
        generate = lambda length: (symbol(mx, length), names, target)
        module = mx.mod.BucketingModule(generate, default_bucket_key=inputs[0].shape[1], context=mx.cpu())
    else:
        module = mx.mod.Module(symbol(mx), names, target, context=mx.cpu())

    def described(inputs, label):
        return list(zip(names, (x.shape for x in inputs))), list(zip(target, [label.shape]))

    module.bind(*described(inputs, label))
    return module, described


def _by_module(mx, name, steps):
    (optimizer, settings, scale), data = TRAININGS[name], batches(name, steps)
    module, described = _module(mx, name, data[0])
    module.init_params(mx.init.Zero())
    arguments, states = (
        {key: mx.nd.array(initial(key, value.shape)) for key, value in values.items()}
        for values in module.get_params()
    )
    module.set_params(arguments, states)
    module.init_optimizer(optimizer=optimizer, optimizer_params=dict(settings, rescale_grad=1 / scale))
    losses = []
    for inputs, label in data:
        shapes, label_shapes = described(inputs, label)
        batch = mx.io.DataBatch(
            [mx.nd.array(x) for x in inputs], [mx.nd.array(label)], bucket_key=inputs[0].shape[-1],
            provide_data=shapes, provide_label=label_shapes,
        )  # fmt: skip
        module.forward(batch, is_train=True)
        outputs = [x.asnumpy() for x in module.get_outputs()]
        losses.append(loss_of(name, outputs, label))
        module.backward()
        module.update()
        boxes = outputs[-1]
    return losses, boxes


def _in_gluon(mx, name, steps, hybridised):
    (optimizer, settings, scale), data = TRAININGS[name], batches(name, steps)
    net = getattr(training_blocks, name)(mx)
    net.initialize(mx.init.Zero())
    if hybridised:
        net.hybridize()
    net(*(mx.nd.array(x) for x in (*data[0][0], data[0][1])))  # shapes are known from here on
    for key, parameter in net.collect_params().items():
        parameter.set_data(mx.nd.array(initial(key, parameter.shape)))
    trainer = mx.gluon.Trainer(net.collect_params(), optimizer, settings)
    losses = []
    for inputs, label in data:
        with mx.autograd.record():
            loss = net(*(mx.nd.array(x) for x in (*inputs, label)))
            loss, boxes = loss if isinstance(loss, (list, tuple)) else (loss, loss)
        loss.backward()
        trainer.step(scale)
        losses.append(float(loss.asnumpy().astype(np.float64).mean()))
    return losses, boxes.asnumpy()


def run(mx, name, style, steps=STEPS):
    """Losses of each step; of a detector also the boxes that it is sure of at the last one, the surest first."""
    if style == "module":
        losses, boxes = _by_module(mx, name, steps)
    else:
        losses, boxes = _in_gluon(mx, name, steps, style == "hybridised")
    found = {"losses": losses}
    if name == "detector":
        rows = [[picture, *map(float, row)] for picture, rows in enumerate(boxes) for row in rows]
        found["boxes"] = sorted(
            (row for row in rows if row[1] >= 0 and row[2] > 0.4), key=lambda row: -row[2]
        )
    return found
