# SPDX-License-Identifier: Apache-2.0
"""The networks that benchmarks measure, as symbols of one input `data`.

The image networks are the first versions of MXNet's model zoo, layer for layer (He et al. 2015, Simonyan
and Zisserman 2014, Howard et al. 2017, Huang et al. 2016): 1000 classes, no softmax.
"""

from __future__ import annotations

from collections.abc import Callable

from mx_symbol import sym
from mx_symbol.testing.networks.densenet import densenet121
from mx_symbol.testing.networks.mobilenet import mobilenet1_0
from mx_symbol.testing.networks.recurrent import lstm_language_model, unrolled_lstm
from mx_symbol.testing.networks.resnet import resnet18_v1, resnet50_v1
from mx_symbol.testing.networks.towers import towers
from mx_symbol.testing.networks.transformer import transformer_encoder
from mx_symbol.testing.networks.vgg import vgg16

#: by the names of MXNet's model zoo; input (batch, 3, 224, 224)
IMAGE_NETWORKS: dict[str, Callable[[], sym.Symbol]] = {
    "resnet18_v1": resnet18_v1,
    "resnet50_v1": resnet50_v1,
    "vgg16": vgg16,
    "mobilenet1.0": mobilenet1_0,
    "densenet121": densenet121,
}

__all__ = ["IMAGE_NETWORKS", "lstm_language_model", "towers", "transformer_encoder", "unrolled_lstm"]
