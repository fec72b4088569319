# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mx_core.errors import ArgumentError, MXNetError, ShapeError
from mx_ndarray import NDArray, autograd, nd


def leaf(*values: float, req: str = "write") -> NDArray:
    x = nd.array(values)
    x.attach_grad(req)
    return x


def values(x: NDArray | None) -> list[float]:
    assert x is not None
    return x.asnumpy().tolist()  # type: ignore[no-any-return]


def test_gradient_of_a_polynomial() -> None:
    x = leaf(1, 2, 3)
    with autograd.record():
        y = x * x * 2 + x
    y.backward()
    assert values(x.grad) == [5, 9, 13]


def test_scopes_nest_and_are_of_one_thread() -> None:
    seen = []
    assert not autograd.is_recording() and not autograd.is_training()
    with autograd.record():
        assert autograd.is_recording() and autograd.is_training()
        with autograd.pause():
            assert not autograd.is_recording() and not autograd.is_training()
            with autograd.train_mode():
                assert autograd.is_training()
        with autograd.predict_mode():
            assert autograd.is_recording() and not autograd.is_training()
        thread = threading.Thread(target=lambda: seen.append(autograd.is_recording()))
        thread.start()
        thread.join()
        assert autograd.is_recording()
    assert seen == [False]
    assert autograd.set_recording(True) is False
    assert autograd.set_recording(False) is True


def test_kernels_learn_the_mode() -> None:
    x = nd.zeros((1,))
    assert values(nd.test_mode(x)) == [0]
    with autograd.record():
        assert values(nd.test_mode(x)) == [1]
    with autograd.record(train_mode=False):
        assert values(nd.test_mode(x)) == [0]


def test_grad_req() -> None:
    write, add, null = leaf(1), leaf(1, req="add"), leaf(1, req="null")
    for _ in range(2):
        with autograd.record():
            y = write * 2 + add * 3 + null * 4
        y.backward()
    assert values(write.grad) == [2]
    assert values(add.grad) == [6]
    assert null.grad is None
    with pytest.raises(ArgumentError):
        nd.ones((1,)).attach_grad("sometimes")


def test_a_leaf_used_often_gets_the_sum() -> None:
    x = leaf(3, req="add")
    with autograd.record():
        y = x * x + x * 2 + x
    y.backward()
    assert values(x.grad) == [9]


def test_several_heads_and_head_gradients() -> None:
    x = leaf(1, 2)
    with autograd.record():
        y, z = x * 2, x * x
    autograd.backward([y, z], [nd.array([1, 10]), None])
    assert values(x.grad) == [2 + 2, 20 + 4]
    with autograd.record():
        y = x * 2
    with pytest.raises(ShapeError):
        y.backward(nd.ones((3,)))
    with pytest.raises(ArgumentError):
        autograd.backward([y], [nd.ones((2,)), nd.ones((2,))])


def test_broadcast_gradients_are_summed() -> None:
    x = leaf(1, 2)
    with autograd.record():
        y = nd.ones((3, 2)) * x
    y.backward()
    assert values(x.grad) == [3, 3]


def test_a_second_backward_needs_the_graph() -> None:
    x = leaf(1)
    with autograd.record():
        y = x * x
    y.backward(retain_graph=True)
    y.backward()
    with pytest.raises(MXNetError, match="retain_graph"):
        y.backward()


def test_a_partly_freed_graph_is_refused() -> None:
    x = leaf(1)
    with autograd.record():
        y = x * x
        z = y * 2
    y.backward()
    with pytest.raises(MXNetError, match="freed by an earlier backward"):
        z.backward()


def test_heads_and_variables_are_arrays() -> None:
    with pytest.raises(TypeError, match=r"\[autograd\] heads: expected an NDArray or several, got None"):
        autograd.backward(None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"\[autograd\] variables: expected an NDArray or several, got 3"):
        autograd.grad([], 3)  # type: ignore[arg-type]


