# SPDX-License-Identifier: Apache-2.0
"""The networks that benchmarks measure are the model zoo's: shapes of parameters, and their number."""

import json
from math import prod
from pathlib import Path

import pytest

from mx_symbol.testing.networks import IMAGE_NETWORKS, transformer_encoder

DATA = Path(__file__).parent / "data"

#: learned parameters in MXNet 1.9.1's model zoo
PARAMETERS = {
    "resnet18_v1": 11_689_512, "resnet50_v1": 25_575_912, "vgg16": 138_357_544, "mobilenet1.0": 4_231_976,
    "densenet121": 7_978_856,
}  # fmt: skip


def shapes_of(net, **inputs):
    """Shapes of the learned parameters in order."""
    shapes, _, _ = net.infer_shape(**inputs)
    return [s for name, s in zip(net.list_arguments(), shapes, strict=True) if name not in inputs]


@pytest.mark.parametrize("name", PARAMETERS)
def test_number_of_parameters(name):
    shapes = shapes_of(IMAGE_NETWORKS[name](), data=(1, 3, 224, 224))
    assert sum(map(prod, shapes)) == PARAMETERS[name]


def test_resnet18_has_the_zoos_parameters():
    zoo = json.loads((DATA / "resnet18_v1-shapes.json").read_text())["arguments"]
    expected = [tuple(shape) for name, shape in zoo.items() if name != "data" and "dense" not in name]
    found = shapes_of(IMAGE_NETWORKS["resnet18_v1"](), data=(1, 3, 224, 224))[:-2]  # it has other classes
    assert sorted(found) == sorted(expected)


def test_transformer_keeps_the_shape_of_its_input():
    assert transformer_encoder(layers=2).infer_shape(data=(3, 7, 512))[1] == [(3, 7, 512)]
