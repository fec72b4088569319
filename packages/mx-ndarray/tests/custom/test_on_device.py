# SPDX-License-Identifier: Apache-2.0
"""A custom operator on arrays of an accelerator: it gets arrays there, its results lie there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mx_core.context import Context
from mx_ndarray import autograd, nd
from mx_ndarray.custom import CustomOp, CustomOpProp, register

pytestmark = [pytest.mark.long, pytest.mark.timeout(120)]


class Affine(CustomOp):
    def __init__(self, seen: list[Context]) -> None:
        self.seen = seen

    def forward(self, is_train: bool, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
        self.seen += [in_data[0].context, out_data[0].context, aux[0].context]
        self.assign(out_data[0], req[0], in_data[0] * 2 + 1)
        aux[0][:] = nd.ones((1,), ctx=aux[0].context) * 7

    def backward(self, req: Any, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any) -> None:
        self.assign(in_grad[0], req[0], out_grad[0] * 2)


SEEN: list[Context] = []


@register("device_affine")
class AffineProp(CustomOpProp):
    def list_auxiliary_states(self) -> list[str]:
        return ["state"]

    def infer_shape(self, in_shape: Any) -> Any:
        return in_shape, in_shape, [[1]]

    def create_operator(self, ctx: Any, in_shapes: Any, in_dtypes: Any) -> CustomOp:
        assert ctx == "test_device(0)"
        return Affine(SEEN)


def test_custom_operator(device: Context) -> None:
    x = nd.array(np.arange(6).reshape(2, 3), ctx=device)
    state = nd.zeros((1,), ctx=device)
    x.attach_grad()
    with autograd.record():
        y = nd.Custom(x * 3, state, op_type="device_affine")
        z = y * y
    z.backward()
    assert y.context == device and x.grad.context == device
    expected = np.arange(6).reshape(2, 3) * 6 + 1
    np.testing.assert_array_equal(y.asnumpy(), expected)
    np.testing.assert_array_equal(x.grad.asnumpy(), 2 * expected * 6)
    assert state.asnumpy().tolist() == [7]
    assert set(SEEN) == {device}