def test_what_was_not_recorded_is_refused() -> None:
    with pytest.raises(MXNetError, match="not in a computational graph"):
        (nd.ones((1,)) * 2).backward()
    x = leaf(1)
    y = x * 2
    with pytest.raises(MXNetError):
        y.backward()


def test_pause_and_detach_cut_the_graph() -> None:
    x = leaf(2)
    with autograd.record():
        y = x * x
        with autograd.pause():
            constant = x * 10
        z = y + y.detach() + constant
    z.backward()
    assert values(x.grad) == [4]


def test_assigning_to_recorded_arrays_is_refused() -> None:
    x = leaf(1)
    with autograd.record():
        y = x * 2
        with pytest.raises(MXNetError, match="computational graph"):
            y += 1
        with pytest.raises(MXNetError, match="computational graph"):
            y[:] = 0
        with pytest.raises(MXNetError, match="computational graph"):
            nd.relu(y, out=y)
        with pytest.raises(MXNetError, match="computational graph"):
            x[:] = 1
    x[:] = 5  # outside it is an ordinary array
    assert values(x) == [5]


def test_out_may_be_recorded_into() -> None:
    x, out = leaf(3), nd.zeros((1,))
    with autograd.record():
        nd.elemwise_mul(x, x, out=out)
        y = out * 2
    y.backward()
    assert values(x.grad) == [12]


def test_views_reshapes_and_copies_are_recorded() -> None:
    x = leaf(1, 2, 3, 4)
    with autograd.record():
        y = x.reshape((2, 2))[1].copy() * 3
    y.backward()
    assert values(x.grad) == [0, 0, 3, 3]


def test_grad_returns_new_arrays() -> None:
    x, y = leaf(2), leaf(3)
    with autograd.record():
        z = x * x * y
    dx, dy = autograd.grad(z, [x, y], retain_graph=True)
    assert (values(dx), values(dy), values(x.grad)) == ([12], [4], [0])
    (alone,) = autograd.grad(z, x)  # a list for a single array too
    assert values(alone) == [12]


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: x + y,
        lambda x, y: nd.broadcast_add(x, y),
        lambda x, y: nd.add_n(x, y),
        lambda x, y: (x + y) * 1 + (x + y),
    ],
)
def test_gradients_that_are_passed_on_share_no_memory(
    function: Callable[..., NDArray], create_graph: bool
) -> None:
    x, y, head = leaf(1, 2), leaf(3, 4), nd.array([5, 6])
    with autograd.record():
        z = function(x, y)
    dx, dy = autograd.grad(z, [x, y], head, create_graph=create_graph, retain_graph=True)
    expected = values(dx)
    assert values(dy) == expected
    dx[:] = 0
    assert (values(dy), values(head)) == (expected, [5, 6])
    z.backward(head)
    x.grad[:] = 0
    assert (values(y.grad), values(head)) == (expected, [5, 6])
    head[:] = 0
    assert values(y.grad) == expected


def test_a_function_may_write_the_gradient_it_gets() -> None:
    class Doubled(autograd.Function):
        def forward(self, x: NDArray) -> NDArray:
            return x * 2

        def backward(self, dy: NDArray) -> NDArray:
            dy *= 2
            return dy

    x, y, head = leaf(1), leaf(1), nd.array([3])
    with autograd.record():
        z = Doubled()(x) + y
    z.backward(head)
    assert (values(x.grad), values(y.grad), values(head)) == ([6], [3], [3])


@pytest.mark.parametrize("rows", [1, 2])
def test_gradients_of_what_is_broadcast_or_not(rows: int) -> None:
    x, y = nd.ones((2, 3)), nd.ones((rows, 3))
    for array in (x, y):
        array.attach_grad()
    with autograd.record():
        z = nd.broadcast_add(x * 2, nd.broadcast_mul(y, x))
    z.backward()
    assert x.grad.asnumpy().tolist() == [[3] * 3] * 2
    assert y.grad.asnumpy().tolist() == [[2 / rows] * 3] * rows


