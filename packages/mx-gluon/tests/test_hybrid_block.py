# SPDX-License-Identifier: Apache-2.0
"""HybridBlock: graphs, deferred shapes, structures of arguments, export, operators observed."""

from __future__ import annotations

import copy
import pickle
import re
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mx_core import cpu
from mx_core.errors import ArgumentError, DTypeError, MXNetError, ShapeError
from mx_gluon import HybridBlock, Parameter, SymbolBlock, nn
from mx_ndarray import NDArray, autograd, nd
from mx_symbol import NameManager, Symbol, sym
from mx_symbol.graph.shape_mode import np_shape


@pytest.fixture(autouse=True)
def own_names() -> Any:
    with NameManager():
        yield


def chain(*blocks: HybridBlock) -> nn.HybridSequential:
    net = nn.HybridSequential(prefix="h_")
    net.add(*blocks)
    return net


class Nested(HybridBlock):
    """Takes lists and None, and gives a list."""

    def hybrid_forward(self, F: Any, x: Any, pair: Any, more: Any = None) -> Any:
        total = pair[0] * pair[1]
        if more is not None:
            total = total + more
        return [x + total, [total]]


class TestGraph:
    def test_is_traced_once(self) -> None:
        calls = []

        class Counted(HybridBlock):
            def hybrid_forward(self, F: Any, x: Any) -> Any:
                calls.append(F)
                return F.square(x)

        net = Counted()
        net(nd.ones((2,)))
        net.hybridize()
        for size in (2, 3, 2):
            assert net(nd.full((size,), 3)).asnumpy().tolist() == [9.0] * size
        assert calls == [nd, sym]
        net.hybridize(clear=False)
        net(nd.ones((2,)))
        assert len(calls) == 2
        net.hybridize(False)
        net(nd.ones((2,)))
        assert calls == [nd, sym, nd]

    def test_a_new_block_within_is_seen(self) -> None:
        net = chain(nn.Dense(1, in_units=1, weight_initializer="ones"))
        net.initialize()
        net.hybridize()
        assert net(nd.ones((1, 1))).asscalar() == 1
        net.add(nn.HybridLambda(lambda F, x: x + 5))
        assert net(nd.ones((1, 1))).asscalar() == 6

    def test_flags(self) -> None:
        net = chain(nn.Dense(2))
        net.initialize()
        net.hybridize(static_alloc=True, static_shape=True, forward_bulk_size=3, backward_bulk_size=4)
        assert net(nd.ones((1, 1))).shape == (1, 2)
        assert ("forward_bulk_size", 3) in net[0]._flags

    @pytest.mark.parametrize("ask", ["hybridize", "optimize_for"])
    def test_backends(self, ask: str) -> None:
        net = chain(nn.Dense(2))
        with pytest.raises(ArgumentError, match=rf"\[h\] {ask}: backend: expected None, got 'MKLDNN'"):
            if ask == "hybridize":
                net.hybridize(backend="MKLDNN")
            else:
                net.optimize_for(nd.ones((1, 1)), backend="MKLDNN")
        with pytest.raises(ArgumentError, match="hybridize: unknown arguments fast"):
            net.hybridize(fast=True)

    def test_flags_of_a_cached_op_are_taken(self) -> None:
        net = chain(nn.Dense(2))
        net.initialize()
        net.hybridize(static_alloc=True, static_shape=True, data_indices=(0,), param_indices=(1, 2))
        assert net(nd.ones((1, 3))).shape == (1, 2)

    def test_hooks_within_a_graph(self) -> None:
        net = chain(nn.Dense(2))
        net[0].register_forward_hook(lambda *args: None)
        with pytest.warns(UserWarning, match=r"\[dense0\] hybridize: its hooks are not called"):
            net.hybridize()

    def test_what_is_not_used(self) -> None:
        class Wasteful(HybridBlock):
            def __init__(self, **kwargs: Any) -> None:
                super().__init__(**kwargs)
                self.spare = self.params.get("spare", shape=(1,))

            def hybrid_forward(self, F: Any, x: Any, y: Any, spare: Any) -> Any:
                return x * 2

        net = Wasteful(prefix="n_")
        net.initialize()
        net.hybridize()
        with pytest.warns(UserWarning) as told:
            net(nd.ones((1,)), nd.ones((1,)))
        assert [str(each.message) for each in told] == [
            "[n] inputs 1 of the HybridBlock are not used", "[n] parameters n_spare are not used",
        ]  # fmt: skip

    def test_a_parameter_of_elsewhere(self) -> None:
        foreign = Parameter("foreign", shape=(1,))
        net = nn.HybridLambda(lambda F, x: x * foreign.var(), prefix="l_")
        net.hybridize()
        with pytest.raises(
            AssertionError, match=r"\[l_?\] hybridize: the graph needs foreign, neither inputs nor"
        ):
            net(nd.ones((1,)))

    def test_cast_traces_anew(self) -> None:
        net = chain(nn.Dense(2, in_units=2), nn.BatchNorm(in_channels=2))
        net.initialize()
        net.hybridize()
        net(nd.ones((1, 2)))
        net.cast("float64")
        assert net(nd.ones((1, 2), dtype="float64")).dtype is np.float64
        for dtype in ("float16", "bfloat16"):
            net.cast(dtype)
            assert {param.dtype for param in net[1].params.values()} == {"float32"}
            assert np.dtype(net(nd.ones((1, 2), dtype=dtype)).dtype).name == dtype


