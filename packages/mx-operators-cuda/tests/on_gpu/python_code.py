# SPDX-License-Identifier: Apache-2.0
"""Code of the program on a GPU, real or fake: custom operators, functions, arrays lent to others; see `plans.py`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mx_core import cpu, gpu, num_gpus
from mx_core.errors import ArgumentError
from mx_ndarray import autograd, nd, waitall
from mx_ndarray.custom import CustomOp, CustomOpProp, register

GPUS = range(min(num_gpus(), 2))
X = np.random.default_rng(5).normal(size=(3, 4)).astype(np.float32)


@pytest.fixture(params=GPUS, ids=[f"gpu{i}" for i in GPUS])
def ctx(request: Any) -> Any:
    return gpu(request.param)


class Square(CustomOp):
    """x², with operators of the GPU; counts its calls in an auxiliary state."""

    def forward(self, is_train: bool, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
        assert {array.context for array in (*in_data, *out_data, *aux)} == {in_data[0].context}
        self.assign(out_data[0], req[0], in_data[0] * in_data[0])
        aux[0][:] += 1

    def backward(self, req: Any, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any) -> None:
        self.assign(in_grad[0], req[0], 2 * in_data[0] * out_grad[0])


@register("test_square_on_gpu")
class SquareProp(CustomOpProp):
    def list_auxiliary_states(self) -> list[str]:
        return ["calls"]

    def infer_shape(self, in_shape: Any) -> Any:
        return in_shape, in_shape, [[1]]

    def create_operator(self, ctx: Any, shapes: Any, dtypes: Any) -> CustomOp:
        return Square()


def test_a_custom_operator(ctx: Any) -> None:
    x, calls = nd.array(X, ctx=ctx), nd.zeros((1,), ctx=ctx)
    x.attach_grad()
    with autograd.record():
        y = nd.tanh(nd.Custom(x + 0, calls, op_type="test_square_on_gpu"))
    y.backward()
    assert y.context == x.grad.context == ctx
    np.testing.assert_allclose(y.asnumpy(), np.tanh(X * X), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(x.grad.asnumpy(), (1 - np.tanh(X * X) ** 2) * 2 * X, rtol=1e-4, atol=1e-5)
    assert calls.asscalar() == 1


def test_a_custom_operator_in_a_graph(ctx: Any) -> None:
    sym = pytest.importorskip("mx_symbol").sym
    net = sym.Custom(sym.Variable("x") * 2, name="square", op_type="test_square_on_gpu")
    executor = sym.sum(net).simple_bind(ctx, x=X.shape)
    for step in range(3):
        (out,) = executor.forward(is_train=True, x=X)
        executor.backward([nd.ones((1,), ctx=ctx)])
        np.testing.assert_allclose(out.asnumpy(), [(4 * X * X).sum()], rtol=1e-5)
        np.testing.assert_allclose(executor.grad_dict["x"].asnumpy(), 8 * X, rtol=1e-5)
        assert executor.aux_arrays[0].asscalar() == step + 1


class Sigmoid(autograd.Function):
    def forward(self, x: Any) -> Any:
        y = 1 / (1 + nd.exp(-x))
        self.save_for_backward(y)
        return y

    def backward(self, dy: Any) -> Any:
        (y,) = self.saved_tensors
        return dy * y * (1 - y)


def test_a_function(ctx: Any) -> None:
    x = nd.array(X, ctx=ctx)
    x.attach_grad()
    with autograd.record():
        y = Sigmoid()(x) * 3
    y.backward()
    wanted = 1 / (1 + np.exp(-X))
    np.testing.assert_allclose(y.asnumpy(), 3 * wanted, rtol=1e-5)
    np.testing.assert_allclose(x.grad.asnumpy(), 3 * wanted * (1 - wanted), rtol=1e-4, atol=1e-6)


def test_memory_that_is_lent(ctx: Any) -> None:
    x = nd.array(X, ctx=ctx)
    x += 1  # on its way when the memory is handed over
    assert x.__dlpack_device__() == (2, ctx.device_id)
    lent = nd.from_dlpack(x)
    assert lent.context == ctx
    np.testing.assert_allclose(lent.asnumpy(), X + 1, rtol=1e-6)
    lent *= 2
    waitall()
    np.testing.assert_allclose(x.asnumpy(), 2 * (X + 1), rtol=1e-6)
    apart = nd.from_dlpack(x, copy=True)
    del x
    apart += 1
    np.testing.assert_allclose(lent.asnumpy(), 2 * (X + 1), rtol=1e-6)
    np.testing.assert_allclose(apart.asnumpy(), 2 * (X + 1) + 1, rtol=1e-6)
    part = nd.from_dlpack(lent[1:].to_dlpack_for_read())
    del lent
    np.testing.assert_allclose(part.asnumpy(), 2 * (X[1:] + 1), rtol=1e-6)


class Foreign:
    """An array of another library, which is told on which stream it will be read."""

    def __init__(self, array: Any) -> None:
        self.array, self.streams = array, []

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()

    def __dlpack__(self, stream: int | None = None) -> Any:
        self.streams.append(stream)
        return self.array.to_dlpack_for_read()


def test_a_producer_learns_the_stream(ctx: Any) -> None:
    foreign = Foreign(nd.array(X, ctx=ctx))
    np.testing.assert_array_equal(nd.from_dlpack(foreign).asnumpy(), X)
    assert len(foreign.streams) == 1 and foreign.streams[0] not in (None, 0)


def test_numpy_is_not_lent_memory_of_a_gpu(ctx: Any) -> None:
    x = nd.array(X, ctx=ctx)
    with pytest.raises((BufferError, RuntimeError, ArgumentError)):
        np.from_dlpack(x)
    capsule = x.to_dlpack_for_read()
    assert nd.from_dlpack(capsule).as_in_context(cpu()).asnumpy().tolist() == X.tolist()
    with pytest.raises(ArgumentError, match="nobody has consumed"):
        nd.from_dlpack(capsule)
