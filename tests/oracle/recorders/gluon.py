# SPDX-License-Identifier: Apache-2.0
"""Records what MXNet 1.9.1's Gluon computes, names and writes. Runs under Python 3.8.

python gluon.py             records the cases below anew
python gluon.py --check     compares with what is recorded, and changes nothing
"""

import contextlib
import io
import json
import os
import sys
import tempfile
import warnings

os.environ.setdefault("MXNET_SUBGRAPH_BACKEND", "NONE")

import mxnet as mx
import numpy as np
from common import differences
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "gluon")
TOLERANCE = 2e-5


def chain(net, make, scoped=True):
    """A chain with blocks that are made within its scope or outside of it."""
    with net.name_scope() if scoped else contextlib.suppress():
        net.add(*make())
    return net


#: expression, shape of the input; the tests evaluate the same expressions
LAYERS = [
    ("nn.Dense(4)", (2, 3)),
    ("nn.Dense(4, activation='relu')", (2, 3, 2)),
    ("nn.Dense(4, flatten=False, use_bias=False)", (2, 3, 5)),
    ("nn.Dense(4, activation='tanh', in_units=3, prefix='d_')", (2, 3)),
    ("nn.Dropout(0.0)", (2, 3)),
    ("nn.BatchNorm()", (4, 3, 2, 2)),
    ("nn.BatchNorm(axis=-1, momentum=0.7, epsilon=1e-3)", (4, 3, 2)),
    ("nn.BatchNorm(center=False, scale=False)", (4, 3)),
    ("nn.BatchNorm(use_global_stats=True, in_channels=3)", (4, 3)),
    ("nn.BatchNormReLU()", (4, 3, 2, 2)),
    ("nn.InstanceNorm()", (2, 3, 4)),
    ("nn.InstanceNorm(axis=2, scale=True, epsilon=1e-3)", (2, 3, 4)),
    ("nn.LayerNorm()", (2, 3, 4)),
    ("nn.LayerNorm(axis=1, center=False, in_channels=3)", (2, 3, 4)),
    ("nn.GroupNorm()", (2, 4, 3)),
    ("nn.GroupNorm(num_groups=2, epsilon=1e-3)", (2, 4, 3)),
    ("nn.Embedding(5, 3)", "indices"),
    ("nn.Flatten()", (2, 3, 4)),
    ("nn.Lambda('tanh')", (2, 3)),
    ("nn.HybridLambda('sigmoid')", (2, 3)),
    ("nn.HybridLambda(lambda F, x: F.square(x))", (2, 3)),
    ("nn.Activation('sigmoid')", (2, 3)),
    ("nn.Activation('softrelu', prefix='p_')", (2, 3)),
    ("nn.Activation('softsign')", (2, 3)),
    ("nn.LeakyReLU(0.2)", (2, 3)),
    ("nn.PReLU()", (2, 3)),
    ("nn.PReLU(in_channels=3)", (2, 3)),
    ("nn.ELU(0.7)", (2, 3)),
    ("nn.SELU()", (2, 3)),
    ("nn.GELU()", (2, 3)),
    ("nn.Swish(1.5)", (2, 3)),
    ("nn.ReflectionPad2D(1)", (1, 2, 3, 4)),
    ("nn.Conv1D(4, 3)", (2, 3, 7)),
    ("nn.Conv1D(4, 3, strides=2, padding=1, dilation=2, groups=2, activation='relu')", (2, 4, 9)),
    ("nn.Conv2D(4, 3)", (1, 3, 5, 6)),
    ("nn.Conv2D(4, (3, 2), strides=(2, 1), padding=1, use_bias=False)", (1, 3, 5, 6)),
    ("nn.Conv2D(4, 3, groups=2, dilation=2, in_channels=4, activation='tanh')", (1, 4, 6, 7)),
    ("nn.Conv3D(2, 2)", (1, 2, 3, 4, 3)),
    ("nn.Conv3D(2, (1, 2, 3), padding=(0, 1, 1))", (1, 2, 2, 4, 3)),
    ("nn.Conv1DTranspose(4, 3)", (2, 3, 5)),
    ("nn.Conv1DTranspose(2, 3, strides=2, padding=1, output_padding=1)", (2, 3, 5)),
    ("nn.Conv2DTranspose(4, 3, in_channels=3)", (1, 3, 4, 4)),
    (
        "nn.Conv2DTranspose(4, 3, strides=2, output_padding=1, groups=2, use_bias=False, in_channels=2)",
        (1, 2, 3, 4),
    ),
    ("nn.Conv3DTranspose(2, 2)", (1, 2, 2, 3, 2)),
    ("nn.MaxPool1D()", (2, 3, 7)),
    ("nn.MaxPool1D(3, strides=2, padding=1, ceil_mode=True)", (2, 3, 8)),
    ("nn.MaxPool2D()", (1, 2, 5, 6)),
    ("nn.MaxPool2D((3, 2), strides=1, padding=1, ceil_mode=True)", (1, 2, 5, 6)),
    ("nn.MaxPool3D()", (1, 2, 4, 4, 5)),
    ("nn.AvgPool1D()", (2, 3, 7)),
    ("nn.AvgPool2D(3, strides=2, padding=1, count_include_pad=False)", (1, 2, 5, 6)),
    ("nn.AvgPool2D(2, ceil_mode=True)", (1, 2, 5, 6)),
    ("nn.AvgPool3D()", (1, 2, 4, 4, 5)),
    ("nn.GlobalMaxPool1D()", (2, 3, 4)),
    ("nn.GlobalMaxPool2D()", (2, 3, 4, 3)),
    ("nn.GlobalMaxPool3D()", (1, 2, 3, 2, 3)),
    ("nn.GlobalAvgPool1D()", (2, 3, 4)),
    ("nn.GlobalAvgPool2D()", (2, 3, 4, 3)),
    ("nn.GlobalAvgPool3D()", (1, 2, 3, 2, 3)),
    ("chain(nn.Sequential(), lambda: [nn.Dense(3, activation='relu'), nn.Dense(2)])", (2, 4)),
    ("chain(nn.Sequential(), lambda: [nn.Dense(3), nn.BatchNorm()], scoped=False)", (2, 4)),
    ("chain(nn.HybridSequential(), lambda: [nn.Conv2D(2, 3), nn.Flatten(), nn.Dense(2)])", (2, 2, 4, 4)),
    (
        "chain(nn.HybridSequential(prefix='net_'), lambda: [chain(nn.HybridSequential(prefix=''), "
        "lambda: [nn.Dense(3), nn.Dense(3)]), chain(nn.HybridSequential(), lambda: [nn.Dense(2)])])",
        (2, 4),
    ),
    (
        "chain(nn.HybridSequential(), lambda: (lambda first: [first, nn.Dense(3, params=first.params), "
        "nn.Dense(3, in_units=3)])(nn.Dense(3, in_units=3)))",
        (2, 3),
    ),
    ("chain(nn.HybridSequential(prefix='s_'), lambda: [nn.Dense(3), nn.PReLU(), nn.Dense(2)])[1:]", (2, 3)),
]

