# SPDX-License-Identifier: Apache-2.0
"""Networks that classify images."""

from __future__ import annotations

from typing import Any

from mx_core.errors import ArgumentError
from mx_gluon.model_zoo.vision.alexnet import AlexNet, alexnet
from mx_gluon.model_zoo.vision.densenet import DenseNet, densenet121, densenet161, densenet169, densenet201
from mx_gluon.model_zoo.vision.inception import Inception3, inception_v3
from mx_gluon.model_zoo.vision.mobilenet import (
    MobileNet,
    MobileNetV2,
    get_mobilenet,
    get_mobilenet_v2,
    mobilenet0_5,
    mobilenet0_25,
    mobilenet0_75,
    mobilenet1_0,
    mobilenet_v2_0_5,
    mobilenet_v2_0_25,
    mobilenet_v2_0_75,
    mobilenet_v2_1_0,
)
from mx_gluon.model_zoo.vision.network import Network
from mx_gluon.model_zoo.vision.resnet import (
    BasicBlockV1,
    BasicBlockV2,
    BottleneckV1,
    BottleneckV2,
    ResNetV1,
    ResNetV2,
    get_resnet,
    resnet18_v1,
    resnet18_v2,
    resnet34_v1,
    resnet34_v2,
    resnet50_v1,
    resnet50_v2,
    resnet101_v1,
    resnet101_v2,
    resnet152_v1,
    resnet152_v2,
)
from mx_gluon.model_zoo.vision.squeezenet import SqueezeNet, squeezenet1_0, squeezenet1_1
from mx_gluon.model_zoo.vision.vgg import (
    VGG,
    get_vgg,
    vgg11,
    vgg11_bn,
    vgg13,
    vgg13_bn,
    vgg16,
    vgg16_bn,
    vgg19,
    vgg19_bn,
)

__all__ = [
    "VGG", "AlexNet", "BasicBlockV1", "BasicBlockV2", "BottleneckV1", "BottleneckV2", "DenseNet", "Inception3",
    "MobileNet", "MobileNetV2", "ResNetV1", "ResNetV2", "SqueezeNet", "alexnet", "densenet121", "densenet161",
    "densenet169", "densenet201", "get_mobilenet", "get_mobilenet_v2", "get_model", "get_resnet", "get_vgg",
    "inception_v3", "mobilenet0_5", "mobilenet0_25", "mobilenet0_75", "mobilenet1_0", "mobilenet_v2_0_5",
    "mobilenet_v2_0_25", "mobilenet_v2_0_75", "mobilenet_v2_1_0", "resnet18_v1", "resnet18_v2", "resnet34_v1",
    "resnet34_v2", "resnet50_v1", "resnet50_v2", "resnet101_v1", "resnet101_v2", "resnet152_v1", "resnet152_v2",
    "squeezenet1_0", "squeezenet1_1", "vgg11", "vgg11_bn", "vgg13", "vgg13_bn", "vgg16", "vgg16_bn", "vgg19",
    "vgg19_bn",
]  # fmt: skip

#: names whose functions are called otherwise
_OTHERWISE = {
    "inceptionv3": inception_v3,
    "mobilenet0.25": mobilenet0_25,
    "mobilenet0.5": mobilenet0_5,
    "mobilenet0.75": mobilenet0_75,
    "mobilenet1.0": mobilenet1_0,
    "mobilenetv2_0.25": mobilenet_v2_0_25,
    "mobilenetv2_0.5": mobilenet_v2_0_5,
    "mobilenetv2_0.75": mobilenet_v2_0_75,
    "mobilenetv2_1.0": mobilenet_v2_1_0,
    "squeezenet1.0": squeezenet1_0,
    "squeezenet1.1": squeezenet1_1,
}
_PLAIN = (
    alexnet, densenet121, densenet161, densenet169, densenet201, resnet18_v1, resnet34_v1, resnet50_v1, resnet101_v1,
    resnet152_v1, resnet18_v2, resnet34_v2, resnet50_v2, resnet101_v2, resnet152_v2, vgg11, vgg13, vgg16, vgg19,
    vgg11_bn, vgg13_bn, vgg16_bn, vgg19_bn,
)  # fmt: skip
_MODELS: dict[str, Any] = {**_OTHERWISE, **{function.__name__: function for function in _PLAIN}}


def get_model(name: str, **kwargs: Any) -> Network:
    """A network by its name, such as `resnet50_v1`, `mobilenetv2_0.5`, `vgg16_bn`.

    Parameters
    ----------
    name : str
        In small or capital letters.
    pretrained : bool
        Whether to load the parameters that MXNet's authors have trained, from a file that is there.
    classes : int
        Of the output.
    ctx : Context
        Where the trained parameters go.
    root : path
        The folder of their file, by default `models` in MXNET_HOME or `~/.mxnet`.

    Raises
    ------
    ArgumentError     there is no such network
    MissingFileError  the file is not there; nothing is downloaded
    """
    found = _MODELS.get(name.lower())
    if found is None:
        listed = "\n\t".join(sorted(_MODELS))
        raise ArgumentError(f"Model {name.lower()} is not supported. Available options are\n\t{listed}")
    made: Network = found(**kwargs)
    return made