class TestShapes:
    def test_deferred_inside_of_a_recorded_call(self) -> None:
        net = chain(nn.Dense(3), nn.BatchNorm(), nn.Dense(1))
        net.initialize("ones")
        with autograd.record():
            loss = net(nd.array([[1, 2], [3, 5]])).sum()
        loss.backward()
        assert net[0].weight.shape == (3, 2)
        assert net[2].weight.grad().shape == (1, 3)

    @pytest.mark.parametrize("hybridized", [False, True])
    def test_contradictions_name_the_block(self, hybridized: bool) -> None:
        net = chain(nn.Conv2D(2, 3))
        net.initialize()
        net.hybridize(hybridized)
        block = "h" if hybridized else "conv0"
        with pytest.raises(
            ShapeError, match=rf"\[{block}\] deferred initialisation: the shapes of parameters cannot"
        ):
            net(nd.ones((2, 3)))

    @pytest.mark.parametrize(
        "make",
        [
            lambda: nn.Dense(3),
            lambda: nn.Conv1D(3, 2),
            lambda: nn.Conv1DTranspose(3, 2),
            nn.BatchNorm,
            nn.LayerNorm,
        ],
    )
    def test_in_the_mode_of_numpy(self, make: Any) -> None:
        x = nd.arange(24).reshape((2, 3, 4))
        plain = make()
        plain.initialize("ones")
        expected = plain(x).asnumpy()
        with np_shape():
            net = make()
            net.initialize("ones")
            assert -1 in next(iter(net.params.values())).shape
            for hybridized in (False, True):
                net.hybridize(hybridized)
                np.testing.assert_allclose(net(x).asnumpy(), expected, rtol=1e-6)
        np.testing.assert_allclose(net(x).asnumpy(), expected, rtol=1e-6)
        assert [param.shape for param in net.params.values()] == [
            param.shape for param in plain.params.values()
        ]

    def test_groups_of_a_transposed_convolution(self) -> None:
        net = nn.Conv1DTranspose(4, 3, groups=2)
        net.initialize()
        assert net(nd.ones((1, 6, 5))).shape == (1, 4, 7)
        assert net.weight.shape == (6, 2, 3)

    def test_unknown_shapes(self) -> None:
        class Unrelated(HybridBlock):
            def __init__(self, **kwargs: Any) -> None:
                super().__init__(**kwargs)
                self.w = self.params.get("w", shape=(0, 2), allow_deferred_init=True)

            def hybrid_forward(self, F: Any, x: Any, w: Any) -> Any:
                return x + F.sum(w)

        net = Unrelated(prefix="n_")
        net.initialize()
        with pytest.raises(
            ValueError, match=r"(?s)\[n_?\] deferred initialisation.*infer_shape.*n_w: \(0, 2\)"
        ):
            net(nd.ones((1,)))

    def test_types_are_inferred(self) -> None:
        net = chain(nn.Dense(2))
        with pytest.raises(DTypeError, match="'dense0_fwd'.* weight: expected float64, got float32"):
            net.infer_type(nd.ones((1, 3), dtype="float64"))
        net.cast("float64")
        net.infer_type(nd.ones((1, 3), dtype="float64"))
        assert net[0].weight.dtype is np.float64

    def test_a_batch_of_another_type(self) -> None:
        net = chain(nn.Dense(2, in_units=1))
        net.initialize()
        net.hybridize()
        with pytest.raises(DTypeError):
            net(nd.ones((1, 1), dtype="float64"))

    def test_uninitialised(self) -> None:
        net = chain(nn.Dense(2))
        for _ in range(2):
            with pytest.raises(MXNetError, match=r"\[Parameter dense0_weight\] was not initialised"):
                net(nd.ones((1, 1)))
            net.hybridize()


