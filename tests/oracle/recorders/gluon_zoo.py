# SPDX-License-Identifier: Apache-2.0
"""Records the networks of MXNet 1.9.1's model zoo, and what some of them compute. Runs under Python 3.8.

python gluon_zoo.py             records them anew
python gluon_zoo.py --check     compares with what is recorded, and changes nothing
"""

import hashlib
import json
import os

os.environ.setdefault("MXNET_SUBGRAPH_BACKEND", "NONE")

import numpy as np
from common import write_or_check
from mxnet import nd
from mxnet.gluon.contrib import nn
from mxnet.gluon.model_zoo import vision

NAMES_OF = {"vision": vision, "nn": nn}
FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "gluon", "zoo.json")

NAMES = [
    "alexnet", "densenet121", "densenet161", "densenet169", "densenet201", "inceptionv3", "mobilenet0.25",
    "mobilenet0.5", "mobilenet0.75", "mobilenet1.0", "mobilenetv2_0.25", "mobilenetv2_0.5", "mobilenetv2_0.75",
    "mobilenetv2_1.0", "resnet101_v1", "resnet101_v2", "resnet152_v1", "resnet152_v2", "resnet18_v1", "resnet18_v2",
    "resnet34_v1", "resnet34_v2", "resnet50_v1", "resnet50_v2", "squeezenet1.0", "squeezenet1.1", "vgg11", "vgg11_bn",
    "vgg13", "vgg13_bn", "vgg16", "vgg16_bn", "vgg19", "vgg19_bn",
]  # fmt: skip
#: expressions of other networks whose structure is recorded
OTHERS = [
    "vision.get_resnet(1, 18, thumbnail=True, classes=10)",
    "vision.get_resnet(2, 50, thumbnail=True, classes=10)",
    "vision.DenseNet(8, 4, [2, 3], bn_size=2, dropout=0.5, classes=7)",
    "vision.VGG([1, 2], [8, 16], classes=5, batch_norm=True)",
    "vision.ResNetV1(vision.BottleneckV1, [1, 2], [16, 32, 64], classes=4)",
    "vision.MobileNet(0.3, classes=3)",
    "vision.MobileNetV2(1.3, classes=3)",
]
#: expression and extent of the image, of networks whose outputs are recorded
COMPUTED = [
    ("vision.get_model('resnet18_v1', classes=6)", 64),
    ("vision.get_model('resnet50_v1', classes=6)", 64),
    ("vision.get_model('resnet18_v2', classes=6)", 64),
    ("vision.get_model('resnet50_v2', classes=6, thumbnail=True)", 16),
    ("vision.get_model('densenet121', classes=6)", 224),
    ("vision.get_model('squeezenet1.0', classes=6)", 224),
    ("vision.get_model('squeezenet1.1', classes=6)", 224),
    ("vision.get_model('mobilenet0.25', classes=6)", 64),
    ("vision.get_model('mobilenetv2_0.25', classes=6)", 64),
    ("vision.get_model('inceptionv3', classes=6)", 299),
    ("vision.VGG([1, 1, 1], [8, 16, 16], classes=6, batch_norm=True)", 16),
]
#: layers of gluon.contrib.nn: expression, shape of the input
LAYERS = [
    ("nn.PixelShuffle1D(3)", (2, 6, 4)),
    ("nn.PixelShuffle2D(2)", (1, 8, 3, 2)),
    ("nn.PixelShuffle2D((2, 3))", (2, 12, 2, 3)),
    ("nn.PixelShuffle3D(2)", (1, 16, 2, 3, 2)),
    ("nn.PixelShuffle3D((1, 2, 3))", (1, 6, 2, 2, 2)),
    ("nn.Identity()", (2, 3)),
]


def described(net):
    """What a network looks like: text, parameters with shapes, as numbers that are equal when they are."""
    parameters = [[name, list(p.shape)] for name, p in net._collect_params_with_prefix().items()]
    named = [[name[len(net.prefix) :], list(p.shape)] for name, p in net.collect_params().items()]
    text = repr(net)
    return {
        "repr": hashlib.sha1(text.encode()).hexdigest(),
        "lines": text.count("\n"),
        "parameters": hashlib.sha1(json.dumps([parameters, named]).encode()).hexdigest(),
        "count": len(named),
    }


def shaped(net, extent=224):
    """A network whose parameters have shapes, and no values."""
    net.infer_shape(nd.zeros((1, 3, extent, extent)))
    return net


def image(extent):
    """An image that is different everywhere."""
    places = np.arange(3 * extent * extent, dtype="float64")
    return np.sin(places * 0.37 + places**2 * 1e-5).reshape(1, 3, extent, extent).astype("float32")


def fill(net):
    """Gives parameters values that follow from their names and places."""
    for name, parameter in net._collect_params_with_prefix().items():
        shape = parameter.shape
        places = np.arange(np.prod(shape, dtype=int), dtype="float64")
        wave = np.sin(places * 0.61 + places**2 * 1e-4 + len(name)).reshape(shape)
        kind = name.rpartition(".")[2]
        if kind == "weight":
            wave *= np.sqrt(3.0 / np.prod(shape[1:]))
        elif kind in ("gamma", "running_var"):
            wave = 1 + 0.3 * wave
        else:
            wave *= 0.1
        parameter.set_data(nd.array(wave))


def output(expression, extent):
    """What a network computes of the image."""
    net = eval(expression, NAMES_OF)
    net.initialize()
    data = nd.array(image(extent))
    net(data)
    fill(net)
    return net(data).asnumpy().ravel().tolist()


def layer(expression, shape):
    """What a layer computes."""
    made = eval(expression, NAMES_OF)
    data = nd.arange(int(np.prod(shape))).reshape(shape)
    return {"repr": repr(made), "output": made(data).asnumpy().tolist()}


def everything():
    """All of it."""
    networks = {}
    for name in NAMES:
        net = vision.get_model(name)
        networks[name] = described(shaped(net, 299 if name == "inceptionv3" else 224))
    others = {each: described(shaped(eval(each, NAMES_OF), 64)) for each in OTHERS}
    computed = {each: output(each, extent) for each, extent in COMPUTED}
    layers = {each: layer(each, shape) for each, shape in LAYERS}
    return {
        "networks": networks, "others": others, "computed": computed, "layers": layers,
        "extents": dict(COMPUTED), "shapes": {each: list(shape) for each, shape in LAYERS},
        "error": error_of("nothing"),
    }  # fmt: skip


def error_of(name):
    """What is said of an unknown network."""
    try:
        vision.get_model(name)
    except ValueError as error:
        return str(error)


if __name__ == "__main__":
    write_or_check(FILE, everything(), 1e-3)
