# SPDX-License-Identifier: Apache-2.0
"""`nd.Custom`: asynchronous, differentiable, with errors that arrive where one waits."""

from __future__ import annotations

import gc
import re
import subprocess
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from mx_core.errors import ArgumentError, MXNetError, UnknownOperatorError
from mx_ndarray import NDArray, autograd, nd, waitall
from mx_ndarray.custom import CustomOp, CustomOpProp, register

pytestmark = pytest.mark.timeout(60)


class Softmax(CustomOp):
    def forward(self, is_train: bool, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
        y = nd.exp(in_data[0] - in_data[0].max(axis=1).reshape((-1, 1)))
        self.assign(out_data[0], req[0], y / y.sum(axis=1).reshape((-1, 1)))

    def backward(self, req: Any, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any) -> None:
        y, label = out_data[0].asnumpy(), in_data[1].asnumpy().astype(int)
        y[np.arange(len(label)), label] -= 1.0
        self.assign(in_grad[0], req[0], nd.array(y))


@register("test_softmax")
class SoftmaxProp(CustomOpProp):
    def __init__(self) -> None:
        super().__init__(need_top_grad=False)

    def list_arguments(self) -> list[str]:
        return ["data", "label"]

    def infer_shape(self, in_shape: Any) -> Any:
        return [in_shape[0], (in_shape[0][0],)], [in_shape[0]], []

    def create_operator(self, ctx: Any, in_shapes: Any, in_dtypes: Any) -> CustomOp:
        return Softmax()


def define(name: str, forward: Any, backward: Any = None, **members: Any) -> type[CustomOp]:
    """Registers an operator of two functions; returns its class."""

    def run_forward(self: Any, is_train: Any, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
        forward(self, in_data, out_data, aux) if not members.get("trained") else forward(
            self, is_train, in_data, out_data
        )

    def run_backward(self: Any, req: Any, og: Any, ind: Any, outd: Any, ing: Any, aux: Any) -> None:
        backward(self, og, ind, outd, ing)

    op = type("Op", (CustomOp,), {"forward": run_forward, "backward": run_backward})
    prop = {key: value for key, value in members.items() if key != "trained"}
    register(name)(type("Prop", (CustomOpProp,), {"create_operator": lambda *_: op(), **prop}))
    return op


def test_softmax_with_the_gradient_of_its_loss() -> None:
    x = nd.array([[1, 2, 3], [3, 2, 1]])
    x.attach_grad()
    with autograd.record():
        y = nd.Custom(x, nd.array([0, 2]), op_type="test_softmax")
    y.backward()
    expected = np.exp(x.asnumpy())
    expected /= expected.sum(1, keepdims=True)
    np.testing.assert_allclose(y.asnumpy(), expected, rtol=1e-6)
    expected[[0, 1], [0, 2]] -= 1
    np.testing.assert_allclose(x.grad.asnumpy(), expected, rtol=1e-6)


def test_a_gradient_that_backward_reads_counts_as_it_was() -> None:
    def multiply(self: Any, in_data: Any, out_data: Any, aux: Any) -> None:
        out_data[0][:] = in_data[0] * in_data[1]

    def differentiate(self: Any, og: Any, ind: Any, outd: Any, ing: Any) -> None:
        ing[0][:], ing[1][:] = og[0] * ind[1], og[0] * ind[0]

    define(
        "test_product_with_a_gradient", multiply, differentiate,
        list_arguments=lambda self: ["a", "b"], infer_shape=lambda self, shapes: (shapes, shapes[:1], []),
    )  # fmt: skip
    x, w = nd.array([1, 2]), nd.ones((2,))
    x.attach_grad()
    w.attach_grad()
    with autograd.record():
        y = x * x
    y.backward()
    with autograd.record():
        y = nd.Custom(x.grad, w, op_type="test_product_with_a_gradient") + x * x * x
    y.backward()
    assert w.grad.asnumpy().tolist() == [2, 4]
    assert x.grad.asnumpy().tolist() == [3, 12]


def test_inputs_by_name_and_wrong_inputs() -> None:
    x, label = nd.ones((2, 3)), nd.zeros((2,))
    by_name = nd.Custom(label=label, data=x, op_type="test_softmax")
    np.testing.assert_allclose(by_name.asnumpy(), 1 / 3, rtol=1e-6)
    for wrong in ([x], [x, label, x], []):
        with pytest.raises(ArgumentError, match="expected inputs data, label; got"):
            nd.Custom(*wrong, op_type="test_softmax")
    with pytest.raises(TypeError, match="label: expected an NDArray, got float"):
        nd.Custom(x, 1.0, op_type="test_softmax")
    with pytest.raises(UnknownOperatorError, match="did you mean 'test_softmax'"):
        nd.Custom(x, op_type="test_sofmax")


def test_settings_arrive_as_text() -> None:
    seen = {}

    @register("test_settings")
    class Prop(CustomOpProp):
        def __init__(self, scale: str, shape: str = "()") -> None:
            super().__init__()
            seen.update(scale=scale, shape=shape)

        def create_operator(self, ctx: Any, in_shapes: Any, in_dtypes: Any) -> CustomOp:
            seen.update(ctx=ctx, in_shapes=in_shapes, in_dtypes=in_dtypes)
            return CustomOp()

    nd.Custom(nd.ones((2, 3), dtype="float64"), op_type="test_settings", scale=2.5, shape=(1, 2))
    waitall()
    assert seen == {
        "scale": "2.5", "shape": "(1, 2)", "ctx": "cpu(0)", "in_shapes": [[2, 3]], "in_dtypes": [1],
    }  # fmt: skip
    with pytest.raises(TypeError, match="scale"):
        nd.Custom(nd.ones((1,)), op_type="test_settings")


def test_an_error_reaches_the_wait_with_the_line_of_the_author() -> None:
    def failing(self: Any, in_data: Any, out_data: Any, aux: Any) -> None:
        raise KeyError("no such row")

    define("test_failing", failing)
    y = nd.Custom(nd.ones((2,)), op_type="test_failing") * 2
    with pytest.raises(KeyError, match="no such row") as caught:
        y.wait_to_read()
    assert "failing" in [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    waitall()


def test_an_error_of_an_operation_inside_reaches_the_wait() -> None:
    define("test_inner", lambda self, i, o, aux: o[0].__setitem__(slice(None), nd.dot(i[0], nd.ones((5, 5)))))
    with pytest.raises(ValueError, match="dot"):
        nd.Custom(nd.ones((2, 3)), op_type="test_inner").asnumpy()


def test_an_error_in_backward_reaches_the_gradient() -> None:
    def failing(self: Any, og: Any, ind: Any, outd: Any, ing: Any) -> None:
        raise RuntimeError("backward broke")

    define("test_bad_backward", lambda self, i, o, aux: self.assign(o[0], "write", i[0]), failing)
    x = nd.ones((2,))
    x.attach_grad()
    with autograd.record():
        y = nd.Custom(x, op_type="test_bad_backward")
    y.backward()
    np.testing.assert_array_equal(y.asnumpy(), 1)
    with pytest.raises(RuntimeError, match="backward broke"):
        x.grad.wait_to_read()


def test_a_call_returns_before_forward_has_run() -> None:
    may_run = threading.Event()

    def waiting(self: Any, in_data: Any, out_data: Any, aux: Any) -> None:
        assert may_run.wait(30)
        self.assign(out_data[0], "write", in_data[0] + 1)

    define("test_waiting", waiting)
    y = nd.Custom(nd.ones((2,)), op_type="test_waiting")
    z = nd.ones((2,)) * 3
    assert z.asnumpy().tolist() == [3, 3]
    may_run.set()
    assert y.asnumpy().tolist() == [2, 2]


def test_many_at_once_that_wait_inside() -> None:
    def nested(self: Any, in_data: Any, out_data: Any, aux: Any) -> None:
        inner = nd.Custom(in_data[0], op_type="test_plus")
        big = nd.dot(nd.ones((64, 64)), nd.ones((64, 64)))
        self.assign(out_data[0], "write", inner + float(big[0, 0].asscalar()))

    define("test_plus", lambda self, i, o, aux: self.assign(o[0], "write", i[0] + 1))
    define("test_nested", nested)
    results = [nd.Custom(nd.full((3,), k), op_type="test_nested") for k in range(24)]
    assert [r.asnumpy().tolist() for r in results] == [[k + 65.0] * 3 for k in range(24)]


def test_backward_uses_the_operator_that_forward_used() -> None:
    def forward(self: Any, in_data: Any, out_data: Any, aux: Any) -> None:
        time.sleep(0.02)  # backward, which reads nothing of forward's results, waits all the same
        self.factor = in_data[0][0].asscalar()
        self.assign(out_data[0], "write", in_data[0] * self.factor)

    def backward(self: Any, og: Any, ind: Any, outd: Any, ing: Any) -> None:
        assert ind == [None] and outd == [None]
        self.assign(ing[0], "write", og[0] * self.factor)

    define(
        "test_state", forward, backward,
        declare_backward_dependency=lambda self, out_grad, in_data, out_data: out_grad,
    )  # fmt: skip
    a, b = nd.array([2, 1]), nd.array([5, 1])
    for x in (a, b):
        x.attach_grad()
    with autograd.record():
        total = nd.Custom(a, op_type="test_state") + nd.Custom(b, op_type="test_state")
    total.backward()
    assert (a.grad.asnumpy().tolist(), b.grad.asnumpy().tolist()) == ([2, 2], [5, 5])


def test_auxiliary_states_outputs_and_training() -> None:
    def forward(self: Any, is_train: bool, in_data: Any, out_data: Any) -> None:
        self.assign(out_data[0], "write", in_data[0] + in_data[1])
        self.assign(out_data[1], "write", in_data[0] * (2 if is_train else 3))

    def backward(self: Any, og: Any, ind: Any, outd: Any, ing: Any) -> None:
        self.assign(ing[0], "write", og[0] + 2 * og[1])
        self.assign(ing[1], "write", og[0])

    define(
        "test_two", forward, backward, trained=True,
        list_arguments=lambda self: ["left", "right"], list_outputs=lambda self: ["sum", "double"],
    )  # fmt: skip
    a, b = nd.array([1, 2]), nd.array([10, 20])
    for x in (a, b):
        x.attach_grad()
    with autograd.record():
        total, double = nd.Custom(a, b, op_type="test_two")
    autograd.backward([total, double], [nd.array([1, 1]), nd.array([5, 5])])
    assert total.asnumpy().tolist() == [11, 22] and double.asnumpy().tolist() == [2, 4]
    assert a.grad.asnumpy().tolist() == [11, 11] and b.grad.asnumpy().tolist() == [1, 1]
    assert nd.Custom(a, b, op_type="test_two")[1].asnumpy().tolist() == [3, 6]

    def count(self: Any, in_data: Any, out_data: Any, aux: Any) -> None:
        aux[0][:] += 1
        self.assign(out_data[0], "write", in_data[0] + aux[0])

    define("test_counting", count, list_auxiliary_states=lambda self: ["calls"],
           infer_shape=lambda self, s: (s, [s[0]], [[1]]))  # fmt: skip
    calls = nd.zeros((1,))
    for expected in (2, 3):
        assert nd.Custom(nd.ones((2,)), calls, op_type="test_counting").asnumpy().tolist() == [expected] * 2
    assert calls.asnumpy().tolist() == [2]


def test_out_and_gradients_that_add_up() -> None:
    define(
        "test_double", lambda self, i, o, aux: self.assign(o[0], "write", i[0] * 2),
        lambda self, og, ind, outd, ing: self.assign(ing[0], "write", og[0] * 2),
    )  # fmt: skip
    target = nd.zeros((2,))
    assert nd.Custom(nd.ones((2,)), op_type="test_double", out=target) is target
    assert target.asnumpy().tolist() == [2, 2]
    with pytest.raises(ArgumentError, match="out: expected float32"):
        nd.Custom(nd.ones((2,)), op_type="test_double", out=nd.zeros((3,)))
    x = nd.ones((2,))
    x.attach_grad("add")
    for _ in range(2):
        with autograd.record():
            y = nd.Custom(x, op_type="test_double") * x
        y.backward()
    assert x.grad.asnumpy().tolist() == [8, 8]


def test_an_operator_is_released_with_its_tape() -> None:
    made: list[weakref.ref[CustomOp]] = []

    def forward(self: Any, in_data: Any, out_data: Any, aux: Any) -> None:
        made.append(weakref.ref(self))
        self.kept = in_data[0], out_data[0]
        self.assign(out_data[0], "write", in_data[0])

    define("test_released", forward, lambda self, og, ind, outd, ing: None)
    x = nd.ones((4,))
    x.attach_grad()
    with autograd.record():
        y = nd.Custom(x, op_type="test_released")
    y.wait_to_read()
    assert made[0]() is not None
    del y
    waitall()
    gc.collect()
    for _ in range(100):
        nd.ones((1,)).wait_to_read()
        if made[0]() is None:
            return
        threading.Event().wait(0.01)
    raise AssertionError("the operator outlives everything that could use it")


def test_shapes_that_contradict_are_refused_at_the_call() -> None:
    define("test_shapes", lambda *_: None, infer_shape=lambda self, s: ([[9]], [[9]], []))
    with pytest.raises(ValueError, match=r"expected shape \(9,\), got \(2,\)"):
        nd.Custom(nd.ones((2,)), op_type="test_shapes")
    define("test_counts", lambda *_: None, infer_shape=lambda self, s: (s, [], []))
    with pytest.raises(RuntimeError, match="infer_shape must give 1 inputs, 1 outputs"):
        nd.Custom(nd.ones((2,)), op_type="test_counts")


def test_names_that_are_not_distinct_are_refused() -> None:
    define("test_names", lambda *_: None, list_outputs=lambda self: ["data"])
    with pytest.raises(ArgumentError, match="two of data, data have one name"):
        nd.Custom(nd.ones((2,)), op_type="test_names")


def test_empty_arrays_and_types() -> None:
    define("test_copy", lambda self, i, o, aux: self.assign(o[0], "write", i[0]))
    for dtype in ("float16", "float64", "int32", "uint8"):
        for shape in ((0, 3), (2, 3)):
            y = nd.Custom(nd.ones(shape, dtype=dtype), op_type="test_copy")
            assert (y.shape, np.dtype(y.dtype).name) == (shape, dtype)
            np.testing.assert_array_equal(y.asnumpy(), np.ones(shape))


def test_assign_follows_the_request() -> None:
    target = nd.ones((2,))
    for req, expected in (("null", 1), ("write", 5), ("inplace", 5), ("add", 10)):
        CustomOp().assign(target, req, nd.full((2,), 5))
        assert target.asnumpy().tolist() == [expected] * 2
    with pytest.raises(ArgumentError, match="req: expected null, write, inplace or add"):
        CustomOp().assign(target, "keep", target)


def test_under_the_naive_engine() -> None:
    script = (
        "import test_imperative as t\n"
        "t.test_softmax_with_the_gradient_of_its_loss(); t.test_many_at_once_that_wait_inside()\n"
        "t.test_auxiliary_states_outputs_and_training(); print('done')\n"
    )
    settings = {"MXNET_ENGINE_TYPE": "NaiveEngine", "PATH": "", "PYTHONPATH": __file__.rsplit("/", 1)[0]}
    result = subprocess.run(
        [sys.executable, "-c", script], env=settings,
        capture_output=True, text=True, timeout=50, check=False,
    )  # fmt: skip
    assert result.stdout.strip() == "done", result.stderr


def test_arrays_kept_by_an_operator_stay_valid() -> None:
    kept: list[NDArray] = []
    define("test_keeps", lambda self, i, o, aux: kept.append(i[0]) or self.assign(o[0], "write", i[0]))
    nd.Custom(nd.array([7, 8]), op_type="test_keeps").wait_to_read()
    for _ in range(50):
        nd.ones((2,)).wait_to_read()
    assert kept[0].shape == (2,)
    kept[0].asnumpy()


def assigned(name: str, forward: Any, backward: Any = None) -> NDArray:
    """The gradient of what an operator of two functions makes of ones."""
    define(name, forward, backward or (lambda self, og, ind, outd, ing: self.assign(ing[0], "write", og[0])))
    x = nd.ones((2,))
    x.attach_grad()
    with autograd.record():
        y = nd.Custom(x, op_type=name)
    y.backward()
    y.wait_to_read()
    return x.grad


def test_a_list_of_outputs_takes_no_other_array() -> None:
    said = (
        r"\[Custom\] out_data\[0\] = value puts another array into the list, which is not read again; "
        r"write self\.assign\(out_data\[0\], req\[0\], value\) or out_data\[0\]\[:\] = value"
    )
    with pytest.raises(ArgumentError, match=said):
        assigned("test_listed", lambda self, i, o, aux: o.__setitem__(0, i[0]))
    with pytest.raises(ArgumentError, match=r"out_data\[i\]\[:\] = value"):
        assigned("test_sliced", lambda self, i, o, aux: o.__setitem__(slice(None), [i[0]]))


def test_a_list_of_gradients_takes_no_other_array() -> None:
    grad = assigned(
        "test_listed_gradient",
        lambda self, i, o, aux: self.assign(o[0], "write", i[0]),
        lambda self, og, ind, outd, ing: ing.__setitem__(0, og[0]),
    )
    with pytest.raises(ArgumentError, match=r"self\.assign\(in_grad\[0\], req\[0\], value\)"):
        grad.wait_to_read()


def test_arrays_in_the_list_are_changed_in_place() -> None:
    def forward(self: Any, in_data: Any, out_data: Any, aux: Any) -> None:
        out_data[0][:] = in_data[0]
        out_data[0] += 2
        in_data[0] = None  # a list of one's own

    define("test_in_place", forward)
    np.testing.assert_array_equal(nd.Custom(nd.ones((2,)), op_type="test_in_place").asnumpy(), 3)


def test_an_auxiliary_state_is_filled_not_replaced() -> None:
    def forward(self: Any, in_data: Any, out_data: Any, aux: Any) -> None:
        aux[0] = in_data[0]

    define(
        "test_listed_state",
        forward,
        list_auxiliary_states=lambda self: ["state"],
        infer_shape=lambda self, shapes: (shapes, shapes, shapes),
    )
    with pytest.raises(
        ArgumentError, match=r"aux\[0\] = value puts .* not read again; write aux\[0\]\[:\] = value"
    ):
        nd.Custom(nd.ones((2,)), nd.zeros((2,)), op_type="test_listed_state").wait_to_read()


def test_a_failure_closes_no_generator_of_others() -> None:
    def rows() -> Iterator[ValueError]:
        while True:
            try:
                raise ValueError("a bad row")
            except ValueError as error:
                yield error

    source = rows()

    def fail(self: Any, inputs: Any, outputs: Any, aux: Any) -> None:
        try:
            raise next(source)
        except ValueError:
            raise RuntimeError("cannot use it") from None

    define("test_reads_rows", fail)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="cannot use it"):
            nd.Custom(nd.ones((1,)), op_type="test_reads_rows").asnumpy()
    assert isinstance(next(source), ValueError)


def test_backward_may_not_replace_an_auxiliary_state_either() -> None:
    class Replaces(CustomOp):
        def forward(self, is_train: bool, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
            self.assign(out_data[0], req[0], in_data[0])

        def backward(
            self, req: Any, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any
        ) -> None:
            aux[0] = out_grad[0]

    @register("test_replaces_state")
    class ReplacesProp(CustomOpProp):
        def list_auxiliary_states(self) -> list[str]:
            return ["state"]

        def infer_shape(self, in_shape: Any) -> Any:
            return in_shape, in_shape, in_shape

        def create_operator(self, ctx: Any, in_shapes: Any, in_dtypes: Any) -> CustomOp:
            return Replaces()

    x = nd.ones((2,))
    x.attach_grad()
    with autograd.record():
        y = nd.Custom(x, nd.zeros((2,)), op_type="test_replaces_state")
    y.backward()
    with pytest.raises(ArgumentError, match=r"not read again; write aux\[0\]\[:\] = value\n"):
        x.grad.wait_to_read()


@pytest.mark.parametrize("declared", [[3], [-1], [0, 7]])
def test_backward_depends_on_what_there_is(declared: list[int]) -> None:
    define(
        f"test_depends_{len(declared)}_{declared[0]}",
        lambda self, i, o, aux: self.assign(o[0], "write", i[0]),
        declare_backward_dependency=lambda self, out_grad, in_data, out_data: declared,
    )
    x = nd.ones((2,))
    x.attach_grad()
    said = rf"declare_backward_dependency gave {re.escape(str(declared))}; expected numbers from \[\[0\], \[1\], \[2\]\]"
    with pytest.raises(MXNetError, match=said), autograd.record():
        nd.Custom(x, op_type=f"test_depends_{len(declared)}_{declared[0]}").backward()


def test_rules_may_leave_out_that_there_are_no_auxiliary_states() -> None:
    define(
        "test_two_parts",
        lambda self, i, o, aux: self.assign(o[0], "write", i[0].reshape((2, 1)) * 2),
        infer_shape=lambda self, shapes: (shapes, [(2, 1)]),
        infer_type=lambda self, types: (types, types),
    )
    y = nd.Custom(nd.ones((2,), dtype="float64"), op_type="test_two_parts")
    assert y.shape == (2, 1) and y.dtype == np.float64 and y.asnumpy().tolist() == [[2], [2]]