class TestArguments:
    @pytest.mark.parametrize("hybridized", [False, True])
    def test_lists_and_none(self, hybridized: bool) -> None:
        net = Nested()
        net.hybridize(hybridized)
        x, a, b = nd.array([1]), nd.array([2]), nd.array([3])
        total, [product] = net(x, [a, b])
        assert (total.asscalar(), product.asscalar()) == (7, 6)
        total, [product] = net(x, (a, b), None)
        assert (total.asscalar(), product.asscalar()) == (7, 6)

    def test_another_structure(self) -> None:
        net = Nested(prefix="n_")
        net.hybridize()
        x = nd.ones((1,))
        net(x, [x, x])
        with pytest.raises(
            ValueError, match=r"\[n\] the arguments have another structure .* expected \[0, \[0, 0\]\], got"
        ):
            net(x, [x, x], x)

    def test_mixed_and_none(self) -> None:
        net = nn.Flatten(prefix="f_")
        with pytest.raises(
            ArgumentError, match=r"\[f\] there is neither an NDArray nor a symbol among the arguments str"
        ):
            net("x")
        with pytest.raises(ArgumentError, match="among the arguments numpy.ndarray"):
            net(np.ones((1, 2)))
        nested = Nested(prefix="n_")
        with pytest.raises(
            ArgumentError, match=r"\[n\] NDArrays and symbols are mixed among the arguments \S+NDArray, list"
        ):
            nested(nd.ones((1,)), [sym.var("a"), sym.var("b")])
        nested.hybridize()
        with pytest.raises(
            ArgumentError, match=r"input: a graph has \(nested lists of\) NDArrays or symbols, got 3"
        ):
            nested(nd.ones((1,)), [nd.ones((1,)), 3])

    def test_contexts(self) -> None:
        net = Nested(prefix="n_")
        net.hybridize()
        with pytest.raises(ArgumentError, match=re.escape("lie on one context, got [cpu(0), cpu(1)]")):
            net(nd.ones((1,)), [nd.ones((1,)), nd.ones((1,), ctx=cpu(1))])

    @pytest.mark.parametrize("hybridized", [False, True])
    def test_every_context_has_its_copy(self, hybridized: bool) -> None:
        net = chain(nn.Dense(2), nn.HybridLambda(lambda F, x: F.broadcast_add(x, F.ones((1, 2)))))
        net.initialize("ones", ctx=[cpu(0), cpu(1)])
        net.hybridize(hybridized)
        for ctx in (cpu(1), cpu(0)):
            out = net(nd.ones((1, 3), ctx=ctx))
            assert (out.context, out.asnumpy().tolist()) == (ctx, [[4, 4]])

    def test_symbols(self) -> None:
        net = chain(nn.Dense(2), nn.Activation("relu"))
        made = net(sym.var("x"))
        assert isinstance(made, Symbol)
        assert made.list_arguments() == ["x", "dense0_weight", "dense0_bias"]


@pytest.mark.parametrize("hybridized", [False, True])
def test_threads_call_one_block(hybridized: bool) -> None:
    net = chain(nn.Dense(8, activation="tanh"), nn.Dense(3))
    net.initialize()
    net.hybridize(hybridized)
    inputs = [nd.array(np.random.default_rng(i).normal(size=(i % 3 + 1, 5))) for i in range(12)]
    expected = [net(x).asnumpy() for x in inputs]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(10):
            for got, wanted in zip(pool.map(lambda x: net(x).asnumpy(), inputs), expected, strict=True):
                np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


class TestExport:
    def test_needs_a_graph(self, tmp_path: Path) -> None:
        net = chain(nn.Dense(2))
        net.initialize()
        net(nd.ones((1, 3)))
        with pytest.raises(RuntimeError, match=r"\[h\] export: there is no graph yet"):
            net.export(str(tmp_path / "n"))

    def test_epoch_in_the_name(self, tmp_path: Path) -> None:
        net = chain(nn.Dense(2), nn.BatchNorm())
        net.initialize()
        net.hybridize()
        out = net(nd.ones((1, 3)))
        net.export(str(tmp_path / "n"), epoch=12)
        loaded = SymbolBlock.imports(str(tmp_path / "n-symbol.json"), "data", str(tmp_path / "n-0012.params"))
        np.testing.assert_array_equal(loaded(nd.ones((1, 3))).asnumpy(), out.asnumpy())


