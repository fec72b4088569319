# SPDX-License-Identifier: Apache-2.0
"""Parameter and Constant: first values, contexts, gradients, types, and what they refuse."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mx_core import Context, cpu
from mx_core.errors import ArgumentError, MXNetError
from mx_gluon import Constant, DeferredInitializationError, Parameter, ParameterDict, Trainer
from mx_gluon.errors import RefusedError
from mx_ndarray import autograd, nd
from mx_symbol.graph.shape_mode import np_shape
from mx_train import initializer


def ready(contexts: Any = None, **kwargs: Any) -> Parameter:
    param = Parameter("w", shape=(2, 3), **kwargs)
    param.initialize(init="ones", ctx=contexts)
    return param


def says(text: str) -> str:
    return re.escape(text)


class TestFirstValues:
    def test_own_initializer_goes_before_the_default_and_the_given_one_before_it(self) -> None:
        for own, given, expected in ((None, None, 5), ("ones", None, 1), ("ones", "zeros", 0)):
            param = Parameter("w", shape=(2,), init=own)
            param.initialize(init=given, default_init=initializer.Constant(5))
            assert param.data().asnumpy().tolist() == [expected] * 2

    def test_initializer_does_not_look_at_the_name(self) -> None:
        param = Parameter("some_bias", shape=(2,), init="ones")
        param.initialize()
        assert param.data().asnumpy().tolist() == [1, 1]

    @pytest.mark.parametrize(
        "chosen",
        [initializer.Mixed([".*"], [initializer.One()]), initializer.Load({"w_weight": nd.ones((2,))})],
    )
    def test_initializers_that_choose_by_name(self, chosen: Any) -> None:
        param = Parameter("w_weight", shape=(2,))
        param.initialize(default_init=chosen)
        assert param.data().asnumpy().tolist() == [1, 1]

    def test_waits_for_its_shape(self) -> None:
        param = Parameter("w", shape=(2, 0), allow_deferred_init=True)
        param.initialize("ones", ctx=[cpu(0), cpu(1)])
        assert param.list_ctx() == [cpu(0), cpu(1)]
        with pytest.raises(
            DeferredInitializationError, match=says("[Parameter w] has no values yet: its shape (2, 0)")
        ):
            param.data(cpu(0))
        param.shape = (2, 3)
        param._finish_deferred_init()
        assert param.data(cpu(1)).asnumpy().tolist() == [[1] * 3] * 2
        assert param.shape == (2, 3)

    def test_values_that_are_set_while_it_waits(self) -> None:
        param = Parameter("w", shape=(2, 0), allow_deferred_init=True)
        param.initialize()
        param.set_data(np.full((2, 2), 3.0))
        param._finish_deferred_init()
        assert param.data().asnumpy().tolist() == [[3, 3], [3, 3]]

    def test_unknown_shape(self) -> None:
        with pytest.raises(
            ArgumentError, match=says("[Parameter w] cannot be initialised: unknown shape (2, 0)")
        ):
            Parameter("w", shape=(2, 0)).initialize()
        param = Parameter("w", allow_deferred_init=True)
        param.initialize()
        with pytest.raises(AssertionError, match="unknown shape None"):
            param._finish_deferred_init()

    def test_again(self) -> None:
        param = ready()
        with pytest.warns(UserWarning, match=r"\[Parameter w\] has values already"):
            param.initialize("zeros")
        assert param.data().sum().asscalar() == 6
        param.initialize("zeros", force_reinit=True)
        assert param.data().sum().asscalar() == 0

    def test_recording_does_not_record_it(self) -> None:
        with autograd.record():
            param = ready()
            loss = (param.data() * 2).sum()
        loss.backward()
        assert param.grad().asnumpy().tolist() == [[2] * 3] * 2


class TestContexts:
    def test_copies(self) -> None:
        param = ready([cpu(0), cpu(1)])
        assert [array.context for array in param.list_data()] == [cpu(0), cpu(1)]
        assert [array.context for array in param.list_grad()] == [cpu(0), cpu(1)]
        with cpu(1):
            assert param.data().context == param.grad().context == cpu(1)
        assert param.data(Context("cpu_pinned", 1)).context == cpu(1)

    def test_other_context(self) -> None:
        with pytest.raises(
            MXNetError, match=says("[Parameter w] is not on cpu(2); it was initialised on [cpu(0), cpu(1)]")
        ):
            ready([cpu(0), cpu(1)]).data(cpu(2))

    @pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
    def test_the_mean_of_16_bits_neither_overflows_nor_rounds(self, dtype: str, tmp_path: Path) -> None:
        params = ParameterDict()
        param = params.get("w", shape=(200,), dtype=dtype)
        param.initialize(ctx=[cpu(0), cpu(1), cpu(2)])
        param.set_data(nd.array(np.linspace(-6e4, 6e4, 200)))
        before = param.data(cpu(1)).astype("float32").asnumpy()
        params.save(tmp_path / "p")
        np.testing.assert_array_equal(nd.load(tmp_path / "p")["w"].astype("float32").asnumpy(), before)
        param.reset_ctx(cpu(0))
        np.testing.assert_array_equal(param.data().astype("float32").asnumpy(), before)

    def test_moves_the_mean(self) -> None:
        param = ready([cpu(0), cpu(1)])
        param.data(cpu(1))[:] = 3
        param.reset_ctx(cpu(2))
        assert param.list_ctx() == [cpu(2)]
        assert param.data().asnumpy().tolist() == [[2] * 3] * 2

    def test_moves_before_it_has_values(self) -> None:
        param = Parameter("w", shape=(0,), allow_deferred_init=True)
        param.initialize()
        param.reset_ctx([cpu(1)])
        assert param.list_ctx() == [cpu(1)]
        with pytest.raises(ValueError, match=r"was not initialised: call initialize\(\)"):
            Parameter("v", shape=(1,)).reset_ctx(cpu())

    @pytest.mark.parametrize("contexts", [[], "cpu", [cpu(), 1]])
    def test_no_contexts(self, contexts: Any) -> None:
        with pytest.raises(
            ArgumentError, match=says(f"ctx: expected a Context or several, got {contexts!r}")
        ):
            Parameter("w", shape=(2,)).initialize(ctx=contexts)

    def test_not_initialised(self) -> None:
        param = Parameter("w", shape=(2,))
        for ask in (param.data, param.grad, param.list_data, param.list_grad, param.list_ctx):
            with pytest.raises(
                RuntimeError, match=r"\[Parameter w\] was not initialised: call initialize\(\)"
            ):
                ask()
        with pytest.raises(AssertionError, match=r"was not initialised: call initialize\(\)"):
            param.set_data(nd.ones((2,)))


class TestGradients:
    def test_requests(self) -> None:
        param = ready()
        for request, expected in (("add", 2), ("write", 1)):
            param.grad_req = request
            param.zero_grad()
            for _ in range(2):
                with autograd.record():
                    loss = param.data().sum()
                loss.backward()
            assert param.grad().asnumpy().tolist() == [[expected] * 3] * 2

    def test_none(self) -> None:
        param = ready(grad_req="null")
        with pytest.raises(MXNetError, match=r"\[Parameter w\] has no gradient: grad_req is 'null'"):
            param.grad()
        param.grad_req = "write"
        assert param.grad().shape == (2, 3)
        param.grad_req = "null"
        with pytest.raises(MXNetError, match="has no gradient"):
            param.list_grad()
        param.zero_grad()

    def test_not_differentiable(self) -> None:
        param = Parameter("mean", shape=(2,), differentiable=False)
        param.grad_req = "write"
        assert param.grad_req == "null"

    def test_wrong_request(self) -> None:
        with pytest.raises(
            AssertionError, match="grad_req: expected one of 'write', 'add', 'null', got 'sum'"
        ):
            ready(grad_req="sum")


class TestTypesAndShapes:
    @pytest.mark.parametrize("dtype", ["float16", "float64", np.float16, "bfloat16"])
    def test_cast(self, dtype: Any) -> None:
        param = ready([cpu(0), cpu(1)])
        param.cast(dtype)
        assert {np.dtype(array.dtype) for array in (*param.list_data(), *param.list_grad())} == {
            np.dtype(nd.ones((1,), dtype=dtype).dtype)
        }
        with autograd.record():
            loss = param.data(cpu(1)).sum()
        loss.backward()
        assert param.grad(cpu(1)).asnumpy().astype("float32").tolist() == [[1] * 3] * 2

    def test_cast_before_values(self) -> None:
        param = Parameter("w", shape=(2,))
        param.dtype = "float64"
        param.initialize()
        assert param.data().dtype is np.float64

    def test_unknown_type(self) -> None:
        with pytest.raises(TypeError, match=r"\[Parameter w\] cast"):
            ready().cast("float7")

    def test_shape_in_both_modes(self) -> None:
        param = Parameter("w", shape=(2, 0))
        assert param.shape == (2, 0)
        with np_shape():
            assert param.shape == (2, -1)
            assert Parameter("v", shape=(-1, 2)).shape == (-1, 2)
        assert Parameter("w", shape=3).shape == (3,)

    @pytest.mark.parametrize("shape", [(3, 3), (2,), (2, 3, 1)])
    def test_known_shape_stays(self, shape: tuple[int, ...]) -> None:
        param = Parameter("w", shape=(2, 0))
        with pytest.raises(AssertionError, match=says(f"[Parameter w] shape: expected (2, 0), got {shape}")):
            param.shape = shape

    def test_no_shape(self) -> None:
        with pytest.raises(ArgumentError, match=r"shape: expected integers, got \(2, 'x'\)"):
            Parameter("w", shape=(2, "x"))  # type: ignore[arg-type]

    def test_set_data(self) -> None:
        param = ready([cpu(0), cpu(1)])
        param.set_data(nd.full((2, 3), 4))
        assert [array.asnumpy().max() for array in param.list_data()] == [4, 4]
        with pytest.raises(RefusedError, match=says("expected (2, 3), got (3, 2)")):
            param.set_data(nd.ones((3, 2)))

    @pytest.mark.parametrize("what", ["stype", "grad_stype"])
    def test_storage_types(self, what: str) -> None:
        for kind in ("row_sparse", "csr"):
            with pytest.raises(
                ArgumentError, match=says(f"[Parameter w] {what}: expected 'default', got '{kind}'; arrays")
            ):
                Parameter("w", **{what: kind})  # type: ignore[arg-type]
        with pytest.raises(
            AssertionError, match=f"{what}: expected one of 'default', 'row_sparse', 'csr', got 'coo'"
        ):
            Parameter("w", **{what: "coo"})  # type: ignore[arg-type]
        for ask in (ready().row_sparse_data, ready().list_row_sparse_data):
            with pytest.raises(RuntimeError, match="storage type is 'default'"):
                ask(nd.array([0]))

    def test_variable(self) -> None:
        made = Parameter("w", shape=(2, 0), lr_mult=0.5, init="ones").var()
        attributes = made.list_attr()
        assert (made.name, attributes["__shape__"], attributes["__lr_mult__"]) == ("w", "(2, 0)", "0.5")
        assert attributes["__init__"] == "ones"


def test_the_trainer_has_mxnets_name() -> None:
    param = ready()
    assert param._trainer is None
    first = Trainer([param], "sgd")
    assert param._trainer is first
    second = Trainer([param], "sgd")
    assert param._trainer is second
    param._set_trainer(first)
    assert param._trainer is first
    param._set_trainer(None)
    assert param._trainer is None


class TestConstant:
    def test_value(self) -> None:
        constant = Constant("c", [[1, 2], [3, 4]])
        constant.initialize(ctx=[cpu(0), cpu(1)])
        assert constant.data(cpu(1)).asnumpy().tolist() == [[1, 2], [3, 4]]
        assert constant.grad_req == "null"
        assert repr(constant) == "Constant c (shape=(2, 2), dtype=<class 'numpy.float32'>)"

    def test_request(self) -> None:
        constant = Constant("c", nd.ones((2,)))
        with pytest.warns(UserWarning, match=r"\[Constant c\] grad_req: stays 'null', got 'write'"):
            constant.grad_req = "write"
        assert constant.grad_req == "null"


class TestValuesBeforeTheFirstBatch:
    def test_they_are_a_copy_in_the_parameters_type(self) -> None:
        param = Parameter("w", shape=(2, 0), allow_deferred_init=True)
        param.initialize()
        given = nd.ones((2, 3), dtype="float64")
        param.set_data(given)
        given[:] = 5
        param._finish_deferred_init()
        assert param.data().dtype is np.float32
        assert param.data().asnumpy().tolist() == [[1.0] * 3] * 2
