# SPDX-License-Identifier: Apache-2.0
"""Recurrent cells and layers: values, gradients and names are those of MXNet 1.9.1 (`tests/oracle/gluon/rnn.json`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mx_gluon import HybridBlock, rnn
from mx_ndarray import autograd, nd
from mx_symbol import sym

pytestmark = pytest.mark.timeout(60)
RECORD = json.loads((Path(__file__).parents[3] / "tests/oracle/gluon/rnn.json").read_text())
NAMES: dict[str, Any] = {"rnn": rnn}
exec(RECORD["stacks"], NAMES)
CASES = [
    pytest.param(make, way, id=f"{make[:60]}-{way}")
    for make, ways in RECORD["cells"].items()
    for way, recorded in enumerate(ways)
    if recorded is not None
]


def wave(shape: Any, shift: float, scale: float = 1.0) -> Any:
    """Numbers that are different everywhere."""
    places = np.arange(int(np.prod(shape)), dtype="float64")
    return (scale * np.sin(places * 0.61 + places**2 * 1e-3 + shift)).reshape(shape).astype("float32")


def fill(block: Any) -> None:
    for name, parameter in sorted(block.collect_params().items()):
        parameter.set_data(nd.array(wave(parameter.shape, len(name), 0.7)))


def total(value: Any) -> Any:
    """The sum of all numbers, each with a weight of its own."""
    if isinstance(value, (list, tuple)):
        return sum((i + 1) * total(each) for i, each in enumerate(value))
    return (value * nd.array(wave(value.shape, 1.0))).sum()


def compare(found: Any, expected: Any) -> None:
    """Nested lists of arrays with recorded ones."""
    if isinstance(expected, list):
        assert isinstance(found, (list, tuple)) and len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            compare(one, other)
        return
    assert list(found.shape) == expected["shape"]
    np.testing.assert_allclose(found.asnumpy().ravel(), expected["values"], rtol=2e-4, atol=2e-5)


def compare_gradients(block: Any, expected: dict[str, Any]) -> None:
    for name, parameter in block.collect_params().items():
        compare(parameter.grad(), expected[name])


def as_json(value: Any) -> Any:
    return json.loads(json.dumps(value))


class Unrolled(HybridBlock):
    """Steps of a cell within a graph."""

    def __init__(self, cell: Any, options: dict[str, Any]) -> None:
        super().__init__(prefix="")
        self.cell, self._options = cell, options

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        valid = {"valid_length": args[0]} if args else {}
        return self.cell.unroll(4, x, **self._options, **valid)


def unrolled(make: str, way: dict[str, Any], hybridized: bool) -> tuple[Any, Any, Any]:
    cell = eval(make, NAMES)
    layout = way.get("layout", "NTC")
    data = nd.array(wave((2, 4, 3) if layout == "NTC" else (4, 2, 3), 0.5))
    axis = layout.find("T")
    inputs = (
        [data.take(nd.array([i]), axis=axis).squeeze(axis=axis) for i in range(4)]
        if way.get("steps")
        else data
    )
    options = {"layout": layout, "merge_outputs": way["merge_outputs"]}
    more = [nd.array(way["valid"])] if "valid" in way else []
    run: Any = lambda data, valid=None: cell.unroll(4, data, valid_length=valid, **options)
    cell.initialize()
    if hybridized:
        run = Unrolled(cell, options)
        run.hybridize()
    run(inputs, *more)
    fill(cell)
    with autograd.record(train_mode=False):
        outputs, states = run(inputs, *more)
        loss = total([outputs, states]) if states else total(outputs)
    loss.backward()
    return cell, outputs, states


@pytest.mark.parametrize("hybridized", [False, True], ids=["imperative", "hybridized"])
@pytest.mark.parametrize(("make", "number"), CASES)
def test_cells(make: str, number: int, hybridized: bool) -> None:
    way, recorded = RECORD["ways"][number], RECORD["cells"][make][number]
    if hybridized and ("SequentialRNNCell" in make and "Hybrid" not in make):
        return  # a plain chain is no hybrid block
    cell, outputs, states = unrolled(make, way, hybridized)
    assert repr(cell) == recorded["repr"]
    assert sorted(cell.collect_params()) == recorded["names"]
    assert sorted(cell._collect_params_with_prefix()) == recorded["attributes"]
    assert as_json(cell.state_info(7)) == recorded["state_info"]
    compare(outputs, recorded["outputs"])
    compare(states, recorded["states"])
    compare_gradients(cell, recorded["gradients"])


@pytest.mark.parametrize("make", [make for make, found in RECORD["graphs"].items() if found is not None])
def test_graphs_of_cells(make: str) -> None:
    cell = eval(make, NAMES)
    outputs, states = cell.unroll(3, sym.Variable("data"), layout="NTC", merge_outputs=True)
    made = sym.Group([outputs, *states])
    assert made.list_arguments() == RECORD["graphs"][make]["arguments"]
    assert len(made.list_outputs()) == len(RECORD["graphs"][make]["outputs"])


@pytest.mark.parametrize("given", [False, True], ids=["begun", "states"])
@pytest.mark.parametrize("hybridized", [False, True], ids=["imperative", "hybridized"])
@pytest.mark.parametrize("make", RECORD["layers"])
def test_layers(make: str, hybridized: bool, given: bool) -> None:
    recorded = RECORD["layers"][make][given]
    layer = eval(make, NAMES)
    data = nd.array(wave((4, 2, 3) if layer._layout == "TNC" else (2, 4, 3), 0.5))
    layer.initialize()
    layer.hybridize(hybridized)
    layer(data)
    fill(layer)
    states = [nd.array(wave(info["shape"], 2.0)) for info in layer.state_info(2)]
    with autograd.record(train_mode=False):
        found = layer(data, states) if given else layer(data)
        loss = total([found[0], list(found[1])] if given else found)
    loss.backward()
    assert repr(layer) == recorded["repr"]
    assert list(layer.collect_params()) == recorded["names"]
    assert sorted(layer._collect_params_with_prefix()) == recorded["attributes"]
    assert as_json(layer.state_info(7)) == recorded["state_info"]
    compare(found, recorded["found"])
    if recorded["gradients"] is not None:
        compare_gradients(layer, recorded["gradients"])
