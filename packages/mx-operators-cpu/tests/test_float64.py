# SPDX-License-Identifier: Apache-2.0
"""Layers in float64, which loops of ours compute, and their gradients, against the references."""

from __future__ import annotations

from typing import Any

import layer_plans
import numpy as np
import pytest

from mx_core import operators
from mx_core.operator import ReferenceContext
from mx_operators_cpu.library import native


def _verify(name: str, attrs: dict[str, Any], *shapes: tuple[int, ...], **more: Any) -> None:
    rng = np.random.default_rng(4)
    layer_plans.verify(name, attrs, [rng.standard_normal(s) for s in shapes], rtol=1e-12, atol=1e-12, **more)


@pytest.mark.parametrize("no_bias", [False, True])
@pytest.mark.parametrize(("rows", "depth", "hidden"), [(1, 1, 1), (3, 5, 50), (33, 300, 65), (300, 7, 130)])
def test_fully_connected(rows: int, depth: int, hidden: int, no_bias: bool) -> None:
    shapes = ((rows, depth), (hidden, depth), (hidden,))[: 2 if no_bias else 3]
    _verify("FullyConnected", {"num_hidden": hidden, "no_bias": no_bias}, *shapes)


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize(("m", "k", "n"), [(1, 1, 1), (9, 131, 25), (270, 40, 49), (8, 24, 24), (2, 1100, 3)])
def test_dot(m: int, k: int, n: int, transpose_a: bool, transpose_b: bool) -> None:
    attrs = {"transpose_a": transpose_a, "transpose_b": transpose_b}
    lhs, rhs = (k, m) if transpose_a else (m, k), (n, k) if transpose_b else (k, n)
    _verify("dot", attrs, lhs, rhs)
    _verify("batch_dot", attrs, (3, *lhs), (3, *rhs))
    _verify("_linalg_gemm2", attrs | {"alpha": -2.5}, (2, *lhs), (2, *rhs), gradient=False)
    _verify("_linalg_gemm", attrs | {"alpha": 3.0, "beta": 0.5}, lhs, rhs, (m, n), gradient=False)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_of_nothing(dtype: Any) -> None:
    """Sums over no element are 0; products without elements write nothing."""
    code = {np.float32: 0, np.float64: 1}[dtype]
    for m, k, n in ((3, 0, 4), (0, 3, 4), (3, 4, 0), (0, 0, 0), (0, 900, 900), (900, 900, 0)):
        given = [np.ones((2, m, k), dtype), np.ones((2, k, n), dtype)]
        out = np.full((2, m, n), 7, dtype)
        plan = native.product_plan(
            [(x.shape, code) for x in given], [(out.shape, code)],
            batch=2, m=m, k=k, n=n, transpose_a=False, transpose_b=False,
        )  # fmt: skip
        layer_plans.run(plan, given, [out])
        assert not out.any()


#: kernel, stride, dilate, pad, spatial extents
WINDOWS = [
    ((3, 3), (1, 1), (1, 1), (1, 1), (5, 9)),
    ((3, 2), (2, 3), (1, 2), (0, 4), (8, 7)),
    ((1, 1), (1, 1), (1, 1), (0, 0), (6, 31)),
    ((2, 2), (3, 3), (1, 1), (1, 0), (9, 8)),
    ((3,), (1,), (3,), (2,), (40,)),
    ((4,), (7,), (1,), (3,), (5,)),
    ((3, 1, 2), (1, 2, 1), (1, 1, 1), (1, 0, 1), (3, 4, 5)),
]


