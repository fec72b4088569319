# SPDX-License-Identifier: Apache-2.0
"""Initializers fill as those of MXNet 1.9.1 did: endings of names, attributes, fans, bounds, patterns, logs."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mx_ndarray import NDArray, nd
from mx_train import initializer as init
from mx_train.initializer import fill as fills
from testkit.oracle import ORACLE

CASES = json.loads((ORACLE / "training" / "initializers.json").read_text())


class Own(init.Initializer):
    """One of a program."""

    def _init_weight(self, name: str, arr: NDArray) -> None:
        arr[:] = 20

    def _init_bias(self, name: str, arr: NDArray) -> None:
        arr[:] = 21

    def _init_gamma(self, name: str, arr: NDArray) -> None:
        arr[:] = 22

    def _init_beta(self, name: str, arr: NDArray) -> None:
        arr[:] = 23

    def _init_default(self, name: str, arr: NDArray) -> None:
        arr[:] = 24


def made(argument: Any) -> Any:
    if isinstance(argument, list):
        return [made(each) for each in argument]
    if not isinstance(argument, dict):
        return argument
    if "array" in argument:
        return nd.array(argument["array"])
    if "init" not in argument:
        return {name: made(value) for name, value in argument.items()}
    name, settings = argument["init"]
    kind = Own if name == "Own" else getattr(init, name)
    return kind(**{key: made(value) for key, value in settings.items()})


def second(first: float, parameter: float, *, out: NDArray, **kwargs: Any) -> None:
    """In the place of a draw, as in the recorder: the second parameter of the distribution."""
    out[:] = parameter


def filled(maker: Any, name: str, shape: list[int], attrs: Any = None) -> Any:
    array = nd.full(tuple(shape), 7.0)
    maker(name if attrs == "plain" else init.InitDesc(name, attrs), array)
    values = array.asnumpy()
    if isinstance(maker, init.Orthogonal) and name.endswith("weight"):
        rows = values.reshape(shape[0], -1).astype(np.float64)
        return (rows @ rows.T if len(rows) <= rows.shape[1] else rows.T @ rows).ravel()
    return values.ravel()


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_arrays_are_filled_as_in_mxnet(
    case: dict[str, Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    if not case["id"].startswith("orthogonal"):
        monkeypatch.setattr(fills, "random", SimpleNamespace(uniform=second, normal=second))
    make = made if isinstance(case["make"], dict) else init.create
    if "refused" in case or (case["calls"] and all(isinstance(found, str) for found in case["found"])):
        with pytest.raises(Exception, match="."):
            filled(make(case["make"]), *case["calls"][0])
        return
    maker = make(case["make"])
    if case.get("verbose"):
        caplog.set_level("INFO")
        maker.set_verbosity(True)
    for call, expected in zip(case["calls"], case["found"], strict=True):
        if isinstance(expected, str):
            with pytest.raises(Exception, match="."):
                filled(maker, *call)
        else:
            np.testing.assert_allclose(filled(maker, *call), expected, 1e-5, 1e-4, err_msg=str(call))
    assert caplog.messages == case.get("log", [])
    if "dumps" in case:
        assert json.loads(maker.dumps()) == json.loads(case["dumps"])
