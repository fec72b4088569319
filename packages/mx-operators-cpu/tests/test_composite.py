# SPDX-License-Identifier: Apache-2.0
"""Kernels made of several plans: slopes that are learnt, losses, norms; and the composite itself."""

from __future__ import annotations

import numpy as np
import plans
import pytest

from mx_core import expression as X
from mx_core import operators
from mx_core.errors import IndexOutOfBoundsError, MXNetError
from mx_core.testing import check_kernel
from mx_operators_cpu.library import native

RTOL = {"float32": 1e-5, "float64": 1e-11, "float16": 4e-3, "bfloat16": 4e-2}
types = pytest.mark.parametrize("dtype", plans.FLOATS)


@types
@pytest.mark.parametrize(
    ("shape", "slopes"), [((3, 4, 5), 4), ((3, 4), 4), ((3, 4, 2, 2), 1), ((5,), 1), ((2, 1, 3), 1)]
)
def test_prelu(rng: np.random.Generator, dtype: str, shape: tuple[int, ...], slopes: int) -> None:
    x, g, gamma = (plans.array(rng, s, dtype) for s in (shape, shape, (slopes,)))
    attrs = {"act_type": "prelu"}
    plans.verify("LeakyReLU", attrs, [x, gamma], rtol=RTOL[dtype])
    plans.verify("_backward_LeakyReLU", attrs, [g, x, gamma], rtol=RTOL[dtype] * 4)


def test_the_gradient_of_prelu_may_lie_where_the_out_gradient_was() -> None:
    done = check_kernel(
        "_backward_LeakyReLU", {"act_type": "prelu"}, [(2, 3, 4), (2, 3, 4), (3,)], variant="vector"
    )
    assert any(checked.request == "output 0 in place of input 0" for checked in done)


@pytest.mark.parametrize("label", [-1, 5])
def test_labels_of_no_class(label: int) -> None:
    op = operators.get("softmax_cross_entropy")
    inputs = [np.ones((1, 5), np.float32), np.array([label], np.float32)]
    plan = plans.plan_of(plans.call_of(op, op.Param(), inputs))
    with pytest.raises(IndexOutOfBoundsError, match=rf"\[softmax_cross_entropy\] index {label} .* extent 5"):
        plans.run(plan, inputs, [np.zeros(1, np.float32)], [plans.WRITE])


@types
@pytest.mark.parametrize("name", ["Linear", "Logistic", "MAE"])
@pytest.mark.parametrize(
    ("shape", "label"), [((4, 3), (4, 3)), ((6, 1), (6,)), ((5,), (5,)), ((0, 3), (0, 3))]
)
def test_regression_outputs(
    rng: np.random.Generator, dtype: str, name: str, shape: tuple[int, ...], label: tuple[int, ...]
) -> None:
    data, labels = plans.array(rng, shape, dtype), plans.array(rng, label, dtype)
    plans.verify(f"{name}RegressionOutput", {}, [data, labels], rtol=RTOL[dtype])
    attrs = {"grad_scale": 0.3}
    plans.verify(f"_backward_{name}RegressionOutput", attrs, [labels, data], rtol=RTOL[dtype])


@types
def test_softmax_cross_entropy(rng: np.random.Generator, dtype: str) -> None:
    data, g = plans.array(rng, (7, 5), dtype), plans.array(rng, (1,), dtype)
    label = rng.integers(0, 5, 7).astype(data.dtype)
    data[0] *= 50
    plans.verify("softmax_cross_entropy", {}, [data, label], rtol=RTOL[dtype])
    plans.verify("_backward_softmax_cross_entropy", {}, [g, data, label], rtol=RTOL[dtype])


@types
@pytest.mark.parametrize(
    ("mode", "shape"),
    [("instance", (3, 4)), ("channel", (3, 4, 2, 5)), ("spatial", (3, 4, 2, 5)), ("instance", (5,))],
)
def test_l2_normalization(rng: np.random.Generator, dtype: str, mode: str, shape: tuple[int, ...]) -> None:
    x, g = plans.array(rng, shape, dtype), plans.array(rng, shape, dtype)
    plans.verify("L2Normalization", {"mode": mode, "eps": 1e-3}, [x], rtol=RTOL[dtype])
    axes = {"instance": range(1, len(shape)), "channel": (1,), "spatial": range(2, len(shape))}[mode]
    norm = np.sqrt((x.astype(np.float64) ** 2).sum(tuple(axes), keepdims=True) + 1e-3).astype(x.dtype)
    y = (x.astype(np.float64) / norm.astype(np.float64)).astype(x.dtype)
    plans.verify("_backward_L2Normalization", {"mode": mode}, [g, y, norm], rtol=RTOL[dtype] * 4)


@types
def test_div_sqrt_dim(rng: np.random.Generator, dtype: str) -> None:
    plans.verify("_contrib_div_sqrt_dim", {}, [plans.array(rng, (3, 7), dtype)], rtol=RTOL[dtype])


def test_parts_must_read_what_is_there() -> None:
    spec = ((4,), 0)
    plan = native.expression_plan(X.trace(X.exp, 1).serialized, [spec], [spec])
    good = native.composite_plan(
        [spec], [spec], [spec], [(plan, [0], [2], [], False), (plan, [2], [1], [], False)]
    )
    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
    plans.run(good, [x], [y], [plans.WRITE])
    np.testing.assert_allclose(y, np.exp(np.exp(x)), rtol=1e-6)
    for inputs, outputs in (([2], [1]), ([0], [0]), ([7], [1]), ([0], [9]), ([1], [2])):
        with pytest.raises(MXNetError, match="composite"):
            native.composite_plan([spec], [spec], [spec], [(plan, inputs, outputs, [], False)])


def test_parts_may_be_given_what_nobody_made_where_it_does_not_matter() -> None:
    spec = ((4,), 0)
    plan = native.expression_plan(X.trace(lambda x, y: X.exp(x), 2).serialized, [spec, spec], [spec])
    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
    parts = [(plan, [0, 2], [1], [], False)]
    plans.run(native.composite_plan([spec], [spec], [spec], parts, blank=[2]), [x], [y], [plans.WRITE])
    np.testing.assert_allclose(y, np.exp(x), rtol=1e-6)
    for blank in ([], [1], [3]):
        with pytest.raises(MXNetError, match="composite"):
            native.composite_plan([spec], [spec], [spec], parts, blank=blank)


def test_parts_of_another_size_are_refused_when_they_run() -> None:
    spec, other = ((4,), 0), ((5,), 0)
    plan = native.expression_plan(X.trace(X.exp, 1).serialized, [other], [other])
    wrong = native.composite_plan([spec], [spec], [], [(plan, [0], [1], [], False)])
    with pytest.raises(MXNetError, match="20 bytes"):
        plans.run(wrong, [np.ones(4, np.float32)], [np.zeros(4, np.float32)], [plans.WRITE])
