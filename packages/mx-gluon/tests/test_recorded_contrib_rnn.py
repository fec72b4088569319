# SPDX-License-Identifier: Apache-2.0
"""Recurrent cells of contrib: names, shapes, texts, outputs and gradients as MXNet 1.9.1 has them (`tests/oracle/gluon`)."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
import pytest

from mx_gluon import nn, rnn
from mx_gluon.block import HybridBlock
from mx_gluon.contrib import rnn as crnn
from mx_ndarray import autograd, nd
from mx_symbol import NameManager
from mx_train import initializer
from testkit.gluon_record import FOLDER

pytestmark = pytest.mark.timeout(60)
RECORD = FOLDER / "contrib_rnn.json"
RECORDED: list[dict[str, Any]] = json.loads(RECORD.read_text())
CASES = [pytest.param(i, id=case["make"][:60]) for i, case in enumerate(RECORDED)]


@cache
def recorded() -> dict[str, Any]:
    with np.load(RECORD.with_suffix(".npz")) as file:
        return dict(file)


def arrays(number: int) -> dict[str, Any]:
    """The arrays of a case."""
    lead = f"cells/{number}/"
    return {name.removeprefix(lead): value for name, value in recorded().items() if name.startswith(lead)}


def made(case: dict[str, Any]) -> Any:
    with NameManager():
        return eval(case["make"], {"rnn": rnn, "crnn": crnn, "nn": nn})


class Call(HybridBlock):
    """Calls a cell as the recorder does, as a block that may run as a graph."""

    def __init__(self, cell: Any, case: dict[str, Any], shape: tuple[int, ...]) -> None:
        super().__init__(prefix="")
        self.cell = cell
        self._options = case["options"]
        self._axis = self._options.get("layout", "NTC").index("T")
        self._length = shape[self._axis]

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        options, axis, length = self._options, self._axis, self._length
        states, lengths = args
        if options.get("steps"):
            return self.cell(F.squeeze(F.slice_axis(x, axis=axis, begin=0, end=1), axis=axis), states)
        settings = {key: options[key] for key in ("layout", "merge_outputs") if key in options}
        return self.cell.unroll(length, x, begin_state=states, valid_length=lengths, **settings)


def inputs(case: dict[str, Any], data: dict[str, Any], cell: Any) -> list[Any]:
    """Sequences, first states and lengths; None where the recorder gives none."""
    options = case["options"]
    x = nd.array(data["x"])
    x.attach_grad()
    states: Any = None
    if options.get("states"):
        states = [nd.array(data[f"state{i}"]) for i in range(len(cell.state_info()))]
        for state in states:
            state.attach_grad()
    elif options.get("steps"):
        states = cell.begin_state(batch_size=len(data["x"]))
    return [x, states, nd.array(options["lengths"]) if "lengths" in options else None]


@pytest.mark.parametrize("number", CASES)
def test_names_shapes_and_texts(number: int) -> None:
    case, data = RECORDED[number], arrays(number)
    cell = made(case)
    assert cell.prefix == case["prefix"]
    assert repr(cell) == case["before"]
    assert [{k: str(v) for k, v in info.items()} for info in cell.state_info(2)] == case["states"]
    assert {name: list(param.shape) for name, param in cell.collect_params().items()} == case["unknown"]
    cell.initialize(initializer.Constant(0.5))
    Call(cell, case, data["x"].shape)(*inputs(case, data, cell))
    params = cell.collect_params()
    assert {name: list(param.shape) for name, param in params.items()} == case["shapes"]
    assert list(params) == list(case["shapes"])
    for name, param in params.items():
        np.testing.assert_array_equal(param.data().asnumpy(), data["initial/" + name])
    structure = cell._collect_params_with_prefix()
    assert {name: param.name for name, param in structure.items()} == case["structure"]
    assert list(structure) == list(case["structure"])
    assert repr(cell) == case["after"]


@pytest.mark.parametrize("hybridized", [False, True], ids=["imperative", "hybridized"])
@pytest.mark.parametrize("number", CASES)
def test_outputs_and_gradients(number: int, hybridized: bool) -> None:
    case, data = RECORDED[number], arrays(number)
    cell = made(case)
    call = Call(cell, case, data["x"].shape)
    call.initialize()
    call.hybridize(hybridized)
    given = inputs(case, data, cell)
    call(*given)
    params = cell.collect_params()
    for name, param in params.items():
        param.set_data(nd.array(data["param/" + name]))
    with autograd.record(train_mode="predict" not in case["options"]):
        out, states = call(*given)
        assert isinstance(out, list) == case["listed"]
        whole = nd.stack(*out, axis=call._axis) if isinstance(out, list) else out
    results = [whole, *states]
    for i, each in enumerate(results):
        np.testing.assert_allclose(each.asnumpy(), data[f"out/{i}"], rtol=2e-4, atol=2e-5)
    if "predict" in case["options"]:
        return
    autograd.backward(results, [nd.array(data[f"head/{i}"]) for i in range(len(results))])
    got = {name: param.grad() for name, param in params.items()} | {"x": given[0].grad}
    if case["options"].get("states"):
        got |= {f"state{i}": state.grad for i, state in enumerate(given[1])}
    for name, grad in got.items():
        np.testing.assert_allclose(grad.asnumpy(), data["grad/" + name], rtol=2e-4, atol=2e-5, err_msg=name)


def test_every_cell_has_a_case() -> None:
    told = " ".join(case["make"] for case in RECORDED)
    assert [name for name in crnn.__all__ if f"crnn.{name}(" not in told] == []