#: expression; arrays by kind and shape: the first one is differentiated
LOSSES = [
    ("loss.L2Loss()", [("real", (3, 4)), ("real", (3, 4))]),
    ("loss.L2Loss(weight=0.5, batch_axis=1)", [("real", (3, 4)), ("real", (12,)), ("share", (3, 1))]),
    ("loss.L1Loss()", [("real", (3, 4)), ("real", (3, 4))]),
    ("loss.L1Loss(weight=2.0)", [("real", (3, 4)), ("real", (3, 4)), ("share", (3, 1))]),
    ("loss.SigmoidBinaryCrossEntropyLoss()", [("real", (3, 4)), ("binary", (3, 4))]),
    ("loss.SigmoidBCELoss(from_sigmoid=True)", [("share", (3, 4)), ("binary", (3, 4))]),
    ("loss.SigmoidBCELoss()", [("real", (3, 4)), ("binary", (3, 4)), ("share", (3, 1)), ("share", (1, 4))]),
    (
        "loss.SigmoidBCELoss(from_sigmoid=True, weight=0.3)",
        [("share", (3, 4)), ("binary", (3, 4)), ("share", (3, 1)), ("share", (1, 4))],
    ),
    ("loss.SoftmaxCrossEntropyLoss()", [("real", (3, 4)), ("class", (3,))]),
    ("loss.SoftmaxCELoss(axis=1)", [("real", (3, 4, 2)), ("class", (3, 2)), ("share", (3, 1, 1))]),
    ("loss.SoftmaxCELoss(sparse_label=False, weight=2.0)", [("real", (3, 4)), ("share", (3, 4))]),
    ("loss.SoftmaxCELoss(from_logits=True)", [("real", (3, 4)), ("class", (3,))]),
    ("loss.KLDivLoss()", [("real", (3, 4)), ("share", (3, 4))]),
    ("loss.KLDivLoss(from_logits=False, axis=1, weight=0.5)", [("real", (3, 4, 2)), ("share", (3, 4, 2))]),
    ("loss.CTCLoss()", [("real", (2, 6, 4)), ("class", (2, 2))]),
    ("loss.CTCLoss(layout='TNC', label_layout='TN', weight=0.5)", [("real", (6, 2, 4)), ("class", (2, 2))]),
    ("loss.CTCLoss()", [("real", (2, 6, 4)), ("class", (2, 2)), [6, 5], [2, 1]]),
    ("loss.HuberLoss()", [("real", (3, 4)), ("real", (3, 4))]),
    ("loss.HuberLoss(rho=0.3, weight=2.0)", [("real", (3, 4)), ("real", (3, 4)), ("share", (3, 1))]),
    ("loss.HingeLoss()", [("real", (3, 4)), ("sign", (3, 4))]),
    ("loss.HingeLoss(margin=0.5, weight=2.0)", [("real", (3, 4)), ("sign", (3, 4)), ("share", (3, 1))]),
    ("loss.SquaredHingeLoss()", [("real", (3, 4)), ("sign", (3, 4))]),
    ("loss.LogisticLoss()", [("real", (3, 4)), ("sign", (3, 4))]),
    ("loss.LogisticLoss(label_format='binary', weight=2.0)", [("real", (3, 4)), ("binary", (3, 4))]),
    ("loss.TripletLoss()", [("real", (3, 4)), ("real", (3, 4)), ("real", (3, 4))]),
    ("loss.TripletLoss(margin=0.1, weight=0.5)", [("real", (3, 4)), ("real", (3, 4)), ("real", (3, 4))]),
    ("loss.PoissonNLLLoss()", [("real", (3, 4)), ("count", (3, 4))]),
    ("loss.PoissonNLLLoss(from_logits=False, weight=2.0)", [("share", (3, 4)), ("count", (3, 4))]),
    ("loss.PoissonNLLLoss(compute_full=True)", [("real", (3, 4)), ("count", (3, 4)), ("share", (3, 1))]),
    ("loss.CosineEmbeddingLoss()", [("real", (3, 4)), ("real", (3, 4)), ("sign", (3,))]),
    (
        "loss.CosineEmbeddingLoss(weight=2.0, margin=-0.5)",
        [("real", (3, 4)), ("real", (3, 4)), ("sign", (3,)), ("share", (3, 1))],
    ),
    ("loss.SDMLLoss()", [("real", (4, 3)), ("real", (4, 3))]),
    ("loss.SDMLLoss(smoothing_parameter=0.1)", [("real", (4, 3)), ("real", (4, 3))]),
]

