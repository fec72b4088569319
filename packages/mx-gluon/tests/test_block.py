# SPDX-License-Identifier: Apache-2.0
"""Block: names, registration, hooks, parameters, summary."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from mx_core.errors import ArgumentError, DTypeError, FileFormatError, MXNetError, ShapeError
from mx_gluon import Block, HybridBlock, nn
from mx_gluon.block import HookHandle
from mx_gluon.errors import RefusedError
from mx_ndarray import nd
from mx_symbol import NameManager


class Net(Block):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.first = nn.Dense(3, in_units=2)
            self.second = nn.Dense(1, in_units=3)
            self.scale = self.params.get("scale", shape=(1,), init="ones")

    def forward(self, x: Any) -> Any:
        return self.second(nd.relu(self.first(x))) * self.scale.data()


@pytest.fixture(autouse=True)
def own_names() -> Any:
    with NameManager():
        yield


class TestNames:
    def test_within_a_scope(self) -> None:
        nets = [Net(), Net(), Net(prefix="mine_")]
        assert [net.name for net in nets] == ["net0", "net1", "mine"]
        assert [block.prefix for block in (nets[1].first, nets[2].second)] == ["net1_dense0_", "mine_dense1_"]
        assert list(nets[2].collect_params()) == [
            "mine_scale", "mine_dense0_weight", "mine_dense0_bias", "mine_dense1_weight", "mine_dense1_bias",
        ]  # fmt: skip

    def test_empty_prefix_names_nothing(self) -> None:
        outer = nn.Sequential(prefix="o_")
        with outer.name_scope():
            inner = nn.Sequential(prefix="")
            with inner.name_scope():
                dense = nn.Dense(1)
        assert (inner.prefix, dense.prefix) == ("o_", "o_dense0_")

    def test_scopes_are_left_after_errors_and_may_nest_in_themselves(self) -> None:
        net = nn.Sequential(prefix="o_")
        with pytest.raises(ZeroDivisionError), net.name_scope():
            _ = 1 / 0
        with net.name_scope():
            with net.name_scope():
                assert nn.Dense(1).prefix == "o_dense0_"
            assert nn.Dense(1).prefix == "o_dense1_"
        assert nn.Dense(1).prefix == "dense0_"

    def test_scopes_are_of_a_thread(self) -> None:
        made = []
        with nn.Sequential(prefix="o_").name_scope():
            thread = threading.Thread(target=lambda: made.append(nn.Dense(1).prefix))
            thread.start()
            thread.join()
        assert made == ["dense0_"]


class TestRegistration:
    def test_text(self) -> None:
        expected = "Net(\n  (first): Dense(2 -> 3, linear)\n  (second): Dense(3 -> 1, linear)\n)"
        assert repr(Net()) == expected

    def test_select(self) -> None:
        assert list(Net(prefix="n_").collect_params(".*weight|n_scale")) == [
            "n_scale", "n_dense0_weight", "n_dense1_weight",
        ]  # fmt: skip

    def test_type_of_an_attribute_stays(self) -> None:
        net = Net(prefix="n_")
        with pytest.raises(TypeError, match=r"\[n\] first: expected a Dense, as it is, got a Flatten"):
            net.first = nn.Flatten()
        net.first = nn.Dense(4)
        assert net._children["first"] is net.first

    def test_parameter_is_not_replaced(self) -> None:
        net = Net(prefix="n_")
        with pytest.raises(AssertionError, match=r"\[n\] scale: is Parameter n_scale .*give params"):
            net.scale = net.params.get("other")

    def test_blocks_in_containers(self) -> None:
        net = Net(prefix="n_")
        net.registered = [net.first]  # type: ignore[attr-defined]
        net.collect_params()
        net.more = {"a": [nn.Dense(1)]}  # type: ignore[attr-defined]
        with pytest.warns(UserWarning, match=r"\[n\] Net.more has blocks that are not registered"):
            net.collect_params()
        del net.more  # type: ignore[attr-defined]
        vars(net)["__within"] = [nn.Dense(1)]
        net.collect_params()

    def test_apply_goes_from_the_inside_out(self) -> None:
        seen: list[str] = []
        net = Net(prefix="n_")
        assert net.apply(lambda block: seen.append(block.name)) is net
        assert seen == ["n_dense0", "n_dense1", "n"]

    def test_cast(self) -> None:
        net = Net()
        net.initialize()
        net.cast("float64")
        assert net(nd.ones((1, 2), dtype="float64")).dtype.__name__ == "float64"

    def test_forward_is_needed(self) -> None:
        with pytest.raises(NotImplementedError, match=r"\[block0\] Block does not define forward"):
            Block()(1)


class TestHooks:
    def test_order_and_removal(self) -> None:
        net, seen = Net(), []
        net.initialize()
        before = net.register_forward_pre_hook(lambda block, inputs: seen.append(("before", len(inputs))))
        after = net.register_forward_hook(lambda block, inputs, out: seen.append(("after", out.shape)))
        net(nd.ones((4, 2)))
        assert seen == [("before", 1), ("after", (4, 1))]
        before.detach()
        with after:
            net(nd.ones((4, 2)))
        net(nd.ones((4, 2)))
        assert len(seen) == 3
        after.detach()

    def test_a_hook_may_remove_itself(self) -> None:
        net, seen = Net(), []
        net.initialize()
        handle = HookHandle()

        def once(block: Block, inputs: Any, out: Any) -> None:
            seen.append(1)
            handle.detach()

        handle.attach(net._forward_hooks, once)
        net(nd.ones((1, 2)))
        net(nd.ones((1, 2)))
        assert seen == [1]
        with pytest.raises(MXNetError, match="has a hook already"):
            handle.attach(net._forward_hooks, once)


class TestSummary:
    def test_refuses_graphs_and_leaves_no_hooks(self) -> None:
        net = Net(prefix="n_")
        net.initialize()
        net.first.hybridize()
        with pytest.raises(AssertionError, match=r"\[n_dense0\] summary: hybridize\(False\) first"):
            net.summary(nd.ones((1, 2)))
        assert not any(block._forward_hooks for block in (net, net.first, net.second))

    def test_needs_values(self) -> None:
        with pytest.raises(MXNetError, match="was not initialised"):
            Net().summary(nd.ones((1, 2)))

    def test_several_inputs(self, capsys: pytest.CaptureFixture[str]) -> None:
        class Two(Block):
            def forward(self, x: Any, pair: Any) -> Any:
                return [x, pair[0] + pair[1]]

        Two().summary(nd.ones((1, 2)), [nd.ones((3,)), nd.ones((3,))])
        shown = capsys.readouterr().out
        assert "(1, 2), [(3,), (3,)]" in shown
        assert "Two-1" in shown and "(1, 2), (3,)" in shown


class TestFiles:
    def test_names_follow_the_structure(self, tmp_path: Path) -> None:
        net = Net()
        net.initialize()
        net.save_parameters(tmp_path / "n.params")
        names = list(nd.load(tmp_path / "n.params"))
        assert names == ["scale", "first.weight", "first.bias", "second.weight", "second.bias"]
        other = Net(prefix="other_")
        other.load_parameters(tmp_path / "n.params")
        x = nd.ones((3, 2))
        assert (net(x).asnumpy() == other(x).asnumpy()).all()

    def test_missing_and_extra(self, tmp_path: Path) -> None:
        net = Net(prefix="n_")
        net.initialize()
        nd.save(tmp_path / "less.params", {"first.weight": nd.ones((3, 2)), "third.weight": nd.ones((1,))})
        with pytest.raises(
            AssertionError, match=r"\[n\] load_parameters: file .*less.params lacks 'scale', 'first.bias'"
        ):
            net.load_parameters(tmp_path / "less.params")
        with pytest.raises(
            ValueError, match=r"less.params has 'third.weight', which are not parameters here; these are"
        ):
            net.load_parameters(tmp_path / "less.params", allow_missing=True)
        net.load_parameters(tmp_path / "less.params", allow_missing=True, ignore_extra=True)
        assert net.first.weight.data().sum().asscalar() == 6

    def test_a_shared_parameter_is_needed_once(self, tmp_path: Path) -> None:
        def shared() -> Any:
            net = nn.Sequential()
            first = nn.Dense(2, in_units=2)
            net.add(first, nn.Dense(2, in_units=2, params=first.params))
            return net

        net = shared()
        net.initialize()
        net.save_parameters(tmp_path / "once.params", deduplicate=True)
        assert list(nd.load(tmp_path / "once.params")) == ["1.weight", "1.bias"]
        shared().load_parameters(tmp_path / "once.params")

    def test_nothing_in_both(self, tmp_path: Path) -> None:
        nn.Flatten().save_parameters(tmp_path / "none.params")
        nn.Flatten().load_parameters(tmp_path / "none.params")

    def test_list_of_arrays(self, tmp_path: Path) -> None:
        nd.save(tmp_path / "list.params", [nd.ones((1,))])
        with pytest.raises(FileFormatError, match="list.params: expected named arrays, got a list of 1"):
            Net().load_parameters(tmp_path / "list.params")

    def test_old_names(self, tmp_path: Path) -> None:
        net = Net(prefix="n_")
        net.initialize()
        with pytest.warns(UserWarning, match="save_params is deprecated; use save_parameters"):
            net.save_params(tmp_path / "old.params")
        assert "dense0_weight" in nd.load(tmp_path / "old.params")
        with pytest.warns(UserWarning, match="load_params is deprecated"):
            Net(prefix="m_").load_params(tmp_path / "old.params")

    def test_model_of_another_structure(self, tmp_path: Path) -> None:
        net = nn.Sequential(prefix="s_")
        net.add(nn.Dense(1, in_units=1))
        net.initialize()
        net.save(str(tmp_path / "s"))
        for other in (nn.HybridSequential(), Net()):
            with pytest.raises(FileFormatError, match="s-model.json: no description of a"):
                other.load(str(tmp_path / "s"))
        (tmp_path / "s-model.json").write_text("{")
        with pytest.raises(FileFormatError, match="s-model.json"):
            net.load(str(tmp_path / "s"))

    @pytest.mark.parametrize("refused", ["json", "params", "later block", "graph"])
    def test_a_refused_model_leaves_the_block_as_it_was(self, tmp_path: Path, refused: str) -> None:
        def made(prefix: str, units: int = 2) -> nn.HybridSequential:
            net = nn.HybridSequential(prefix=prefix)
            with net.name_scope():
                net.add(nn.Dense(3, in_units=2), nn.Dense(units, in_units=3))
            net.initialize("ones")
            net.hybridize()
            return net

        def described(net: nn.HybridSequential) -> list[Any]:
            params = [(name, param.name, param.var().name) for name, param in net.collect_params().items()]
            own = [list(block.params.keys()) for block in net]
            return [params, own, net.name, list(net._children.items()), repr(net), net._cached_graph]

        saved, net, x = made("saved_", units=4), made("net_"), nd.ones((1, 2))
        saved(x)
        before = net(x).asnumpy()
        saved.save(str(tmp_path / "s"))
        path = tmp_path / "s-model.json"
        model = json.loads(path.read_text())
        if refused == "json":
            path.write_text("[]")
        elif refused == "later block":
            del model["hybridsequential0"]["dense2"]
        elif refused == "graph":
            model["hybridsequential0"]["symbol"] = "{}"
        if refused in ("later block", "graph"):
            path.write_text(json.dumps(model))
        had = described(net)
        with pytest.raises(AssertionError if refused == "params" else FileFormatError):
            net.load(str(tmp_path / "s"))
        assert described(net) == had
        assert (net(x).asnumpy() == before).all()
        again = made("saved_")
        again(x)
        again.save(str(tmp_path / "s"))
        net.load(str(tmp_path / "s"))
        assert net.name == "saved"

    def test_shapes_of_a_shared_parameter_agree(self, tmp_path: Path) -> None:
        net = nn.Sequential()
        first = nn.Dense(2, use_bias=False)
        net.add(first, nn.Dense(2, use_bias=False, params=first.params))
        nd.save(tmp_path / "n.params", {"0.weight": nd.ones((2, 3)), "1.weight": nd.ones((2, 4))})
        with pytest.raises(AssertionError, match=r"one shape under all its names, got \(2, 3\) and \(2, 4\)"):
            net.load_parameters(tmp_path / "n.params")
        assert first.weight.shape == (2, 0)


class TestChains:
    def test_slices_share_blocks(self) -> None:
        net = nn.HybridSequential(prefix="h_")
        net.add(nn.Dense(1), nn.Dense(2), nn.Dense(3))
        assert len(net) == 3
        assert net[-1] is list(net)[2]
        part = net[1:]
        assert isinstance(part, nn.HybridSequential)
        assert (part.prefix, list(part)) == ("h_", list(net)[1:])

    def test_all_hybrid(self) -> None:
        net = nn.Sequential(prefix="s_")
        net.add(nn.Dense(1))
        with pytest.warns(UserWarning, match=r"\[s\] all blocks of this Sequential are hybrid"):
            net.hybridize()

    def test_only_hybrid_blocks_in_a_hybrid_chain(self) -> None:
        with pytest.raises(
            ArgumentError, match=r"expected a HybridBlock, got .* of type Lambda; nn.Sequential takes"
        ):
            nn.HybridSequential().add(nn.Lambda("relu"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "make, error, told",
    [(lambda: nn.LeakyReLU(-1), RefusedError, "expected a slope from 0, got -1"),
     (lambda: nn.Lambda("no_such"), RefusedError, "no operator on arrays is named 'no_such'"),
     (lambda: nn.Lambda(3), ArgumentError, "expected a name or a function, got 3"),  # type: ignore[arg-type]
     (lambda: nn.HybridLambda("no_such"), RefusedError, "no operator is named 'no_such'"),
     (lambda: nn.HybridLambda(3), ArgumentError, "expected a name or a function, got 3"),  # type: ignore[arg-type]
     (lambda: nn.Conv2D(2, (3,)), RefusedError, r"kernel_size: expected an integer or 2 of them, got \(3,\)"),
     (lambda: nn.Conv1D(2, 3, layout="NWC"), RefusedError, "layout: expected 'NCW', got 'NWC'"),
     (lambda: nn.Conv2DTranspose(2, 3, output_padding=(1, 1, 1)), RefusedError, "output_padding: expected"),
     (lambda: nn.MaxPool2D(layout="NCW"), RefusedError, "layout: expected 'NCHW' or 'NHWC', got 'NCW'"),
     (lambda: nn.AvgPool3D((1, 2)), RefusedError, "pool_size: expected an integer or 3 of them"),
     (lambda: nn.ReflectionPad2D((1, 1)), RefusedError, "padding: expected an integer or 8 of them"),
     (lambda: nn.Embedding(2, 2, sparse_grad=True), ArgumentError, "sparse_grad: expected False, got True")],
)  # fmt: skip
def test_wrong_arguments_of_layers(make: Any, error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        make()


def test_assigned_before_the_block_is_made() -> None:
    class Net(Block):
        def __init__(self) -> None:
            self.dense = nn.Dense(1)
            super().__init__()

    with pytest.raises(AttributeError, match=r"\[Net\] dense: call super\(\).__init__\(\) before"):
        Net()


def test_hybrid_forward_is_needed() -> None:
    with pytest.raises(NotImplementedError, match=r"HybridBlock does not define hybrid_forward"):
        HybridBlock()(nd.ones((1,)))


class TestRefusedFiles:
    def test_nothing_is_loaded_from_a_file_of_another_network(self, tmp_path: Path) -> None:
        def network(units: int, init: str) -> nn.HybridSequential:
            net = nn.HybridSequential(prefix="n_")
            with net.name_scope():
                net.add(nn.Dense(2, in_units=3), nn.Dense(units, in_units=2))
            net.initialize(init)
            return net

        saved, net = network(4, "ones"), network(5, "zeros")
        saved.save_parameters(tmp_path / "by_structure")
        saved.collect_params().save(tmp_path / "by_name", "n_")
        for file in ("by_structure", "by_name"):
            with pytest.raises(RefusedError, match=r"expected shape \(5, 2\), got \(4, 2\)"):
                net.load_parameters(tmp_path / file)
            assert not any(param.data().asnumpy().any() for param in net.collect_params().values())


def test_a_scope_is_found_under_mxnets_name() -> None:
    from mx_gluon.block import _BlockScope

    with _BlockScope(Net(prefix="net_")):
        assert NameManager.current.get(None, "hello") == "net_hello0"
        assert nn.Dense(2).prefix == "net_dense0_"


@pytest.mark.parametrize("hybrid", [False, True])
def test_errors_of_shapes_say_in_which_block(hybrid: bool) -> None:
    inner = nn.Dense(3, in_units=4, prefix="inner_")
    net = nn.HybridSequential(prefix="net_")
    net.add(nn.Flatten(), inner)
    net.initialize()
    net.hybridize(hybrid)
    kept = "; parameters keep the shapes that were given or that the first inputs gave, so the input may be what is wrong"
    with pytest.raises(ShapeError, match=r"weight: expected shape \(3, 5\), got \(3, 4\)") as caught:
        net(nd.ones((2, 5)))
    if hybrid:  # one graph, whose operators have the names of blocks
        assert "'inner_fwd'" in str(caught.value)
        assert caught.value.__notes__ == ["in block net, called with (2, 5) float32" + kept]
    else:
        assert caught.value.__notes__ == [
            "in block inner, called with (2, 5) float32; its parameters are inner_weight (3, 4) float32, "
            "inner_bias (3,) float32" + kept
        ]
    with pytest.raises(DTypeError) as told:
        inner(nd.ones((2, 4), dtype="float64"))
    assert "(2, 4) float64" in told.value.__notes__[0] and kept not in told.value.__notes__[0]


def test_errors_of_shapes_are_told_with_types_that_numpy_does_not_know() -> None:
    program = """
