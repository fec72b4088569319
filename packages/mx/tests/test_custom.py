# SPDX-License-Identifier: Apache-2.0
"""Custom operators in graphs: bind, Module, JSON, CachedOp."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mx
from mx_symbol import CachedOp

pytestmark = pytest.mark.timeout(60)


class Scale(mx.operator.CustomOp):
    """Counts its runs; the factor may change with every forward."""

    def __init__(self, factor: float) -> None:
        self.factor = factor
        self.runs = 0

    def forward(self, is_train: bool, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
        self.runs += 1
        self.assign(out_data[0], req[0], in_data[0] * self.factor)
        aux[0][:] = self.runs

    def backward(self, req: Any, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any) -> None:
        assert self.runs > 0
        self.assign(in_grad[0], req[0], out_grad[0] * self.factor)


@mx.operator.register("graph_scale")
class ScaleProp(mx.operator.CustomOpProp):
    def __init__(self, factor: str = "2") -> None:
        super().__init__()
        self.factor = float(factor)

    def list_auxiliary_states(self) -> list[str]:
        return ["runs"]

    def infer_shape(self, in_shape: Any) -> Any:
        return in_shape, [in_shape[0]], [[1]]

    def declare_backward_dependency(self, out_grad: Any, in_data: Any, out_data: Any) -> Any:
        return out_grad

    def create_operator(self, ctx: Any, in_shapes: Any, in_dtypes: Any) -> Any:
        return Scale(self.factor)


class Head(mx.operator.CustomOp):
    def forward(self, is_train: bool, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
        x = in_data[0].asnumpy()
        y = np.exp(x - x.max(1, keepdims=True))
        self.assign(out_data[0], req[0], mx.nd.array(y / y.sum(1, keepdims=True)))

    def backward(self, req: Any, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any) -> None:
        assert out_grad == [None] or out_grad[0] is None
        y = out_data[0].asnumpy()
        y[np.arange(len(y)), in_data[1].asnumpy().astype(int)] -= 1
        self.assign(in_grad[0], req[0], mx.nd.array(y))


@mx.operator.register("graph_head")
class HeadProp(mx.operator.CustomOpProp):
    def __init__(self) -> None:
        super().__init__(need_top_grad=False)

    def list_arguments(self) -> list[str]:
        return ["data", "label"]

    def infer_shape(self, in_shape: Any) -> Any:
        return [in_shape[0], [in_shape[0][0]]], [in_shape[0]], []

    def create_operator(self, ctx: Any, in_shapes: Any, in_dtypes: Any) -> Any:
        return Head()


def test_two_in_a_graph_with_states_and_requests() -> None:
    x = mx.sym.Variable("x")
    y = mx.sym.Custom(
        mx.sym.Custom(x * 3, op_type="graph_scale", name="a"), factor=5, op_type="graph_scale", name="b"
    )
    assert y.list_arguments() == ["x"] and y.list_auxiliary_states() == ["a_runs", "b_runs"]
    assert y.list_outputs() == ["b_output"]
    executor = y.simple_bind(mx.cpu(), grad_req="add", x=(2, 2))
    executor.arg_dict["x"][:] = 1
    for _ in range(2):
        executor.forward(is_train=True)
        executor.backward(mx.nd.ones((2, 2)))
    np.testing.assert_array_equal(executor.outputs[0].asnumpy(), 30)
    np.testing.assert_array_equal(executor.grad_dict["x"].asnumpy(), 60)
    assert [executor.aux_dict[n].asscalar() for n in ("a_runs", "b_runs")] == [2, 2]


def test_equal_nodes_are_not_merged() -> None:
    x = mx.sym.Variable("x")
    pair = [mx.sym.Custom(x, op_type="graph_scale", name=f"n{i}") for i in range(2)]
    executor = (pair[0] + pair[1]).simple_bind(mx.cpu(), x=(2,))
    executor.forward(is_train=False, x=mx.nd.ones((2,)))
    assert executor.outputs[0].asnumpy().tolist() == [4, 4]
    assert [state.asscalar() for state in executor.aux_arrays] == [1, 1]


def test_json_keeps_name_and_settings() -> None:
    y = mx.sym.Custom(mx.sym.Variable("x"), op_type="graph_scale", factor=7, name="s")
    text = y.tojson()
    assert '"op": "Custom"' in text and '"op_type": "graph_scale"' in text and '"factor": "7"' in text
    read = mx.sym.load_json(text)
    assert read.tojson() == text
    executor = read.simple_bind(mx.cpu(), x=(3,))
    executor.forward(x=mx.nd.ones((3,)))
    assert executor.outputs[0].asnumpy().tolist() == [7, 7, 7]
    with pytest.raises(mx.MXNetError, match="no custom operator 'graph_scal'"):
        mx.sym.load_json(text.replace("graph_scale", "graph_scal"))


def test_a_module_learns_through_a_custom_loss() -> None:
    mx.random.seed(3)
    source = np.random.default_rng(3)
    x = source.normal(size=(256, 6)).astype(np.float32)
    label = (x @ source.normal(size=(6, 3))).argmax(1).astype(np.float32)
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3)
    net = mx.sym.Custom(data=net, op_type="graph_head", name="softmax")
    assert net.list_arguments()[-1] == "softmax_label"
    module = mx.mod.Module(net, label_names=("softmax_label",))
    batches = mx.io.NDArrayIter(x, label, batch_size=32, label_name="softmax_label")
    module.fit(
        batches, num_epoch=24, optimizer_params={"learning_rate": 0.05}, initializer=mx.init.Normal(0.1)
    )
    (_, accuracy), *_ = module.score(batches, "acc")
    assert accuracy > 0.93


def test_an_error_names_where_it_was_raised() -> None:
    class Broken(mx.operator.CustomOp):
        def forward(self, is_train: bool, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
            raise LookupError("broken on purpose")

    @mx.operator.register("graph_broken")
    class BrokenProp(mx.operator.CustomOpProp):
        def create_operator(self, ctx: Any, in_shapes: Any, in_dtypes: Any) -> Any:
            return Broken()

    executor = mx.sym.Custom(mx.sym.Variable("x"), op_type="graph_broken").simple_bind(mx.cpu(), x=(2,))
    executor.forward()
    with pytest.raises(LookupError, match="broken on purpose"):
        executor.outputs[0].asnumpy()


def test_operators_inside_that_need_the_engine() -> None:
    class Nested(mx.operator.CustomOp):
        def forward(self, is_train: bool, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
            kernel = mx.nd.ones((4, 1, 3, 3))
            image = mx.nd.Convolution(
                in_data[0], kernel, num_filter=4, kernel=(3, 3), pad=(1, 1), no_bias=True
            )
            image.wait_to_read()
            self.assign(out_data[0], req[0], image.sum(axis=1, keepdims=True))

    @mx.operator.register("graph_nested")
    class NestedProp(mx.operator.CustomOpProp):
        def create_operator(self, ctx: Any, in_shapes: Any, in_dtypes: Any) -> Any:
            return Nested()

    y = mx.sym.Variable("x")
    for _ in range(3):
        y = mx.sym.Custom(y, op_type="graph_nested") / 36
    executors = [y.simple_bind(mx.cpu(), grad_req="null", x=(1, 1, 32, 32)) for _ in range(4)]
    for executor in executors:
        executor.forward(x=mx.nd.ones((1, 1, 32, 32)))
    for executor in executors:
        assert executor.outputs[0].asnumpy()[0, 0, 16, 16] == 1


def test_in_a_cached_op() -> None:
    cached = CachedOp(mx.sym.Custom(mx.sym.Variable("x"), mx.sym.Variable("runs"), op_type="graph_scale"))
    x, runs = mx.nd.ones((3,)), mx.nd.zeros((1,))
    x.attach_grad()
    with mx.autograd.record():
        y = cached(x, runs) * 2
    y.backward()
    assert y.asnumpy().tolist() == [4, 4, 4] and x.grad.asnumpy().tolist() == [4, 4, 4]


def test_the_umbrella_offers_what_authors_need() -> None:
    assert "graph_scale" in mx.operator.get_all_registered_operators()
    assert "Convolution" in mx.operator.get_all_registered_operators()
    with pytest.raises(TypeError, match="expected a class of CustomOpProp"):
        mx.operator.register("nothing")(Scale)  # type: ignore[type-var]
