# SPDX-License-Identifier: Apache-2.0
"""Code of the program on a GPU, real or fake: custom operators, functions, arrays lent to others; see `plans.py`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

from mx_core import cpu, gpu, num_gpus, plugins
from mx_core.errors import ArgumentError, MXNetError
from mx_core.kernels import KernelCall
from mx_core.plugins.registrars import KernelRegistrar
from mx_core.plugins.registries import Provenance, Transaction
from mx_ndarray import autograd, invoke_capsule, nd, waitall
from mx_ndarray.custom import CustomOp, CustomOpProp, register
from mx_operators_cuda import CapturedStep, _native
from testkit import cupy_like

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


class SquareByCupy(CustomOp):
    """x² by another library: in the arrays of mx, and in arrays of its own."""

    def forward(self, is_train: bool, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
        import cupy

        x = cupy.asarray(in_data[0])
        cupy.multiply(x, x, out=cupy.asarray(out_data[0]))

    def backward(self, req: Any, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any) -> None:
        import cupy

        twice = cupy.asarray(in_data[0] * 2)
        self.assign(in_grad[0], req[0], cupy.multiply(twice, cupy.asarray(out_grad[0])))


@register("test_square_by_cupy")
class SquareByCupyProp(CustomOpProp):
    def create_operator(self, ctx: Any, shapes: Any, dtypes: Any) -> CustomOp:
        return SquareByCupy()


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setitem(sys.modules, "cupy", cupy_like.module())
    return sys.modules["cupy"]


def test_cupy_in_a_custom_operator(ctx: Any, cupy: Any) -> None:
    x = nd.array(X, ctx=ctx)
    x.attach_grad()
    for step in range(3):
        with autograd.record():
            y = nd.Custom(x + step, op_type="test_square_by_cupy") * 3
        y.backward()
        np.testing.assert_allclose(y.asnumpy(), 3 * (X + step) ** 2, rtol=1e-5)
        np.testing.assert_allclose(x.grad.asnumpy(), 6 * (X + step), rtol=1e-5)
    if hasattr(cupy, "library"):  # it got the stream that computes
        assert set(cupy.library.streams_used) == {_native.Device.stream(ctx.device_id)}


def test_cupy_in_a_graph(ctx: Any, cupy: Any) -> None:
    sym = pytest.importorskip("mx_symbol").sym
    net = sym.Custom(sym.Variable("x") * 2, name="square", op_type="test_square_by_cupy")
    executor = sym.sum(net).simple_bind(ctx, x=X.shape)
    for step in range(3):
        (out,) = executor.forward(is_train=True, x=X + step)
        executor.backward([nd.ones((1,), ctx=ctx)])
        np.testing.assert_allclose(out.asnumpy(), [(4 * (X + step) ** 2).sum()], rtol=1e-5)
        np.testing.assert_allclose(executor.grad_dict["x"].asnumpy(), 8 * (X + step), rtol=1e-5)


def test_a_stream_of_the_operators_own(ctx: Any, cupy: Any) -> None:
    """What it enqueued on any stream has ended when its results are read."""
    if not hasattr(cupy, "library"):
        pytest.skip("CuPy itself chooses its stream")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cupy.cuda, "ExternalStream", lambda handle, device: nullcontext())
        y = nd.Custom(nd.array(X, ctx=ctx), op_type="test_square_by_cupy")
        np.testing.assert_allclose((y + 1).asnumpy(), X * X + 1, rtol=1e-5)
    assert cupy.library.streams_used[-1] != _native.Device.stream(ctx.device_id)


def test_memory_as_other_libraries_see_it(ctx: Any) -> None:
    x = nd.array(X, ctx=ctx)[1:]
    about = x.__cuda_array_interface__
    assert about["shape"] == (2, 4) and about["typestr"] == "<f4" and about["version"] == 3
    assert about["data"] == (nd.from_dlpack(x).__cuda_array_interface__["data"][0], False)
    assert not hasattr(nd.array(X), "__cuda_array_interface__")
    assert not hasattr(nd.array(X, ctx=ctx, dtype="bfloat16"), "__cuda_array_interface__")


def test_arrays_of_another_library_are_assigned(ctx: Any, cupy: Any) -> None:
    x = cupy.asarray(nd.array(X, ctx=ctx))
    if not hasattr(x, "__dlpack__"):
        pytest.skip("it lends nothing")
    y = nd.zeros((4, 4), ctx=ctx)
    y[1:] = cupy.multiply(x, x)
    wanted = np.concatenate([np.zeros((1, 4)), X * X])
    np.testing.assert_allclose(y.asnumpy(), wanted, rtol=1e-5)
    host = nd.zeros((3, 4))
    host[:] = cupy.multiply(x, x)
    np.testing.assert_allclose(host.asnumpy(), X * X, rtol=1e-5)


@pytest.fixture
def by_cupy(cupy: Any) -> Iterator[None]:
    """A plug-in whose kernel of `square` for GPUs is a function over arrays of another library."""

    def make(call: KernelCall) -> Any:
        def run(context: Any, inputs: Any) -> Any:
            x = cupy.asarray(inputs[0])
            return [cupy.multiply(x, x)]

        return run

    transaction = Transaction(Provenance("test_by_cupy", "tests", "0"))
    KernelRegistrar(transaction).add("square", "gpu", "by_cupy", make, priority=200)
    registries = {kind: plugins.registry(kind) for kind in ("kernels",)}
    transaction.commit(registries)
    yield
    for entry in transaction.staged:
        for table in (registries["kernels"]._entries, registries["kernels"]._by_key):
            table.pop(entry.name, None)
    registries["kernels"]._sorted = None


def test_a_kernel_of_a_plug_in(ctx: Any, by_cupy: None) -> None:
    """Of a shape that no other test has prepared, imperative and in a graph."""
    values = np.linspace(-1, 1, 21, dtype=np.float32).reshape(7, 3)
    x = nd.array(values, ctx=ctx)
    np.testing.assert_allclose((nd.square(x + 1) * 2).asnumpy(), 2 * (values + 1) ** 2, rtol=1e-5)
    sym = pytest.importorskip("mx_symbol").sym
    executor = (sym.square(sym.Variable("x") + 1) * 2).bind(ctx, {"x": x})
    np.testing.assert_allclose(executor.forward()[0].asnumpy(), 2 * (values + 1) ** 2, rtol=1e-5)


class Refusing(CustomOp):
    def forward(self, is_train: bool, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
        raise ValueError("no square today")


@register("test_refusing_on_gpu")
class RefusingProp(CustomOpProp):
    def create_operator(self, ctx: Any, shapes: Any, dtypes: Any) -> CustomOp:
        return Refusing()


def test_an_error_of_a_custom_operator(ctx: Any) -> None:
    x = nd.array(X, ctx=ctx)
    y = nd.Custom(x, op_type="test_refusing_on_gpu") + 1
    with pytest.raises(ValueError, match="no square today") as caught:
        y.asnumpy()
    assert "Custom" in "".join([str(caught.value), *getattr(caught.value, "__notes__", [])])
    np.testing.assert_array_equal((x + 1).asnumpy(), X + 1)


def test_a_custom_operator_is_no_part_of_a_captured_step(ctx: Any) -> None:
    x = nd.array(X, ctx=ctx)
    step = CapturedStep(lambda: nd.Custom(x, nd.zeros((1,), ctx=ctx), op_type="test_square_on_gpu"),
                        invoke=invoke_capsule(), ctx=ctx)  # fmt: skip
    np.testing.assert_allclose(step().asnumpy(), X * X, rtol=1e-5)
    with pytest.raises(MXNetError, match="cannot be captured"):
        step().asnumpy()
    np.testing.assert_array_equal((x + 1).asnumpy(), X + 1)


def test_arrays_of_a_custom_operator_are_on_one_device(ctx: Any) -> None:
    with pytest.raises(ArgumentError, match=re.escape(f"expected arrays on {ctx}, got one on cpu(0)")):
        nd.Custom(nd.array(X, ctx=ctx), nd.zeros((1,)), op_type="test_square_on_gpu")


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


def test_memory_that_nobody_keeps(ctx: Any) -> None:
    x = nd.array(X, ctx=ctx)
    for _ in range(50):  # who frees it needs the interpreter, which the thread that waits for the values has
        np.testing.assert_allclose((nd.from_dlpack(x) * 2).asnumpy(), 2 * X, rtol=1e-6)


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
    made = nd.array(foreign, ctx=ctx)  # a copy
    np.testing.assert_array_equal((made + 1).asnumpy(), X + 1)
    assert made.context == ctx and nd.array(foreign).context == cpu()


def test_numpy_is_not_lent_memory_of_a_gpu(ctx: Any) -> None:
    x = nd.array(X, ctx=ctx)
    with pytest.raises((BufferError, RuntimeError, ArgumentError)):
        np.from_dlpack(x)
    capsule = x.to_dlpack_for_read()
    assert nd.from_dlpack(capsule).as_in_context(cpu()).asnumpy().tolist() == X.tolist()
    with pytest.raises(ArgumentError, match="nobody has consumed"):
        nd.from_dlpack(capsule)