#: optimizer, its arguments, number of contexts, further arguments of Trainer
TRAINERS = [
    ("sgd", {"learning_rate": 0.1}, 1, {}),
    ("sgd", {"learning_rate": 0.1, "momentum": 0.9, "wd": 0.1}, 2, {}),
    ("sgd", {"learning_rate": 0.1, "momentum": 0.9}, 2, {"update_on_kvstore": False}),
    ("sgd", {"learning_rate": 0.1}, 2, {"kvstore": None}),
    ("nag", {"learning_rate": 0.1, "momentum": 0.9}, 2, {"kvstore": "local"}),
    ("adam", {"learning_rate": 0.1, "wd": 0.1}, 1, {}),
    ("adam", {"learning_rate": 0.1}, 2, {"update_on_kvstore": True}),
    ("adam", {"learning_rate": 0.1}, 2, {"update_on_kvstore": False}),
    ("adam", {"learning_rate": 0.1}, 2, {"kvstore": None}),
    ("rmsprop", {"learning_rate": 0.1, "centered": True}, 2, {"update_on_kvstore": False}),
    ("adagrad", {"learning_rate": 0.1}, 1, {}),
    ("ftml", {"learning_rate": 0.1}, 2, {"update_on_kvstore": False}),
    ("lamb", {"learning_rate": 0.1}, 2, {"update_on_kvstore": False}),
]