def test_only_one_input_has_a_gradient() -> None:
    x, w = nd.ones((1, 2, 4, 4)), nd.ones((3, 2, 3, 3))
    for one, other in ((x, w), (w, x)):
        wanted = one.copy()
        wanted.attach_grad()
        both = [wanted, other] if one is x else [other, wanted]
        with autograd.record():
            y = nd.Convolution(*both, kernel=(3, 3), num_filter=3, no_bias=True)
        y.backward()
        assert wanted.grad.sum().asscalar() == 3 * 4 * 18


def test_grad_with_respect_to_a_middle_array() -> None:
    x = leaf(2)
    with autograd.record():
        y = x * x
        z = y * y
    assert values(autograd.grad(z, y)[0]) == [8]


def test_higher_order_gradients() -> None:
    x = leaf(2)
    with autograd.record():
        y = x * x * x
        (first,) = autograd.grad(y, x, create_graph=True)
        (second,) = autograd.grad(first, x, create_graph=True, retain_graph=True)
    assert (values(first), values(second)) == ([12], [12])
    first.backward()
    assert values(x.grad) == [12]


def test_only_what_backward_reads_is_kept() -> None:
    x = leaf(1, 2)
    with autograd.record():
        middle = x * 2
        memory = weakref.ref(middle)
        y = middle + 1
        del middle
    assert memory() is None
    y.backward()
    assert values(x.grad) == [2, 2]


def test_hidden_outputs_reach_backward() -> None:
    x = leaf(3)
    with autograd.record():
        y = nd.test_square2(x)
    assert isinstance(y, NDArray)
    y.backward()
    assert values(x.grad) == [6]


def test_long_chains_do_not_overflow_the_stack() -> None:
    x = leaf(1)
    with autograd.record():
        y = x
        for _ in range(20_000):
            y = y + 1
    y.backward()
    assert values(x.grad) == [1]
    with autograd.record():
        for _ in range(20_000):
            y = x + 1 if y is x else y.detach() + x
    del y


def test_a_gradient_that_is_zero_is_written() -> None:
    x = leaf(5)
    x.grad[:] = 7  # type: ignore[index]
    with autograd.record():
        y = nd.BlockGrad(x) + x * 0
        z = nd.sign(x)
    y.backward()
    assert values(x.grad) == [0]
    x.grad[:] = 7  # type: ignore[index]
    z.backward()
    assert values(x.grad) == [0]


def test_mark_variables() -> None:
    x, g = nd.array([2]), nd.zeros((1,))
    autograd.mark_variables(x, g)
    with autograd.record():
        y = x * x
    y.backward()
    assert values(g) == [4]
    with pytest.raises(ShapeError):
        autograd.mark_variables([x], [nd.zeros((3,))])


class Sigmoid(autograd.Function):
    def forward(self, *inputs: NDArray) -> NDArray:
        y: NDArray = 1 / (1 + nd.exp(-inputs[0]))
        self.save_for_backward(y)
        return y

    def backward(self, *output_grads: NDArray) -> Any:
        (y,) = self.saved_tensors
        return output_grads[0] * y * (1 - y)


def test_functions_in_python() -> None:
    x = leaf(0, 1)
    with autograd.record():
        y = Sigmoid()(x) * 2
    y.backward()
    s = 1 / (1 + np.exp(-np.array([0, 1.0])))
    np.testing.assert_allclose(x.grad.asnumpy(), 2 * s * (1 - s), rtol=1e-5)  # type: ignore[union-attr]


class Product(autograd.Function):
    def forward(self, *inputs: NDArray) -> NDArray:
        self.save_for_backward(*inputs)
        return inputs[0] * inputs[1]

    def backward(self, *output_grads: NDArray) -> Any:
        a, b = self.saved_tensors
        return output_grads[0] * b, output_grads[0] * a


def test_a_gradient_that_a_function_saves_counts_as_it_was() -> None:
    x, w = leaf(1, 2), leaf(1, 1)
    with autograd.record():
        y = x * x
    y.backward()
    with autograd.record():
        y = Product()(x.grad, w) + x * x * x
    y.backward()
    assert w.grad.asnumpy().tolist() == [2, 4]  # type: ignore[union-attr]
    assert x.grad.asnumpy().tolist() == [3, 12]  # type: ignore[union-attr]


