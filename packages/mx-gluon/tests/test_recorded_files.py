# SPDX-License-Identifier: Apache-2.0
"""Files of blocks: those of MXNet 1.9.1 are read, and the same bytes are written (`tests/oracle/gluon`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mx_gluon import SymbolBlock, nn
from mx_ndarray import nd
from mx_symbol import NameManager
from testkit.gluon_record import FOLDER, arrays

pytestmark = pytest.mark.timeout(60)
DATA = arrays("files/")


def network() -> Any:
    with NameManager():
        net = nn.HybridSequential(prefix="f_")
        with net.name_scope():
            first = nn.Dense(3, in_units=3, activation="relu")
            net.add(
                nn.Conv2D(2, 3, activation="relu"), nn.BatchNorm(), nn.MaxPool2D(), nn.Flatten(), nn.Dense(3)
            )
            net.add(first, nn.Dense(3, params=first.params), nn.Dropout(0.5), nn.Dense(2))
    return net


def computes_the_same(net: Any) -> None:
    np.testing.assert_allclose(net(nd.array(DATA["x"])).asnumpy(), DATA["out"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["net.params", "once.params", "named.params"])
def test_reads_parameters(name: str) -> None:
    net = network()
    net.load_parameters(FOLDER / name)
    computes_the_same(net)
    net.hybridize()
    computes_the_same(net)


def test_parameters_of_an_initialised_block_are_replaced() -> None:
    net = network()
    net.initialize()
    net.hybridize()
    net(nd.array(DATA["x"]))
    net.load_parameters(FOLDER / "net.params")
    computes_the_same(net)


def test_imports_an_exported_graph() -> None:
    net = SymbolBlock.imports(str(FOLDER / "net-symbol.json"), ["data"], str(FOLDER / "net-0000.params"))
    computes_the_same(net)


def test_loads_a_saved_model() -> None:
    net = network()
    net.load(str(FOLDER / "net"))
    computes_the_same(net)


def test_a_loaded_model_has_the_saved_names_and_can_be_traced_again(tmp_path: Path) -> None:
    saved = nn.HybridSequential(prefix="saved_")
    with saved.name_scope():
        saved.add(nn.Dense(2, in_units=3), nn.BatchNorm(in_channels=2))
    saved.initialize()
    saved.save(str(tmp_path / "m"))
    net = nn.HybridSequential(prefix="fresh_")
    with net.name_scope():
        net.add(nn.Dense(2, in_units=3), nn.BatchNorm(in_channels=2))
    net.load(str(tmp_path / "m"))
    assert list(net.collect_params()) == list(saved.collect_params())
    assert [param.name for param in net.collect_params().values()] == list(saved.collect_params())
    net.hybridize()
    x = nd.array([[1, 2, 3]])
    np.testing.assert_allclose(net(x).asnumpy(), saved(x).asnumpy(), rtol=1e-6)


def test_writes_the_same_bytes(tmp_path: Path) -> None:
    net = network()
    net.load_parameters(FOLDER / "net.params")
    net.hybridize()
    net(nd.array(DATA["x"]))
    net.save_parameters(tmp_path / "net.params")
    net.save_parameters(tmp_path / "once.params", deduplicate=True)
    net.collect_params().save(tmp_path / "named.params", strip_prefix="f_")
    net.export(str(tmp_path / "net"))
    for name in ("net.params", "once.params", "named.params", "net-0000.params"):
        assert (tmp_path / name).read_bytes() == (FOLDER / name).read_bytes(), name


def graph(text: str) -> Any:
    """A graph without what depends on who wrote it: versions of mxnet and of variables, counts of outputs."""
    found = json.loads(text)
    nodes = [{**node, "inputs": [each[:2] for each in node["inputs"]]} for node in found["nodes"]]
    return [nodes, found["arg_nodes"], [head[:2] for head in found["heads"]]]


def test_exports_the_same_graph(tmp_path: Path) -> None:
    net = network()
    net.initialize()
    net.hybridize()
    net(nd.array(DATA["x"]))
    net.export(str(tmp_path / "net"))
    assert graph((tmp_path / "net-symbol.json").read_text()) == graph(
        (FOLDER / "net-symbol.json").read_text()
    )


def test_describes_the_same_model(tmp_path: Path) -> None:
    net = network()
    net.initialize()
    net(nd.array(DATA["x"]))
    net.hybridize()
    net(nd.array(DATA["x"]))
    net.save(str(tmp_path / "net"))
    own, theirs = (json.loads((where / "net-model.json").read_text()) for where in (tmp_path, FOLDER))

    def compare(one: Any, other: Any) -> None:
        assert one.keys() == other.keys()
        for key in one:
            if isinstance(one[key], dict) and key != "children":
                compare(one[key], other[key])
            elif key == "symbol":
                assert graph(one[key]) == graph(other[key])
            elif key != "inputs":
                assert one[key] == other[key], key

    compare(own, theirs)


def test_summary(capsys: pytest.CaptureFixture[str]) -> None:
    net = network()
    net.load_parameters(FOLDER / "net.params")
    net.summary(nd.array(DATA["x"]))
    assert capsys.readouterr().out == (FOLDER / "summary.txt").read_text()
