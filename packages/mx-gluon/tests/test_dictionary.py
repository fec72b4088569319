# SPDX-License-Identifier: Apache-2.0
"""ParameterDict: making, sharing, files, and what it refuses."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mx_core import cpu
from mx_core.errors import FileFormatError
from mx_gluon import Constant, Parameter, ParameterDict
from mx_gluon.errors import RefusedError
from mx_ndarray import nd
from mx_train import initializer


def pair() -> ParameterDict:
    params = ParameterDict("net_")
    params.get("weight", shape=(2, 3))
    params.get("bias", shape=(2,), init="zeros")
    return params


class TestMaking:
    def test_same_again(self) -> None:
        params = pair()
        weight = params.get("weight", shape=(2, 0), dtype="float32", grad_req="write")
        assert weight is params["net_weight"]
        assert weight.shape == (2, 3)

    def test_shape_is_completed(self) -> None:
        params = ParameterDict()
        params.get("w", shape=(2, 0))
        assert params.get("w", shape=(0, 3)).shape == (2, 3)

    def test_attribute_without_a_value_is_set(self) -> None:
        params = ParameterDict()
        params.get("w")
        assert params.get("w", shape=(2,), init="ones").init == "ones"

    @pytest.mark.parametrize(
        "key, value, told",
        [
            ("shape", (2, 4), "expected (2, 3), got (2, 4)"),
            ("dtype", "float16", "got 'float16'"),
            ("grad_req", "add", "expected 'write', got 'add'"),
            ("lr_mult", 2.0, "expected 1.0, got 2.0"),
        ],
    )
    def test_contradictions(self, key: str, value: object, told: str) -> None:
        with pytest.raises(
            AssertionError, match=rf"\[ParameterDict\] 'net_weight': {key}: .*{re.escape(told)}"
        ):
            pair().get("weight", **{key: value})

    def test_shared(self) -> None:
        first = pair()
        second = ParameterDict("net_", first)
        assert second.get("weight", shape=(2, 3)) is first["net_weight"]
        assert list(second) == ["net_weight"]
        assert second.get("other") is not None
        assert "net_other" not in first

    def test_constants(self) -> None:
        params = ParameterDict("n_")
        made = params.get_constant("c", np.array([1.0, 2.0]))
        assert isinstance(made, Constant)
        assert params.get_constant("c") is params.get_constant("c", [1, 2]) is made
        with pytest.raises(RefusedError, match="constant 'n_c' has another value"):
            params.get_constant("c", [1, 3])
        with pytest.raises(KeyError, match="no constant named 'n_d'"):
            params.get_constant("d")
        params.get("w")
        with pytest.raises(RefusedError, match="'n_w' is a Parameter, not a Constant"):
            params.get_constant("w", [1])

    def test_update(self) -> None:
        params = pair()
        params.update(params)
        other = ParameterDict("net_")
        other.get("new")
        other.get("bias")
        with pytest.raises(AssertionError, match="two parameters are called 'net_bias'"):
            params.update(other)
        assert list(params) == ["net_weight", "net_bias"]

    def test_text(self) -> None:
        assert repr(ParameterDict()) == "(\n\n)"
        assert repr(pair()).splitlines()[0::3] == ["net_ (", ")"]


def test_all_at_once() -> None:
    params = pair()
    params.initialize("ones", ctx=[cpu(0), cpu(1)])
    assert set(params.list_ctx()) == {cpu(0), cpu(1)}
    params.setattr("lr_mult", 0.5)
    assert [param.lr_mult for param in params.values()] == [0.5, 0.5]
    for param in params.values():
        for grad in param.list_grad():
            grad[:] = 3
    params.zero_grad()
    assert all(grad.sum().asscalar() == 0 for param in params.values() for grad in param.list_grad())
    params.reset_ctx(cpu(1))
    assert params.list_ctx() == [cpu(1)]
    assert params["net_bias"].data().asnumpy().tolist() == [0, 0]


@pytest.mark.parametrize(
    "init", ["xavier", initializer.Xavier(), initializer.Mixed([".*"], [initializer.One()])]
)
def test_verbose(init: Any, caplog: pytest.LogCaptureFixture) -> None:
    params = ParameterDict()
    params.get("weight", shape=(2, 2))
    with caplog.at_level(logging.INFO):
        params.initialize(init, verbose=True)
    told = "Initialized weight as" in caplog.text
    assert (
        told == (not isinstance(init, initializer.Mixed)) and abs(params["weight"].data().asnumpy()).sum() > 0
    )


class TestFiles:
    def saved(self, folder: Path) -> Path:
        params = pair()
        params.initialize("ones")
        params.save(folder / "p.params", strip_prefix="net_")
        return folder / "p.params"

    def test_round_trip(self, tmp_path: Path) -> None:
        path = self.saved(tmp_path)
        assert list(nd.load(path)) == ["weight", "bias"]
        params = pair()
        params.load(path, restore_prefix="net_", ctx=[cpu(0), cpu(1)])
        assert params["net_weight"].data(cpu(1)).sum().asscalar() == 6

    def test_wrong_prefixes(self, tmp_path: Path) -> None:
        params = pair()
        params.initialize()
        with pytest.raises(ValueError, match="'net_weight' does not begin with strip_prefix 'other_'"):
            params.save(tmp_path / "q.params", strip_prefix="other_")
        with pytest.raises(AssertionError, match="'net_weight' does not begin with 'other_'"):
            params.load(self.saved(tmp_path), restore_prefix="other_")

    def test_names_of_checkpoints(self) -> None:
        params = pair()
        params.load_dict({"arg:net_weight": nd.ones((2, 3)), "aux:net_bias": nd.ones((2,))})
        assert params["net_bias"].data().sum().asscalar() == 2

    def test_missing_and_extra(self) -> None:
        params = pair()
        given = {"net_weight": nd.ones((2, 3)), "more": nd.ones((1,))}
        with pytest.raises(
            AssertionError, match="the dictionary lacks 'net_bias'; it has 'net_weight', 'more'"
        ):
            params.load_dict(given)
        with pytest.raises(AssertionError, match="the dictionary has 'more', which are not parameters here"):
            params.load_dict(given, allow_missing=True)
        params.load_dict(given, allow_missing=True, ignore_extra=True)
        assert params["net_weight"].data().sum().asscalar() == 6

    def test_shapes_types_and_contexts(self) -> None:
        params = ParameterDict()
        params.get("w", shape=(2, 0))
        with pytest.raises(
            AssertionError, match=re.escape("[Parameter w] load: expected shape (2, 0), got (3, 1)")
        ):
            params.load_dict({"w": nd.ones((3, 1))})
        half = {"w": nd.ones((2, 2), dtype="float16")}
        with pytest.raises(
            AssertionError, match=r"expected float32, got float16; cast_dtype=True accepts both"
        ):
            params.load_dict(half)
        params.load_dict(half, cast_dtype=True)
        assert params["w"].data().dtype is np.float32
        params.load_dict(half, cast_dtype=True, dtype_source="saved")
        assert params["w"].data().dtype is np.float16
        with pytest.raises(
            AssertionError, match=r"asked for \[cpu\(1\)\], but the parameter was initialised on \[cpu\(0\)\]"
        ):
            params.load_dict(half, ctx=cpu(1), cast_dtype=True)
        with pytest.raises(AssertionError, match="dtype_source: expected 'current' or 'saved', got 'both'"):
            params.load_dict(half, cast_dtype=True, dtype_source="both")

    def test_parameter_that_waits_goes_where_it_was_to_be(self) -> None:
        params = ParameterDict()
        param = params.get("w", shape=(0,), allow_deferred_init=True)
        param.initialize(ctx=[cpu(0), cpu(1)])
        params.load_dict({"w": nd.ones((3,))})
        assert param.list_ctx() == [cpu(0), cpu(1)]
        assert param.data(cpu(1)).shape == (3,)

    def test_many_names_are_cut_short(self) -> None:
        params = ParameterDict()
        for i in range(20):
            params.get(f"w{i}")
        with pytest.raises(
            AssertionError, match="lacks 'w0', 'w1', 'w2', …, 'w17', 'w18', 'w19'; it has 'x'"
        ):
            params.load_dict({"x": nd.ones((1,))})

    def test_damaged_file(self, tmp_path: Path) -> None:
        path = self.saved(tmp_path)
        path.write_bytes(path.read_bytes()[:-5])
        with pytest.raises(FileFormatError, match="p.params"):
            pair().load(path, restore_prefix="net_")

    def test_file_without_names(self, tmp_path: Path) -> None:
        nd.save(tmp_path / "list.params", [nd.ones((1,))])
        with pytest.raises(RefusedError, match="list.params: expected named arrays, got list"):
            pair().load(tmp_path / "list.params")


def test_parameters_are_keys_of_dicts() -> None:
    param = Parameter("w")
    assert {param: 1}[param] == 1
