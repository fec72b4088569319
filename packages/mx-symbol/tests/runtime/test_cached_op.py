# SPDX-License-Identifier: Apache-2.0
"""Symbols as functions on arrays, with autograd through them."""

import threading

import numpy as np
import pytest

from mx_core.errors import ArgumentError, MXNetError, ShapeError
from mx_ndarray import autograd, nd
from mx_ndarray.custom import CustomOp, CustomOpProp, register
from mx_symbol import CachedOp, sym


def test_calls_give_new_arrays_and_follow_shapes():
    op = CachedOp(sym.exp(sym.Variable("a")) + sym.Variable("b"))
    assert op.input_names == ["a", "b"]
    first = op(nd.zeros((2,)), nd.ones((2,)))
    second = op(nd.zeros((3,)), nd.zeros((3,)))
    assert first.asnumpy().tolist() == [2, 2]
    assert second.asnumpy().tolist() == [1, 1, 1]
    with pytest.raises(ArgumentError, match=r"expected 2 arrays \(a, b\), got 1"):
        op(nd.zeros((2,)))
    with pytest.raises(ShapeError, match="_plus"):
        op(nd.zeros((2,)), nd.ones((3,)))


def test_outputs_that_are_inputs_or_come_twice():
    a = sym.Variable("a")
    b = a * 2
    x = nd.ones((1,))
    outputs = CachedOp(sym.Group([a, b, b]))(x)
    assert [o.asnumpy()[0] for o in outputs] == [1, 2, 2]
    assert outputs[0] is not x
    assert outputs[1] is not outputs[2]


def test_gradients_flow_through_several_calls():
    op = CachedOp(sym.exp(sym.Variable("a")) * sym.Variable("b"))
    a, b = nd.array([0.5]), nd.array([3.0])
    a.attach_grad()
    b.attach_grad()
    with autograd.record():
        y = op(a, b)
        z = op(y, b) * 2
    z.backward()
    ya = np.exp(0.5) * 3
    np.testing.assert_allclose(z.asnumpy(), [2 * 3 * np.exp(ya)], rtol=1e-5)
    np.testing.assert_allclose(a.grad.asnumpy(), [6 * np.exp(ya) * ya], rtol=1e-5)
    expected = 2 * np.exp(ya) + 6 * np.exp(ya) * np.exp(0.5)
    np.testing.assert_allclose(b.grad.asnumpy(), [expected], rtol=1e-5)


def test_only_recorded_inputs_get_gradients():
    op = CachedOp(sym.Variable("a") * sym.Variable("b"))
    a = nd.array([2.0])
    a.attach_grad()
    with autograd.record():
        y = op(a, nd.array([5.0]))
    y.backward()
    assert a.grad.asnumpy() == [5]


def test_training_updates_states_and_inference_does_not():
    net = sym.BatchNorm(sym.Variable("x"), name="bn", fix_gamma=False, momentum=0.5)
    op = CachedOp(net)
    x, gamma, beta = nd.array([[1.0], [3.0]]), nd.ones((1,)), nd.zeros((1,))
    mean, var = nd.zeros((1,)), nd.ones((1,))
    op(x, gamma, beta, mean, var)
    assert mean.asnumpy() == [0]
    with autograd.train_mode():
        op(x, gamma, beta, mean, var)
    assert mean.asnumpy() == [1]


def test_gradients_of_gradients():
    a, b = sym.Variable("a"), sym.Variable("b")
    op = CachedOp(sym.Group([sym.sin(a) * b, a * a * a]))
    x, y = nd.array([0.5, 1.0]), nd.array([2.0, 3.0])
    x.attach_grad()
    y.attach_grad()
    with autograd.record():
        first, cube = op(x, y)
        dx, dy = autograd.grad(first + cube, [x, y], create_graph=True)
        total = (dx * dx).sum() + dy.sum()
    total.backward()
    s, c, v, w = np.sin(x.asnumpy()), np.cos(x.asnumpy()), x.asnumpy(), y.asnumpy()
    np.testing.assert_allclose(dx.asnumpy(), c * w + 3 * v * v, rtol=1e-5)
    expected = 2 * dx.asnumpy() * (-s * w + 6 * v) + c
    np.testing.assert_allclose(x.grad.asnumpy(), expected, rtol=1e-5)
    np.testing.assert_allclose(y.grad.asnumpy(), 2 * dx.asnumpy() * c, rtol=1e-5)


def test_gradients_of_gradients_of_random_draws_are_refused():
    a = nd.ones((3,))
    a.attach_grad()
    with autograd.record():
        y = CachedOp(sym.Dropout(sym.Variable("a"), p=0.5))(a)
        with pytest.raises(MXNetError, match="create_graph"):
            autograd.grad(y, [a], create_graph=True)


