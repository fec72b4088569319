# SPDX-License-Identifier: Apache-2.0
"""The older kinds of operators written in Python; numbers and names as MXNet 1.9.1 gives them."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import mx

pytestmark = [pytest.mark.timeout(60), pytest.mark.filterwarnings("ignore:.* is deprecated:FutureWarning")]


class Softmax(mx.operator.NumpyOp):
    def __init__(self) -> None:
        super().__init__(need_top_grad=False)
        self.heads: Any = None

    def list_arguments(self) -> list[str]:
        return ["data", "label"]

    def infer_shape(self, in_shape: Any) -> Any:
        return [in_shape[0], (in_shape[0][0],)], [in_shape[0]]

    def forward(self, in_data: Any, out_data: Any) -> None:
        out_data[0][:] = np.exp(in_data[0] - in_data[0].max(1, keepdims=True))
        out_data[0] /= out_data[0].sum(1, keepdims=True)

    def backward(self, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any) -> None:
        self.heads = out_grad
        in_grad[0][:] = out_data[0]
        in_grad[0][np.arange(len(in_data[1])), in_data[1].astype(int)] -= 1


class Cube(mx.operator.NDArrayOp):
    def forward(self, in_data: Any, out_data: Any) -> None:
        out_data[0][:] = in_data[0] ** 3

    def backward(self, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any) -> None:
        assert out_data == []
        in_grad[0][:] = 3 * in_data[0] ** 2 * out_grad[0]

    def declare_backward_dependency(self, out_grad: Any, in_data: Any, out_data: Any) -> Any:
        return [*out_grad, *in_data]


def test_names_and_shapes() -> None:
    with mx.name.NameManager():
        first = Softmax()(data=mx.sym.Variable("x"), name="softmax")
        second, third = Softmax()(mx.sym.Variable("x")), Cube()(mx.sym.Variable("x"))
    assert first.list_arguments() == ["x", "softmax_label"]
    assert first.list_outputs() == ["softmax_output"]
    assert first.infer_shape(x=(3, 4)) == ([(3, 4), (3,)], [(3, 4)], [])
    assert second.list_outputs() == ["_native0_output"]
    assert third.list_outputs() == ["_ndarray0_output"]


@pytest.mark.parametrize("request_", ["write", "add"])
def test_an_operator_over_numpy(request_: str) -> None:
    op = Softmax()
    symbol = op(data=mx.sym.Variable("x"), name="softmax")
    executor = symbol.simple_bind(mx.cpu(), grad_req={"x": request_, "softmax_label": "null"}, x=(3, 4))
    executor.arg_dict["x"][:] = np.arange(12).reshape(3, 4) / 3
    executor.arg_dict["softmax_label"][:] = [0, 1, 2]
    executor.grad_dict["x"][:] = 1
    executor.forward(is_train=True)
    executor.backward()
    row = np.float32([0.1416104, 0.1976332, 0.2758194, 0.384937])
    np.testing.assert_allclose(executor.outputs[0].asnumpy(), [row] * 3, rtol=2e-6)
    expected = row - np.eye(3, 4) + (request_ == "add")
    np.testing.assert_allclose(executor.grad_dict["x"].asnumpy(), expected, rtol=2e-6)
    assert op.heads == []


def test_an_operator_over_ndarrays_twice_in_a_graph() -> None:
    op = Cube()
    symbol = op(op(mx.sym.Variable("x")))
    executor = symbol.simple_bind(mx.cpu(), x=(3,))
    executor.arg_dict["x"][:] = [1, 2, -1]
    executor.forward(is_train=True)
    executor.backward(mx.nd.array([1, 1, 2]))
    assert executor.outputs[0].asnumpy().tolist() == [1, 512, -1]
    assert executor.grad_dict["x"].asnumpy().tolist() == [9, 9 * 256, 18]


def test_what_is_not_overridden() -> None:
    for kind in (mx.operator.NumpyOp, mx.operator.NDArrayOp):
        op = type("Same", (kind,), {})()
        executor = op(mx.sym.Variable("x")).simple_bind(mx.cpu(), x=(2,))
        executor.arg_dict["x"][:] = [1, 2]
        executor.forward(is_train=True)
        executor.backward(mx.nd.array([3, 4]))
        assert executor.outputs[0].asnumpy().tolist() == [1, 2]
        assert executor.grad_dict["x"].asnumpy().tolist() == [1, 1]


def test_it_trains() -> None:
    x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2)
    values = np.random.default_rng(0).normal(size=(100, 3)).astype("float32")
    labels = (values[:, 0] > 0).astype("float32")
    batches = mx.io.NDArrayIter(values, labels, 20, label_name="softmax_label")
    model = mx.mod.Module(Softmax()(data=x, name="softmax"))
    model.fit(batches, num_epoch=10, optimizer_params={"learning_rate": 0.5}, initializer=mx.init.Xavier())
    assert model.score(batches, "acc")[0][1] > 0.9


def test_a_failure_reaches_whoever_waits() -> None:
    class Wrong(mx.operator.NumpyOp):
        def forward(self, in_data: Any, out_data: Any) -> None:
            raise OSError("of the operator's own")

    executor = Wrong()(mx.sym.Variable("x")).simple_bind(mx.cpu(), x=(2,))
    executor.forward()
    with pytest.raises(OSError, match="of the operator's own"):
        executor.outputs[0].asnumpy()


def test_deprecated_and_bound_to_the_process() -> None:
    with pytest.warns(FutureWarning, match="^NumpyOp is deprecated; use CustomOp") as seen:
        op = Softmax()
    assert seen[0].filename == __file__
    with pytest.raises(NotImplementedError):
        mx.operator.PythonOp()(mx.sym.Variable("x"))
    text = op(mx.sym.Variable("x"), name="softmax").tojson()
    assert mx.sym.load_json(text).list_arguments() == ["x", "softmax_label"]
    for first, told in (("mx.operator.NumpyOp", "made it"), ("", "'_native' is registered")):
        code = f"import mx\n{first}\ntry: mx.sym.load_json({text!r})\nexcept mx.MXNetError as error: print(error)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert told in done.stdout
