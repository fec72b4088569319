# SPDX-License-Identifier: Apache-2.0
import json
import math

import numpy as np
import pytest

from mx_core.errors import ArgumentError
from mx_ndarray import nd
from mx_train import initializer as init


def filled(made: init.Initializer, name: str, shape: tuple[int, ...]) -> np.ndarray:
    array = nd.full(shape, 7.0)
    made(init.InitDesc(name), array)
    return array.asnumpy()


def test_endings_decide() -> None:
    made = init.Xavier()
    assert (filled(made, "fc_bias", (4,)) == 0).all()
    assert (filled(made, "bn_gamma", (4,)) == 1).all()
    assert (filled(made, "bn_beta", (4,)) == 0).all()
    assert (filled(made, "bn_moving_var", (4,)) == 1).all()
    with pytest.raises(ArgumentError, match="ends in none of"):
        filled(made, "mystery", (4,))


@pytest.mark.parametrize("kind", ["uniform", "gaussian"])
def test_xavier_variance(kind: str) -> None:
    values = filled(init.Xavier(kind, "in", 3), "c_weight", (64, 32, 3, 3))
    scale = math.sqrt(3 / (32 * 9))
    expected = scale / math.sqrt(3) if kind == "uniform" else scale
    assert values.std() == pytest.approx(expected, rel=0.05)
    assert abs(values.mean()) < expected / 20


def test_orthogonal() -> None:
    q = filled(init.Orthogonal(scale=1.0), "r_weight", (4, 9))
    np.testing.assert_allclose(q @ q.T, np.eye(4), atol=1e-5)


def test_attribute_overrides() -> None:
    array = nd.zeros((3,))
    init.Uniform()(init.InitDesc("x", {"__init__": json.dumps(["constant", {"value": 5}])}), array)
    assert (array.asnumpy() == 5).all()


def test_dumps_and_create_round_trip() -> None:
    made = init.create(init.Xavier("gaussian", "out", 2).dumps())
    assert isinstance(made, init.Xavier) and made.magnitude == 2


def test_load_and_mixed() -> None:
    array = nd.zeros((2,))
    init.Load({"arg:a": nd.ones((2,))})("a", array)
    assert (array.asnumpy() == 1).all()
    with pytest.raises(ArgumentError, match="expected shape"):
        init.Load({"a": nd.ones((3,))})("a", array)
    init.Mixed(["b.*", ".*"], [init.One(), init.Zero()])("c_weight", array)
    assert (array.asnumpy() == 0).all()