@pytest.mark.parametrize(
    "kept, factor",
    [(sym.LeakyReLU(sym.Variable("a"), slope=0.5), 0.5), (sym.Dropout(sym.Variable("a"), p=0), 1)],
)
def test_gradients_of_gradients_where_nothing_is_drawn(kept, factor):
    a = nd.array([1.0, -2.0])
    a.attach_grad()
    with autograd.record():
        y = CachedOp(kept * kept)(a)
        (slope,) = autograd.grad(y, [a], create_graph=True)
    slope.backward()
    np.testing.assert_allclose(a.grad.asnumpy(), [2, 2 * factor**2])


def test_flags_are_those_that_exist():
    assert CachedOp(sym.Variable("a") * 2, [("static_alloc", True), ("static_shape", True)])
    with pytest.raises(ArgumentError, match="no flag is named 'static_aloc'"):
        CachedOp(sym.Variable("a") * 2, [("static_aloc", True)])


def test_backward_twice():
    a = nd.array([1.0])
    a.attach_grad()
    op = CachedOp(sym.exp(sym.exp(sym.Variable("a"))))
    with autograd.record():
        y = op(a)
    y.backward(retain_graph=True)
    first = a.grad.asnumpy()
    y.backward()
    np.testing.assert_allclose(a.grad.asnumpy(), first, rtol=1e-6)
    drop = CachedOp(sym.Dropout(sym.Variable("a"), p=0.5))
    with autograd.record():
        y = drop(a)
    y.backward(retain_graph=True)
    first = a.grad.asnumpy()
    y.backward()
    np.testing.assert_array_equal(a.grad.asnumpy(), first)