def drawn(random, kind, shape):
    """Random numbers of a kind, as float32."""
    makers = {
        "real": lambda: random.uniform(-2, 2, shape),
        "share": lambda: random.uniform(0.1, 0.9, shape),
        "binary": lambda: random.randint(0, 2, shape),
        "sign": lambda: random.randint(0, 2, shape) * 2 - 1,
        "class": lambda: random.randint(0, 3, shape),
        "count": lambda: random.randint(1, 5, shape),
    }
    return makers[kind]().astype("float32")


def layer(number, make, shape):
    """A layer: names, shapes, texts; values and gradients of one call in training and one outside of it."""
    random = np.random.RandomState(number)
    with mx.name.NameManager():
        net = eval(make, {"nn": nn, "chain": chain})
    before = repr(net)
    if shape == "indices":
        x = nd.array(random.randint(0, 5, (2, 3)).astype("float32"))
    else:
        x = nd.array(drawn(random, "real", shape))
    unknown = {name: list(param.shape) for name, param in net.collect_params().items()}
    net.initialize()
    net(x)
    arrays = {"x": x.asnumpy()}
    for name, param in sorted(net.collect_params().items()):
        kind = "share" if name.endswith("var") else "real"
        param.set_data(nd.array(drawn(random, kind, param.shape)))
        arrays["param/" + name] = param.data().asnumpy()
    if shape != "indices":
        x.attach_grad()
    arrays["predicted"] = net(x).asnumpy()
    with autograd.record():
        out = net(x)
    head = nd.array(drawn(random, "real", out.shape))
    out.backward(head)
    arrays.update(head=head.asnumpy(), out=out.asnumpy())
    if shape != "indices":
        arrays["grad"] = x.grad.asnumpy()
    for name, param in net.collect_params().items():
        if param.grad_req != "null":
            arrays["grad/" + name] = param.grad().asnumpy()
        elif "running" in name:
            arrays["after/" + name] = param.data().asnumpy()
    described = {
        "make": make,
        "prefix": net.prefix,
        "before": before,
        "after": repr(net),
        "unknown": unknown,
        "shapes": {name: list(param.shape) for name, param in net.collect_params().items()},
        "requests": {name: param.grad_req for name, param in net.collect_params().items()},
        "structure": {name: param.name for name, param in net._collect_params_with_prefix().items()},
        "params": repr(net.collect_params()),
    }
    return described, arrays


def loss(number, make, given):
    """A loss of arrays, and its gradient by the first one."""
    random = np.random.RandomState(100 + number)
    made = eval(make, {"loss": gluon.loss})
    arrays = [
        np.array(each, "float32") if isinstance(each, list) else drawn(random, each[0], each[1])
        for each in given
    ]
    inputs = [nd.array(array) for array in arrays]
    inputs[0].attach_grad()
    found = {str(i): array for i, array in enumerate(arrays)}
    found["out"] = made(*inputs).asnumpy()
    if "compute_full" not in make:  # that one MXNet cannot differentiate
        with autograd.record():
            out = made(*inputs)
        out.backward()
        found["grad"] = inputs[0].grad.asnumpy()
    return {"make": make, "repr": repr(made), "inputs": len(arrays)}, found


def small_net():
    """What the trainers train."""
    with mx.name.NameManager():
        net = nn.HybridSequential(prefix="t_")
        with net.name_scope():
            net.add(nn.Dense(3, activation="tanh", in_units=2), nn.Dense(1, in_units=3))
    random = np.random.RandomState(7)
    net.collect_params()["t_dense1_weight"].lr_mult = 0.5
    net.collect_params()["t_dense0_bias"].wd_mult = 0.0
    return net, random


def started(net, random, contexts):
    net.initialize(ctx=contexts)
    for _, param in sorted(net.collect_params().items()):
        param.set_data(nd.array(drawn(random, "real", param.shape)))
    return nd.array(drawn(random, "real", (4, 2))), nd.array(drawn(random, "real", (4, 1)))


def stepped(net, trainer, batch, contexts, steps):
    """Weights on every context after some steps."""
    x, y = (gluon.utils.split_and_load(each, contexts) for each in batch)
    l2 = gluon.loss.L2Loss()
    for _ in range(steps):
        with autograd.record():
            losses = [l2(net(a), b) for a, b in zip(x, y)]
        for each in losses:
            each.backward()
        trainer.step(4)
    found = {}
    for name, param in net.collect_params().items():
        for i, array in enumerate(param.list_data()):
            found["%s/%d" % (name, i)] = array.asnumpy()
    return found