import sys
from mx_gluon import Block
from mx_core.errors import ShapeError
from mx_ndarray import nd
class Inner(Block):
    def __init__(self):
        super().__init__(prefix="inner_")
        self.weight = self.params.get("weight", shape=(4, 3), dtype="bfloat16", init="zeros")
    def forward(self, x):
        return nd.dot(x, self.weight.data().astype("float32"))
inner = Inner()
inner.initialize()
x = nd.ones((1, 5))
assert "ml_dtypes" not in sys.modules
try:
    inner(x)
except ShapeError as error:
    print(*error.__notes__)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    told = "in block inner, called with (1, 5) float32; its parameters are inner_weight (4, 3) bfloat16"
    assert done.stdout.startswith(told + "; parameters keep the shapes")


def test_warnings_name_the_line_of_the_program() -> None:
    net = nn.Block()
    net.hidden = [nn.Dense(2, in_units=1)]
    outer = nn.Sequential()
    outer.add(net, nn.Dense(2, in_units=1))
    with pytest.warns(UserWarning, match="not registered") as found:
        outer.collect_params()
        outer.initialize()
    outer.register_child(nn.Dense(1, in_units=1))
    net.hidden = []
    with pytest.warns(UserWarning, match="has values already") as again:
        outer.initialize()
    assert {each.filename for each in (*found, *again)} == {__file__}