class TestObservedOperators:
    def test_outputs_and_inputs(self) -> None:
        net = chain(nn.Dense(2, activation="relu"))
        net.initialize("ones")
        net.hybridize()
        seen: list[tuple[str, str, Any]] = []
        x = nd.array([[1, -4]])
        plain = net(x).asnumpy()
        net.register_op_hook(lambda *args: seen.append(args))
        np.testing.assert_array_equal(net(x).asnumpy(), plain)
        assert [(name, op) for name, op, _ in seen] == [
            ("dense0_fwd_output", "FullyConnected"), ("dense0_relu_fwd_output", "Activation"),
        ]  # fmt: skip
        assert seen[0][2].asnumpy().tolist() == [[-3, -3]]
        seen.clear()
        net.register_op_hook(lambda *args: seen.append(args), monitor_all=True)
        net(x)
        assert [name for name, _, _ in seen] == [
            "dense0_fwd_data", "dense0_fwd_weight", "dense0_fwd_bias", "dense0_fwd_output",
            "dense0_relu_fwd_input0", "dense0_relu_fwd_output",
        ]  # fmt: skip

    def test_gradients_stay(self) -> None:
        net = chain(nn.Dense(1, in_units=2), nn.Dropout(0.5))
        net.initialize("ones")
        net.hybridize()
        seen: list[str] = []
        net.register_op_hook(lambda name, op, array: seen.append(name))
        with autograd.record(train_mode=False):
            loss = net(nd.array([[1, 2]]))
        loss.backward()
        assert net[0].weight.grad().asnumpy().tolist() == [[1, 2]]
        assert seen == ["dense0_fwd_output", "dropout0_fwd_output"]


class TestThreads:
    @pytest.mark.long
    @pytest.mark.parametrize("hybrid", [False, True])
    def test_first_call_may_come_from_many_at_once(self, hybrid: bool) -> None:
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            for _ in range(25):
                net = nn.HybridSequential()
                net.add(nn.Dense(4), nn.BatchNorm(), nn.Dense(3))
                net.initialize()
                net.hybridize(hybrid)
                x, together = nd.ones((2, 5)), threading.Barrier(6)

                def call(net: nn.HybridSequential = net, x: NDArray = x, gate: Any = together) -> Any:
                    gate.wait()
                    return net(x).asnumpy().tolist()

                with ThreadPoolExecutor(6) as pool:
                    made = [each.result() for each in [pool.submit(call) for _ in range(6)]]
                assert all(each == made[0] for each in made)
        finally:
            sys.setswitchinterval(interval)


@pytest.mark.parametrize("hybrid", [False, True])
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda net: pickle.loads(pickle.dumps(net))])
def test_copies_learn_by_themselves(copied: Any, hybrid: bool) -> None:
    net = chain(nn.Dense(4, activation="relu"), nn.BatchNorm(), nn.Dense(2))
    net.initialize("ones")
    net.hybridize(hybrid)
    x = nd.array([[1, 2, 3], [4, 5, 7]])
    expected = net(x).asnumpy()
    other = copied(net)
    np.testing.assert_array_equal(other(x).asnumpy(), expected)
    with autograd.record():
        loss = other(x).sum()
    loss.backward()
    assert other[2].bias.grad().asnumpy().tolist() == [2, 2]
    assert net[2].bias.grad().asnumpy().tolist() == [0, 0]
    other[2].weight.set_data(nd.zeros((2, 4)))
    assert not other(x).asnumpy().any()
    np.testing.assert_array_equal(net(x).asnumpy(), expected)


@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize("differentiated", [True, False])
def test_backward_trains_as_it_is_told(recorded: bool, differentiated: bool) -> None:
    """Not as forward was recorded: as in MXNet, and as call by call."""
    found = []
    for hybrid in (False, True):
        net = nn.HybridSequential(prefix="b_")
        with net.name_scope():
            net.add(
                nn.Conv2D(4, 3, in_channels=2),
                nn.BatchNorm(in_channels=4),
                nn.Activation("relu"),
                nn.Dense(3),
            )
        net.initialize()
        net(nd.zeros((1, 2, 6, 6)))
        rng = np.random.default_rng(0)
        for param in net.collect_params().values():
            param.set_data(nd.array(rng.uniform(0.5, 2, param.shape)))
        net.hybridize(hybrid)
        x = nd.array(rng.normal(size=(5, 2, 6, 6)))
        x.attach_grad()
        head = nd.array(rng.normal(size=(5, 3)))
        for retained in (True, False):  # the second time on what was put back
            with autograd.record(train_mode=recorded):
                out = net(x)
            for retain in (True, False) if retained else (False,):
                out.backward(head, retain_graph=retain, train_mode=differentiated)
        found.append(
            [x.grad.asnumpy(), *(p.grad().asnumpy() for p in net.collect_params(".*weight").values())]
        )
    for imperative, hybridised in zip(*found, strict=True):
        np.testing.assert_allclose(hybridised, imperative, rtol=1e-3, atol=1e-4 * abs(imperative).max())