def trainer(number, optimizer, arguments, count, further, folder):
    """Weights after two steps and after two more, and the states in a file after the first two."""
    contexts = [mx.cpu(i) for i in range(count)]
    net, random = small_net()
    batch = started(net, random, contexts)
    made = gluon.Trainer(net.collect_params(), optimizer, dict(arguments), **further)
    arrays = {"x": batch[0].asnumpy(), "y": batch[1].asnumpy()}
    for name, param in net.collect_params().items():
        arrays["first/" + name] = param.data(contexts[0]).asnumpy()
    arrays.update({"two/" + k: v for k, v in stepped(net, made, batch, contexts, 2).items()})
    if further.get("kvstore", "") is not None:
        made.save_states(os.path.join(folder, "trainer%d.states" % number))
    arrays.update({"four/" + k: v for k, v in stepped(net, made, batch, contexts, 2).items()})
    return {"optimizer": optimizer, "arguments": arguments, "contexts": count, "further": further}, arrays


def files(folder):
    """Files of one network, with what it computes."""
    with mx.name.NameManager():
        net = nn.HybridSequential(prefix="f_")
        with net.name_scope():
            first = nn.Dense(3, in_units=3, activation="relu")
            net.add(
                nn.Conv2D(2, 3, activation="relu"), nn.BatchNorm(), nn.MaxPool2D(), nn.Flatten(), nn.Dense(3)
            )
            net.add(first, nn.Dense(3, params=first.params), nn.Dropout(0.5), nn.Dense(2))
    random = np.random.RandomState(11)
    x = nd.array(drawn(random, "real", (2, 2, 6, 6)))
    net.initialize()
    net(x)
    for name, param in sorted(net.collect_params().items()):
        param.set_data(nd.array(drawn(random, "share" if name.endswith("var") else "real", param.shape)))
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        net.summary(x)
    net.hybridize()
    out = net(x)
    net.save_parameters(os.path.join(folder, "net.params"))
    net.save_parameters(os.path.join(folder, "once.params"), deduplicate=True)
    net.collect_params().save(os.path.join(folder, "named.params"), strip_prefix="f_")
    net.export(os.path.join(folder, "net"))
    net.save(os.path.join(folder, "net"))
    with open(os.path.join(folder, "summary.txt"), "w") as file:
        file.write(text.getvalue())
    return {"x": x.asnumpy(), "out": out.asnumpy()}


def everything(folder):
    """Computes all; files of MXNet's go into the folder."""
    cases, arrays = {"layers": [], "losses": [], "trainers": []}, {}

    def keep(kind, described, found):
        number = len(cases[kind])
        cases[kind].append(described)
        arrays.update({"%s/%d/%s" % (kind, number, key): value for key, value in found.items()})

    for i, (make, shape) in enumerate(LAYERS):
        keep("layers", *layer(i, make, shape))
    for i, (make, given) in enumerate(LOSSES):
        keep("losses", *loss(i, make, given))
    for i, given in enumerate(TRAINERS):
        keep("trainers", *trainer(i, *given, folder))
    arrays.update({"files/" + key: value for key, value in files(folder).items()})
    return cases, arrays


def main():
    warnings.simplefilter("ignore")
    check = sys.argv[1:] == ["--check"]
    os.makedirs(DATA, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        cases, arrays = everything(scratch if check else DATA)
    path = os.path.join(DATA, "cases.json")
    if not check:
        with open(path, "w") as file:
            json.dump(cases, file, indent=1)
            file.write("\n")
        np.savez_compressed(os.path.join(DATA, "arrays.npz"), **arrays)
        return
    with open(path) as file:
        recorded = json.load(file)
    with np.load(os.path.join(DATA, "arrays.npz")) as file:
        known = dict(file)
    found = list(differences(json.loads(json.dumps(cases)), recorded, TOLERANCE, "cases"))
    found += ["only one has %s" % key for key in sorted(set(known) ^ set(arrays))]
    found += [
        key
        for key in known
        if key in arrays and not np.allclose(known[key], arrays[key], TOLERANCE, TOLERANCE)
    ]
    print("\n".join(found) or "no difference")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