class Wrong(Sigmoid):
    def backward(self, *output_grads: NDArray) -> Any:
        return nd.ones((7,))


def test_mistakes_in_functions_are_named() -> None:
    x = leaf(0, 1)
    once = Sigmoid()
    once(x)
    with pytest.raises(MXNetError, match="once"):
        once(x)
    with autograd.record():
        y = Wrong()(x)
    with pytest.raises(MXNetError, match=r"expected shape \(2,\), got \(7,\)"):
        y.backward()


class NoArray(Sigmoid):
    def forward(self, *inputs: NDArray) -> Any:
        return 3

    def backward(self, *output_grads: NDArray) -> Any:
        return 3


def test_functions_give_arrays() -> None:
    x = leaf(0, 1)
    with (
        autograd.record(),
        pytest.raises(TypeError, match=r"\[NoArray\] forward: expected NDArrays, got int"),
    ):
        NoArray()(x)


def test_failures_reach_the_gradient() -> None:
    x = leaf(1)
    with autograd.record():
        y = nd.test_fails(x * 1) if False else x * nd.test_fails(nd.ones((1,)))
    y.backward()
    with pytest.raises(ZeroDivisionError):
        values(x.grad)


def test_a_loss_has_its_gradient_behind_operators_without() -> None:
    data, label = nd.array([[1.0, 2.0], [3.0, 4.0]]), nd.array([0.0, 1.0])
    data.attach_grad()
    with autograd.record():
        loss = nd.SoftmaxOutput(data, label)
    loss.backward()
    expected = data.grad.asnumpy()
    assert expected.any()
    for end in (nd.BlockGrad, nd.sign, lambda x: nd.argmax(x, axis=1), lambda x: x <= 0.5):
        with autograd.record():
            made = end(nd.SoftmaxOutput(data, label))
        made.backward()
        np.testing.assert_array_equal(data.grad.asnumpy(), expected)


@pytest.mark.parametrize("req", ["write", "add"])
def test_the_gradient_of_a_leaf_may_be_that_of_the_head(req):
    """It is read as it was, whatever the backward writes there first."""
    x, w = nd.ones((2, 2)), nd.ones((2, 2))
    x.attach_grad(req)
    w.attach_grad()
    x.grad[:] = 1
    with autograd.record():
        y = nd.broadcast_add(x * 5, nd.sum(w, axis=0, keepdims=True))
    y.backward(x.grad)
    assert w.grad.asnumpy().tolist() == [[2, 2], [2, 2]]
    assert x.grad.asnumpy().tolist() == [[5 + (req == "add")] * 2] * 2
    with autograd.record():
        y = nd.broadcast_add(x, nd.sum(w, axis=0, keepdims=True))
    x.grad[:] = 1
    y.backward(x.grad[:])
    assert w.grad.asnumpy().tolist() == [[2, 2], [2, 2]]
    assert x.grad.asnumpy().tolist() == [[1 + (req == "add")] * 2] * 2


@pytest.mark.parametrize("request_", ["write", "add"])
@pytest.mark.parametrize("first", [True, False])
def test_a_gradient_among_the_inputs_counts_as_it_was_at_the_call(request_: str, first: bool) -> None:
    """This backward writes it, or one before."""
    x, z = nd.array([1, 2]), nd.array([5, 6])
    x.attach_grad(request_)
    z.attach_grad()
    x.grad[:] = 2
    with autograd.record():
        terms = [lambda: x.grad * z, lambda: x * x]
        made = [term() for term in (terms if first else terms[::-1])]
        y = made[0] + made[1]
    y.backward()
    assert z.grad.asnumpy().tolist() == [2, 2]

    x.grad[:] = 3
    with autograd.record():
        kept = x.grad[:1] * z[:1]
        other = x * x
    other.backward()
    kept.backward()
    assert z.grad.asnumpy().tolist() == [3, 0]
