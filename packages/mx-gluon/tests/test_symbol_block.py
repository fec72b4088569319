# SPDX-License-Identifier: Apache-2.0
"""SymbolBlock: parameters from graphs, files, composition, types."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mx_core import cpu
from mx_core.errors import ArgumentError, MXNetError
from mx_gluon import SymbolBlock, nn
from mx_ndarray import autograd, nd
from mx_symbol import sym
from mx_symbol.symbol import Symbol


def graph(name: str = "net") -> Any:
    data = sym.FullyConnected(sym.var("data"), num_hidden=3, name=f"{name}_fc")
    return sym.BatchNorm(data, name=f"{name}_bn", fix_gamma=False)


class TestParameters:
    def test_are_the_other_variables(self) -> None:
        block = SymbolBlock(graph(), sym.var("data"))
        assert list(block.params) == [
            "net_fc_weight", "net_fc_bias", "net_bn_gamma", "net_bn_beta", "net_bn_moving_mean", "net_bn_moving_var",
        ]  # fmt: skip
        assert block.params["net_bn_moving_mean"].grad_req == "null"
        assert "fc_weight" in block._collect_params_with_prefix()
        assert repr(block) == "SymbolBlock(\n<Symbol net_bn> : 1 -> 1\n)"

    def test_shapes_come_with_the_first_batch(self) -> None:
        block = SymbolBlock(graph(), sym.var("data"))
        block.initialize("ones")
        with autograd.record():
            loss = block(nd.array([[1, 2], [5, 3]])).sum()
        loss.backward()
        assert block.params["net_fc_weight"].shape == (3, 2)
        assert block.params["net_bn_beta"].grad().asnumpy().tolist() == [2, 2, 2]

    def test_shared(self) -> None:
        first = SymbolBlock(graph(), sym.var("data"))
        second = SymbolBlock(
            graph().get_internals()["net_fc_output"], sym.var("data"), params=first.collect_params()
        )
        assert second.params["net_fc_weight"] is first.params["net_fc_weight"]

    def test_input_is_a_variable(self) -> None:
        with pytest.raises(
            AssertionError, match=r"inputs: expected variables, got <Symbol relu0>, which is computed"
        ):
            SymbolBlock(graph(), sym.relu(sym.var("data"), name="relu0"))

    def test_sparse_variable(self) -> None:
        weight = sym.var("w", stype="row_sparse")
        with pytest.raises(ArgumentError, match="'w': expected storage type 'default', got 'row_sparse'"):
            SymbolBlock(sym.var("data") * weight, sym.var("data"))

    def test_types(self) -> None:
        block = SymbolBlock(graph(), sym.var("data", dtype="float64"))
        assert block.params["net_fc_weight"].dtype is np.float64
        for dtype in ("float16", "bfloat16"):
            block.cast(dtype)
            assert block.params["net_fc_weight"].dtype == dtype
            assert block.params["net_bn_gamma"].dtype == "float32"

    def test_moves(self) -> None:
        block = SymbolBlock(graph(), sym.var("data"))
        block.initialize()
        block(nd.ones((1, 2)))
        block.reset_ctx(cpu(1))
        assert block(nd.ones((1, 2), ctx=cpu(1))).context == cpu(1)


def test_inputs_that_the_graph_has_not(tmp_path: Path) -> None:
    net = nn.Dense(2, in_units=3, prefix="d_")
    net.initialize()
    net.hybridize()
    net(nd.ones((1, 3)))
    net.export(str(tmp_path / "d"))
    files = [str(tmp_path / name) for name in ("d-symbol.json", "d-0000.params")]
    for names, told in ((["x"], "'x'"), ([], "none"), (["data0", "data1"], "'data0', 'data1'")):
        with pytest.raises(
            AssertionError, match=f"input_names: {told} given, but file .* has no values of 'data'"
        ):
            SymbolBlock.imports(files[0], names, files[1])
    block = SymbolBlock.imports(files[0], ["data", "unused"], files[1])
    with pytest.warns(UserWarning, match="inputs 1 of the HybridBlock are not used"):
        made = block(*[nd.ones((1, 3))] * 2)
    assert np.array_equal(made.asnumpy(), net(nd.ones((1, 3))).asnumpy())


def test_exports_before_it_is_called(tmp_path: Path) -> None:
    block = SymbolBlock(graph(), sym.var("data"))
    block.params["net_fc_weight"].shape = (3, 2)
    for name in ("fc_bias", "bn_gamma", "bn_beta", "bn_moving_mean", "bn_moving_var"):
        block.params[f"net_{name}"].shape = (3,)
    block.initialize()
    block.export(str(tmp_path / "early"))
    assert len(nd.load(str(tmp_path / "early-0000.params"))) == 6


class TestCalls:
    def test_structure_of_inputs(self) -> None:
        block = SymbolBlock(sym.var("a") + sym.var("b"), [sym.var("a"), sym.var("b")])
        for one in (nd.ones((1,)), sym.var("x")):
            with pytest.raises(
                AssertionError, match=r"inputs of the structure \[0, 0\], got \[0, \[0\]\] \(0 is"
            ):
                block(one, [one])
        assert block(nd.ones((1,)), nd.ones((1,)), None).asscalar() == 2
        assert block(sym.var("x"), sym.var("y"), None).list_arguments() == ["x", "y"]

    def test_several_inputs_and_outputs(self) -> None:
        a, b = sym.var("a"), sym.var("b")
        block = SymbolBlock([a + b, a * b], [a, b])
        out = block(nd.array([2]), nd.array([5]))
        assert [each.asscalar() for each in out] == [7, 10]
        with pytest.raises(ArgumentError, match=r"expected 2 arrays \(a, b\), got 1"):
            block(nd.array([2]))

    def test_symbols_take_the_place_of_inputs(self) -> None:
        block = SymbolBlock(graph(), sym.var("data"))
        made = block(sym.var("x") * 2)
        assert isinstance(made, Symbol)
        assert "x" in made.list_arguments() and "data" not in made.list_arguments()

    def test_neither(self) -> None:
        with pytest.raises(AssertionError, match="expected NDArrays or symbols, got"):
            SymbolBlock(graph(), sym.var("data"))(3)

    def test_within_another_block(self) -> None:
        net = nn.HybridSequential()
        net.add(SymbolBlock(graph(), sym.var("data")), nn.Dense(1))
        net.initialize("ones")
        x = nd.array([[1, 2], [5, 3]])
        plain = net(x).asnumpy()
        net.hybridize()
        np.testing.assert_allclose(net(x).asnumpy(), plain, rtol=1e-6)


class TestFiles:
    def test_types_of_the_file_win(self, tmp_path: Path) -> None:
        net = nn.HybridSequential()
        net.add(nn.Dense(2, in_units=3))
        net.initialize()
        net.cast("float16")
        net.hybridize()
        net(nd.ones((1, 3), dtype="float16"))
        net.export(str(tmp_path / "half"))
        block = SymbolBlock.imports(
            str(tmp_path / "half-symbol.json"),
            ["data"],
            str(tmp_path / "half-0000.params"),
            ctx=[cpu(0), cpu(1)],
        )
        assert block(nd.ones((1, 3), dtype="float16", ctx=cpu(1))).dtype is np.float16

    def test_without_parameters(self, tmp_path: Path) -> None:
        graph().save(str(tmp_path / "g.json"))
        block = SymbolBlock.imports(str(tmp_path / "g.json"), "data")
        with pytest.raises(
            MXNetError, match=r"\[Parameter net_fc_weight\] was not initialised: .* its param_file;"
        ):
            block(nd.ones((1, 2)))
        block.initialize()
        assert block(nd.ones((1, 2))).shape == (1, 3)

    def test_parameters_are_missing(self, tmp_path: Path) -> None:
        graph().save(str(tmp_path / "g.json"))
        nd.save(str(tmp_path / "g.params"), {"arg:net_fc_weight": nd.ones((3, 2))})
        with pytest.raises(AssertionError, match="g.params lacks 'net_fc_bias'"):
            SymbolBlock.imports(str(tmp_path / "g.json"), "data", str(tmp_path / "g.params"))

    def test_exports_what_it_imported(self, tmp_path: Path) -> None:
        block = SymbolBlock(graph(), sym.var("data"))
        block.initialize()
        block(nd.ones((1, 2)))
        block.export(str(tmp_path / "again"))
        assert set(nd.load(str(tmp_path / "again-0000.params"))) >= {
            "arg:net_fc_weight",
            "aux:net_bn_moving_var",
        }
