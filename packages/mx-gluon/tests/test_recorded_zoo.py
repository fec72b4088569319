# SPDX-License-Identifier: Apache-2.0
"""The model zoo and experimental layers: structure, parameters and outputs are MXNet's (`tests/oracle/gluon/zoo.json`)."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mx_core.errors import ArgumentError, FileFormatError, MissingFileError
from mx_gluon import SymbolBlock
from mx_gluon.contrib import nn
from mx_gluon.model_zoo import model_store, vision
from mx_ndarray import nd

pytestmark = pytest.mark.timeout(120)
RECORD = json.loads((Path(__file__).parents[3] / "tests/oracle/gluon/zoo.json").read_text())


def described(net: Any) -> dict[str, Any]:
    """What a network looks like: text, parameters with shapes, as numbers that are equal when they are."""
    parameters = [[name, list(p.shape)] for name, p in net._collect_params_with_prefix().items()]
    named = [[name.removeprefix(net.prefix), list(p.shape)] for name, p in net.collect_params().items()]
    text = repr(net)
    return {
        "repr": hashlib.sha1(text.encode()).hexdigest(),
        "lines": text.count("\n"),
        "parameters": hashlib.sha1(json.dumps([parameters, named]).encode()).hexdigest(),
        "count": len(named),
    }


def shaped(net: Any, extent: int = 224) -> Any:
    net.infer_shape(nd.zeros((1, 3, extent, extent)))
    return net


def image(extent: int) -> Any:
    places = np.arange(3 * extent * extent, dtype="float64")
    return np.sin(places * 0.37 + places**2 * 1e-5).reshape(1, 3, extent, extent).astype("float32")


def fill(net: Any) -> None:
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


@pytest.mark.parametrize("name", RECORD["networks"])
def test_structure_and_parameters(name: str) -> None:
    net = shaped(vision.get_model(name), 299 if name == "inceptionv3" else 224)
    assert described(net) == RECORD["networks"][name]
    assert model_store.short_hash(name)


@pytest.mark.parametrize("expression", RECORD["others"])
def test_networks_of_other_sizes(expression: str) -> None:
    assert described(shaped(eval(expression), 64)) == RECORD["others"][expression]


@pytest.mark.long
@pytest.mark.parametrize("expression", RECORD["computed"])
def test_outputs(expression: str, tmp_path: Path) -> None:
    net = eval(expression)
    data = nd.array(image(RECORD["extents"][expression]))
    net.infer_shape(data)
    net.initialize()
    fill(net)
    expected = np.array(RECORD["computed"][expression])
    tolerance = 1e-4 * np.abs(expected).max()
    np.testing.assert_allclose(net(data).asnumpy().ravel(), expected, rtol=0, atol=tolerance)
    net.hybridize()
    np.testing.assert_allclose(net(data).asnumpy().ravel(), expected, rtol=0, atol=tolerance)
    net.export(str(tmp_path / "net"))
    again = SymbolBlock.imports(
        str(tmp_path / "net-symbol.json"), ["data"], str(tmp_path / "net-0000.params")
    )
    np.testing.assert_allclose(again(data).asnumpy().ravel(), expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("expression", RECORD["layers"])
@pytest.mark.parametrize("hybridized", [False, True])
def test_experimental_layers(expression: str, hybridized: bool) -> None:
    made, shape = eval(expression), RECORD["shapes"][expression]
    assert repr(made) == RECORD["layers"][expression]["repr"]
    made.hybridize(hybridized)
    found = made(nd.arange(int(np.prod(shape))).reshape(shape))
    assert found.asnumpy().tolist() == RECORD["layers"][expression]["output"]


@pytest.mark.parametrize("kind", [nn.Concurrent, nn.HybridConcurrent])
def test_blocks_side_by_side(kind: Any) -> None:
    both = kind(axis=1)
    both.add(nn.Identity(), nn.Identity())
    x = nd.arange(6).reshape((2, 3))
    assert both(x).asnumpy().tolist() == [[0, 1, 2, 0, 1, 2], [3, 4, 5, 3, 4, 5]]
    if kind is nn.HybridConcurrent:
        both.hybridize()
        assert both(x).asnumpy().tolist() == [[0, 1, 2, 0, 1, 2], [3, 4, 5, 3, 4, 5]]


def test_what_is_refused() -> None:
    with pytest.raises(ArgumentError) as told:
        vision.get_model("Nothing")
    assert str(told.value) == RECORD["error"]
    with pytest.raises(AssertionError, match=r"expected one of \[18, 34, 50, 101, 152\], got 20"):
        vision.get_resnet(1, 20)
    with pytest.raises(AssertionError, match="version: expected 1 or 2, got 3"):
        vision.get_resnet(3, 18)
    with pytest.raises(AssertionError, match="expected 3 numbers, one more than layers"):
        vision.ResNetV1(vision.BasicBlockV1, [1, 1], [8, 8])
    with pytest.raises(AssertionError, match=r"expected 1.0 or 1.1, got '2.0'"):
        vision.SqueezeNet("2.0")
    with pytest.raises(ArgumentError, match="num_layers"):
        vision.get_vgg(12)
    with pytest.raises(ArgumentError, match="filters: expected 2 numbers"):
        vision.VGG([1, 1], [8])
    with pytest.raises(AssertionError, match="a number or 2 numbers"):
        nn.PixelShuffle2D((1, 2, 3))


def test_trained_parameters_are_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MXNET_HOME", str(tmp_path))
    file = tmp_path / "models" / "squeezenet1.1-33ba0f93.params"
    with pytest.raises(MissingFileError, match=f"{file} is not there: nothing here opens a network"):
        vision.squeezenet1_1(pretrained=True)
    file.parent.mkdir()
    net = vision.squeezenet1_1()
    net.initialize()
    net(nd.zeros((1, 3, 224, 224)))
    net.save_parameters(str(file))
    with pytest.raises(
        FileFormatError, match="expected the SHA-1 checksum 33ba0f93753c83d86e1eb397f38a667eaf2e9376, got"
    ):
        vision.get_model("squeezenet1.1", pretrained=True)
    checksum = hashlib.sha1(file.read_bytes()).hexdigest()
    monkeypatch.setitem(model_store._SHA1, "squeezenet1.1", checksum)
    file = file.rename(file.with_name(f"squeezenet1.1-{checksum[:8]}.params"))
    again = vision.squeezenet1_1(pretrained=True)
    data = nd.array(image(224))
    assert (again(data).asnumpy() == net(data).asnumpy()).all()
    assert vision.get_model("SqueezeNet1.1", pretrained=True, root=file.parent)(data).shape == (1, 1000)
    model_store.purge()
    assert not file.exists()
    with pytest.raises(ArgumentError, match="Pretrained model for resnet20 is not available"):
        model_store.get_model_file("resnet20")