@pytest.mark.parametrize("no_bias", [False, True])
@pytest.mark.parametrize("groups", [1, 3, 6])
@pytest.mark.parametrize(
    ("window", "last"), [*((w, False) for w in WINDOWS), *((w, True) for w in WINDOWS if len(w[0]) > 1)]
)
def test_convolution(window: tuple[tuple[int, ...], ...], groups: int, last: bool, no_bias: bool) -> None:
    kernel, stride, dilate, pad, sizes = window
    attrs = {
        "kernel": kernel, "stride": stride, "dilate": dilate, "pad": pad, "num_filter": 12, "num_group": groups,
        "no_bias": no_bias,
    }  # fmt: skip
    if last:
        attrs["layout"] = {2: "NHWC", 3: "NDHWC"}[len(kernel)]
    data = (2, *sizes, 6) if last else (2, 6, *sizes)
    weight = (12, *kernel, 6 // groups) if last else (12, 6 // groups, *kernel)
    _verify("Convolution", attrs, *(data, weight, (12,))[: 2 if no_bias else 3])


@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("window", WINDOWS)
def test_deconvolution(window: tuple[tuple[int, ...], ...], groups: int) -> None:
    kernel, stride, dilate, pad, sizes = window
    pad = tuple(min(p, (k - 1) * d // 2) for p, k, d in zip(pad, kernel, dilate, strict=True))
    attrs = {
        "kernel": kernel, "stride": stride, "dilate": dilate, "pad": pad, "num_filter": 9, "num_group": groups,
        "no_bias": False, "adj": tuple(s - 1 for s in stride),
    }  # fmt: skip
    _verify("Deconvolution", attrs, (2, 6, *sizes), (6, 9 // groups, *kernel), (9,))


@pytest.mark.parametrize("place", [(0, 0), (0, -1), (-1, -1)])
def test_gradients_of_filters_see_what_their_taps_see(place: tuple[int, int]) -> None:
    """Lines of padded images have columns that belong to no window."""
    op = operators.get("_backward_Convolution")
    p = op.Param.parse({"kernel": (3, 3), "num_filter": 8, "no_bias": True}, op=op.name)
    rng = np.random.default_rng(4)
    head, data, weight = (rng.standard_normal(s) for s in ((2, 8, 7, 9), (2, 5, 9, 11), (8, 5, 3, 3)))
    data[0, 2][place] = np.nan
    expected = op.reference(p, [head, data, weight], ReferenceContext(True, ()))
    layer_plans.compare(op, p, [head, data, weight], list(expected), rtol=1e-12, atol=1e-12)


def test_a_convolution_larger_than_its_blocks() -> None:
    attrs = {"kernel": (3, 3), "pad": (1, 1), "num_filter": 300, "no_bias": True}
    _verify("Convolution", attrs, (1, 40, 20, 30), (300, 40, 3, 3))


POOLINGS = [{"pool_type": "max"}, {"pool_type": "avg"}, {"pool_type": "avg", "count_include_pad": False},
            {"pool_type": "sum"}, {"pool_type": "lp", "p_value": 2}, {"pool_type": "lp", "p_value": 3}]  # fmt: skip


@pytest.mark.parametrize("kind", POOLINGS)
@pytest.mark.parametrize(
    ("sizes", "window"),
    [
        ((7, 8), {"kernel": (2, 3), "stride": (2, 1)}),
        ((9, 150), {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1)}),
        ((8, 7), {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1), "pooling_convention": "full"}),
        ((40,), {"kernel": (3,), "stride": (2,), "pooling_convention": "same"}),
        ((4, 5, 6), {"kernel": (2, 2, 3), "stride": (2, 2, 2)}),
        ((5, 66), {"global_pool": True}),
        ((1300,), {"global_pool": True}),
        ((3,), {"global_pool": True}),
        ((9, 13), {"global_pool": True}),
        ((3, 5), {"global_pool": True}),
        ((700,), {"kernel": (600,), "stride": (7,)}),
        ((3, 400), {"kernel": (2, 5), "stride": (1, 3), "pad": (1, 2)}),
        ((37, 28), {"kernel": (3, 3), "stride": (1, 2)}),
        ((50, 490), {"kernel": (2, 9), "stride": (2, 8), "pad": (1, 4)}),
        ((9, 11, 21), {"kernel": (4, 3, 5), "stride": (2, 2, 4), "pad": (3, 2, 4)}),
    ],
)
def test_pooling(kind: dict[str, Any], sizes: tuple[int, ...], window: dict[str, Any]) -> None:
    _verify("Pooling", kind | window, (2, 3, *sizes))
    if kind["pool_type"] != "lp" and len(sizes) > 1:
        layout = {2: "NHWC", 3: "NDHWC"}[len(sizes)]
        _verify("Pooling", kind | window | {"layout": layout}, (2, *sizes, 70))


def test_maxima_of_equals_pass_over_what_is_no_number() -> None:
    data = np.zeros((1, 2, 6, 30))
    data[0, 1, 2, 3] = np.nan
    attrs = {"pool_type": "max", "kernel": (3, 3), "stride": (2, 2)}
    for dtype in ("float64", "float32"):
        for more in ({}, {"pooling_convention": "full"}):
            layer_plans.verify("Pooling", attrs | more, [data.astype(dtype)], rtol=0, atol=0)
    data[0, 0, 2:5, 2:5] = np.nan  # a window of nothing else
    for more in ({}, {"global_pool": True}):
        layer_plans.verify("Pooling", attrs | more, [data], rtol=0, atol=0)


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "softmin"])
@pytest.mark.parametrize("temperature", [None, 0.3, -2.0])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((3, 5), -1), ((2, 200), 1), ((1000,), 0), ((7, 4, 70), 1), ((5, 1, 3), 0), ((4, 1), 1)],
)
def test_softmax(name: str, shape: tuple[int, ...], axis: int, temperature: float | None) -> None:
    attrs = {"axis": axis} | ({} if temperature is None else {"temperature": temperature})
    _verify(name, attrs, shape)