def test_backward_reads_what_forward_kept_each_time():
    """Also when inputs were written meanwhile, as by an optimizer between two losses; outputs stay as they are."""
    x, w = nd.array([0.5, -1.0]), nd.array([1.0, 2.0])
    cached = CachedOp(sym.tanh(sym.tanh(sym.Variable("x") * sym.Variable("w")) * 2))
    results = []
    for f in (lambda x, w: nd.tanh(nd.tanh(x * w) * 2), cached):
        w[:] = [1.0, 2.0]
        for array in (x, w):
            array.attach_grad()
        with autograd.record():
            y = f(x, w)
        results.append([])
        for retained in (True, True, False):
            y.backward(retain_graph=retained)
            results[-1] += [x.grad.asnumpy(), w.grad.asnumpy(), y.asnumpy()]
            w[:] = w * 3
    for expected, got in zip(*results, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_backward_after_one_that_failed_is_refused():
    class Refused(autograd.Function):
        def forward(self, x):
            return x

        def backward(self, dy):
            raise ValueError("not yet")

    a = nd.array([1.0])
    a.attach_grad()
    with autograd.record():
        y = CachedOp(sym.exp(sym.exp(sym.Variable("a"))))(Refused()(a))
    with pytest.raises(ValueError, match="not yet"):
        y.backward()
    with pytest.raises(MXNetError, match="record the call again"):
        y.backward()


def test_dropout_masks_of_pending_calls_are_their_own():
    a = nd.ones((200,))
    a.attach_grad()
    op = CachedOp(sym.Dropout(sym.Variable("a"), p=0.5))
    with autograd.record():
        first, second = op(a), op(a)
        total = first * 1 + second * 10
    total.backward()
    np.testing.assert_array_equal(a.grad.asnumpy(), first.asnumpy() + 10 * second.asnumpy())


def test_shapes_that_depend_on_values():
    x, mask = sym.Variable("x"), sym.Variable("mask")
    kept = sym.contrib.boolean_mask(x * 3, mask)
    bn = sym.BatchNorm(kept, name="bn", fix_gamma=False, momentum=0.5)
    op = CachedOp(sym.Group([sym.sum(kept * kept), kept, bn[0], sym.zeros((1,))]))
    rows = nd.array([[1.0], [2.0], [3.0]])
    rows.attach_grad()
    states = [nd.zeros((1,)), nd.ones((1,))]
    for wanted in ([1, 0, 1], [0, 1, 0]):
        with autograd.record():
            total, chosen, _, nothing = op(rows, nd.array(wanted), nd.ones((1,)), nd.zeros((1,)), *states)
        assert nothing.asnumpy() == [0]
        expected = 3 * rows.asnumpy()[np.array(wanted, bool)]
        np.testing.assert_array_equal(chosen.asnumpy(), expected)
        total.backward()
        np.testing.assert_array_equal(rows.grad.asnumpy(), 18 * rows.asnumpy() * np.array(wanted)[:, None])
    assert states[0].asnumpy() == [(0 * 0.5 + 6 * 0.5) * 0.5 + 6 * 0.5]


def test_threads_with_weights_of_their_own_share_one_packed_copy():
    op = CachedOp(sym.FullyConnected(sym.Variable("x"), num_hidden=64, no_bias=True, name="fc"))
    x, weights = nd.ones((16, 64)), [nd.full((64, 64), value) for value in (1.0, 2.0)]
    wrong, over = [], threading.Event()

    def call(weight):
        expected = weight.asnumpy()[0, 0] * 64
        wrong.extend(y for y in [op(x, weight) for _ in range(400)] if (y.asnumpy() != expected).any())

    def wait():  # while somebody waits, pushes are held back
        while not over.is_set():
            nd.waitall()

    callers = [threading.Thread(target=call, args=(weight,)) for weight in weights]
    waiting = threading.Thread(target=wait)
    for thread in (waiting, *callers):
        thread.start()
    for thread in callers:
        thread.join()
    over.set()
    waiting.join()
    assert not wrong


def test_each_recorded_call_has_its_own_state_of_a_custom_operator():
    class Square(CustomOp):
        def forward(self, is_train, req, in_data, out_data, aux):
            self.x = in_data[0].asnumpy()
            self.assign(out_data[0], req[0], nd.array(self.x**2))

        def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
            self.assign(in_grad[0], req[0], nd.array(2 * self.x * out_grad[0].asnumpy()))

    @register("square_that_remembers")
    class SquareProp(CustomOpProp):
        def create_operator(self, ctx, shapes, types):
            return Square()

    x = sym.Variable("x")
    op = CachedOp(sym.Custom(sym.tanh(x), op_type="square_that_remembers") * 3)
    inputs = [nd.array([0.5, 1]), nd.array([-2, 0.1])]
    for each in inputs:
        each.attach_grad()
    with autograd.record():
        total = op(inputs[0]) + op(inputs[1])
    total.backward()
    for each in inputs:
        t = np.tanh(each.asnumpy())
        np.testing.assert_allclose(each.grad.asnumpy(), 6 * t * (1 - t * t), rtol=1e-5)


def test_a_name_that_utf8_does_not_have_is_escaped_in_messages():
    executor = sym.tanh(sym.Variable("a"), name="n\ud800").simple_bind(a=(2,))
    assert executor.forward()[0].shape == (2,)


def test_a_program_without_memory_of_its_own_after_one_with_some() -> None:
    """In training there is a value between two operators, else there is one operator."""
    op = CachedOp(sym.Dropout(sym.Variable("x") * 2, p=0.5))
    x = nd.ones((1000,))
    with autograd.train_mode():
        assert set(op(x).asnumpy().tolist()) == {0, 4}
    np.testing.assert_array_equal(op(x).asnumpy(), 2)


def test_a_gradient_among_the_inputs_counts_as_it_was_at_the_call() -> None:
    op = CachedOp(sym.Variable("a") * sym.Variable("b"))
    x, z = nd.array([1, 2]), nd.array([5, 6])
    x.attach_grad()
    z.attach_grad()
    for value in (2, 3):
        x.grad[:] = value
        with autograd.record():
            y = op(x.grad, z) + op(x, x)
        y.backward()
        assert z.grad.asnumpy().tolist() == [value, value]
        assert x.grad.asnumpy().tolist() == [2, 4]


def test_states_beside_gradients_in_one_piece_of_memory_are_updated() -> None:
    op = CachedOp(sym.BatchNorm(*map(sym.Variable, "xgbmv"), fix_gamma=False))
    memory = nd.zeros((6,))
    mean, var, grad = memory[0:2], memory[2:4], memory[4:6]
    gamma = nd.ones((2,))
    autograd.mark_variables([gamma], [grad])
    for expected in ([0.2, 0.35], [0.38, 0.665]):
        with autograd.record():
            y = op(nd.array([[1, 2], [3, 5]]), gamma, nd.zeros((2,)), mean, var)
        y.backward(nd.array([[1, 0], [0, 1]]))
        np.testing.assert_allclose(mean.asnumpy(), expected, rtol=1e-6)
        np.testing.assert_allclose(grad.asnumpy(), [-1, 1], rtol=1e-3)


def test_results_go_where_the_caller_says():
    x = sym.Variable("x")
    op = CachedOp(sym.Group([x * 2, x + 1]))
    into = [nd.zeros((2,)), nd.zeros((2,))]
    made = op(nd.array([1, 2]), out=into)
    assert made[0] is into[0]
    assert [each.asnumpy().tolist() for each in into] == [[2, 4], [2, 3]]
    alone, target = CachedOp(x * 3), nd.zeros((1,))
    given = nd.array([2])
    given.attach_grad()
    with autograd.record():
        result = alone(given, out=target)
    result.backward()
    assert (target.asscalar(), given.grad.asscalar()) == (6, 3)
    with pytest.raises(ArgumentError, match="out: expected 2 arrays, got 1"):
        op(nd.array([1, 2]), out=target)
