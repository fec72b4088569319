# SPDX-License-Identifier: Apache-2.0
"""Graphs with shapes that depend on values, bound and run."""

import numpy as np
import pytest

from mx_core.context import cpu
from mx_core.errors import ArgumentError, MXNetError, ShapeError
from mx_ndarray import autograd, nd
from mx_symbol import AttrScope, CachedOp, sym


def test_what_pieces_refuse():
    with pytest.raises(ArgumentError, match="memory_budget"):
        masked().simple_bind(memory_budget=10**6, x=(3, 2), mask=(3,))
    executor = masked().simple_bind(x=(3, 2), mask=(3,))
    for looked in (executor.memory_plan, executor.nodes, executor.partial_forward):
        with pytest.raises(MXNetError, match="partitions"):
            looked()


def test_on_several_devices():
    with AttrScope(ctx_group="one"):
        tripled = sym.Variable("x") * 3
    with AttrScope(ctx_group="two"):
        kept = sym.contrib.boolean_mask(tripled, sym.Variable("mask"), name="kept")
    groups = {"one": cpu(1), "two": cpu(2)}
    executor = sym.sum(kept).simple_bind(cpu(0), group2ctx=groups, grad_req={"x": "write"}, x=(3,), mask=(3,))
    (total,) = executor.forward(is_train=True, x=np.array([1, 2, 4]), mask=np.array([1, 0, 1]))
    assert total.asscalar() == 15
    executor.backward([nd.ones(total.shape)])
    assert executor.grad_dict["x"].asnumpy().tolist() == [3, 0, 3]
    assert executor.debug_str().count("Op:_CrossDeviceCopy") == 2


def masked():
    kept = sym.contrib.boolean_mask(sym.Variable("x") * 3, sym.Variable("mask"), name="kept")
    return sym.Group([sym.sum(kept * kept), kept])


def test_shapes_that_depend_on_values():
    executor = masked().simple_bind(grad_req={"x": "write"}, x=(3, 2), mask=(3,))
    rows = np.arange(6, dtype=np.float32).reshape(3, 2)
    assert executor.outputs == []
    for mask in ([1, 0, 1], [0, 1, 0], [1, 1, 1]):
        total, kept = executor.forward(is_train=True, x=rows, mask=np.array(mask))
        chosen = 3 * rows[np.array(mask, bool)]
        np.testing.assert_array_equal(kept.asnumpy(), chosen)
        assert total.asscalar() == (chosen**2).sum()
        executor.backward([nd.ones(total.shape), nd.zeros(kept.shape)])
        np.testing.assert_array_equal(executor.grad_dict["x"].asnumpy(), 18 * rows * np.array(mask)[:, None])
    with pytest.raises(ShapeError, match=r"out_grads\[1\]"):
        executor.backward([nd.ones((1,)), nd.zeros((9, 2))])


def test_backward_after_inference_and_twice():
    executor = masked().simple_bind(x=(2, 1), mask=(2,))
    executor.forward(x=np.array([[1.0], [2.0]]), mask=np.array([1, 0]))
    for _ in range(2):
        executor.backward([nd.ones(executor.outputs[0].shape), nd.zeros((1, 1))])
        assert executor.grad_dict["x"].asnumpy().tolist() == [[18], [0]]
        assert executor.grad_dict["mask"].asnumpy().tolist() == [0, 0]


def test_only_what_depends_on_values_runs_alone():
    op = CachedOp(masked())
    assert op._partitions is not None
    sizes = [len(partition.nodes) for partition in op._partitions.partitions]
    assert sizes == [1, 1, 2]  # the product; the mask; the square and the sum
    x = nd.array([[1.0], [2.0]])
    x.attach_grad()
    with autograd.record():
        total, _ = op(x, nd.array([0, 1]))
    total.backward()
    assert x.grad.asnumpy().tolist() == [[0], [36]]