def test_softmax_of_extremes() -> None:
    data = np.array([[1e307, -1e307, 0], [-np.inf, 1, 2], [700, 0, -800], [-750.0, -745.0, 5.0]])
    for name in ("softmax", "log_softmax"):
        layer_plans.verify(name, {}, [data], rtol=1e-12, atol=1e-300, gradient=False)


def test_softmax_of_large_numbers_with_a_temperature() -> None:
    """The largest has the exponent 0, though a fused multiplication rounds otherwise than its parts."""
    rows = np.array([[-1e22, -1e22], [1e22, 1e21], [1e19, 1e19], [1e6, 1e6], [1e16, 1e16]])
    probabilities = np.array([[0.5, 0.5], [1, 0], [0.5, 0.5], [0.5, 0.5], [0.5, 0.5]])
    logarithms = np.array([[-np.log(2)] * 2, [0, -9e21 / 3]] + [[-np.log(2)] * 2] * 3)
    for name, expected in (("softmax", probabilities), ("log_softmax", logarithms)):
        for axis, turned in ((1, np.array), (0, lambda x: np.array(x.T, order="C"))):
            op = operators.get(name)
            p = op.Param.parse({"axis": axis, "temperature": 3.0}, op=name)
            layer_plans.compare(op, p, [turned(rows)], [turned(expected)], rtol=1e-15, atol=0)


@pytest.mark.parametrize(("row", "temperature"), [([1e300, 1e299], 1e-10), ([2.0, 1.0], 1e-310)])
def test_softmax_where_numbers_over_the_temperature_overflow(row: list[float], temperature: float) -> None:
    op = operators.get("softmax")
    p = op.Param.parse({"temperature": temperature}, op="softmax")
    layer_plans.compare(op, p, [np.array([row])], [np.array([[1.0, 0.0]])], rtol=0, atol=0)


@pytest.mark.parametrize("more", [{}, {"multi_output": True}, {"use_ignore": True, "normalization": "valid"},
                                  {"smooth_alpha": 0.1}, {"preserve_shape": True}])  # fmt: skip
def test_softmax_output(more: dict[str, Any]) -> None:
    rng = np.random.default_rng(6)
    shape = (4, 5) if "preserve_shape" not in more else (4, 3, 5)
    if "multi_output" in more:
        shape = (4, 5, 3)
    labels = (4, 3) if len(shape) == 3 else (4,)
    label = rng.integers(0, 5, labels).astype(np.float64)
    attrs = {"grad_scale": 0.7, "ignore_label": 2.0, **more}
    layer_plans.verify("SoftmaxOutput", attrs, [rng.standard_normal(shape), label], rtol=1e-12, atol=1e-12)
    _verify("SoftmaxActivation", {"mode": "channel"}, (2, 3, 4, 5))


@pytest.mark.parametrize(("shape", "axis"), [((6, 70), -1), ((3, 7, 70), 1), ((2, 1, 5), 1), ((200, 3), 0)])
def test_layer_norm(shape: tuple[int, ...], axis: int) -> None:
    _verify("LayerNorm", {"axis": axis}, shape, (shape[axis],), (shape[axis],))


@pytest.mark.parametrize("shape", [(2, 6, 5, 7), (3, 6, 1), (1, 6, 900)])
def test_group_and_instance_norm(shape: tuple[int, ...]) -> None:
    _verify("GroupNorm", {"num_groups": 3}, shape, (3,), (3,))
    _verify("InstanceNorm", {}, shape, (6,), (6,))


@pytest.mark.parametrize("is_train", [False, True])
@pytest.mark.parametrize("more", [{}, {"fix_gamma": False}, {"fix_gamma": False, "use_global_stats": True}])
@pytest.mark.parametrize(
    ("shape", "axis"), [((4, 70, 3, 5), 1), ((9, 3, 130), -1), ((5, 6), 1), ((3, 4, 50, 70), 1)]
)
def test_batch_norm(shape: tuple[int, ...], axis: int, more: dict[str, Any], is_train: bool) -> None:
    rng = np.random.default_rng(4)
    channels = (shape[axis],)
    inputs = [rng.standard_normal(s) for s in (shape, channels, channels, channels)]
    inputs.append(rng.uniform(0.5, 2, channels))
    attrs = {"axis": axis, **more}
    layer_plans.verify("BatchNorm", attrs, inputs, is_train=is_train, rtol=1e-11, atol=1e-12)
