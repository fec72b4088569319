# SPDX-License-Identifier: Apache-2.0
"""Convolutions against float64 references, where oneDNN's own kernels are wrong."""

from typing import Any

import layer_plans
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ml_dtypes import bfloat16

from mx_core import dtypes, operators
from mx_core.context import cpu
from mx_core.kernels import TensorSpec, prepare
from mx_core.operator import ReferenceContext, gradient_of

Shape = tuple[int, ...]


def _check(op: Any, p: Any, inputs: list[np.ndarray], counted: int) -> list[np.ndarray]:
    """Compares the plan with the float64 reference; returns the outputs."""
    context = ReferenceContext(is_train=True, scalars=p.scalars)
    expected = [np.asarray(e) for e in op.reference(p, [i.astype(np.float64) for i in inputs], context)]
    outputs = [np.full(e.shape, np.nan).astype(bfloat16) for e in expected]
    plan = layer_plans.prepare(op, p, inputs, outputs)
    assert plan is not None, f"{op.name} declined"
    layer_plans.run(plan, inputs, outputs, scalars=p.scalars)
    for got, want in zip(outputs[:counted], expected, strict=False):
        np.testing.assert_allclose(
            got.astype(np.float64),
            want,
            rtol=0.01,
            atol=0.01 * max(1, np.abs(want).max()),
            err_msg=f"{op.name} {p}",
        )
    return outputs


def judge(name: str, attrs: dict[str, Any], data: Shape, weight: Shape) -> None:
    """An operator and its gradients."""
    rng = np.random.default_rng(3)
    shapes = [data, weight] + ([] if attrs.get("no_bias") else [(attrs["num_filter"],)])
    inputs = [rng.uniform(-1, 1, s).astype(bfloat16) for s in shapes]
    op = operators.get(name)
    p = op.Param.parse(attrs, op=name)
    outputs = _check(op, p, inputs, 1)
    arrays = {"out_grad": [rng.uniform(-1, 1, outputs[0].shape).astype(bfloat16)], "input": inputs}
    for node in gradient_of(op, p).nodes:
        kept = [arrays[e.kind][e.index] for e in node.inputs]
        _check(operators.get(node.op), node.params, kept, 3)


def _weight(name: str, data: Shape, attrs: dict[str, Any]) -> Shape:
    filters, groups = attrs["num_filter"], attrs.get("num_group", 1)
    if name == "Deconvolution":
        return (data[1], filters // groups, *attrs["kernel"])
    if attrs.get("layout", "").endswith("C"):
        return (filters, *attrs["kernel"], data[-1] // groups)
    return (filters, data[1] // groups, *attrs["kernel"])


@pytest.mark.parametrize(
    ("name", "data", "attrs"),
    [
        ("Convolution", (1, 3, 5), {"kernel": (4,), "stride": (7,), "pad": (3,), "num_filter": 4}),
        ("Convolution", (3, 48, 3), {"kernel": (6,), "stride": (6,), "pad": (3,), "num_filter": 1}),
        ("Convolution", (3, 64, 1), {"kernel": (4,), "stride": (2,), "pad": (3,), "num_filter": 48}),
        ("Convolution", (2, 15, 1), {"kernel": (9,), "stride": (2,), "pad": (8,), "num_filter": 16}),
        (
            "Convolution",
            (3, 17, 16, 1),
            {"kernel": (4, 3), "stride": (5, 3), "pad": (1, 1), "num_filter": 16},
        ),
        (
            "Convolution",
            (2, 64, 13, 5),
            {"kernel": (6, 4), "stride": (2, 7), "pad": (0, 2), "num_filter": 15},
        ),
        ("Convolution", (1, 16, 3, 6, 2), {"kernel": (4, 3, 3), "pad": (1, 1, 1), "num_filter": 2}),
        (
            "Convolution",
            (1, 1, 2, 3, 8),
            {"kernel": (4, 2, 4), "stride": (1, 2, 2), "pad": (3, 1, 0), "num_filter": 48},
        ),
        # copies more than its buffer holds
        (
            "Convolution",
            (1, 1, 17, 17),
            {"kernel": (1, 9), "stride": (1, 8), "pad": (0, 3), "num_filter": 16, "layout": "NHWC"},
        ),
        # with matrix units: windows that do not overlap, channels that fill no tile
        ("Convolution", (1, 48, 9, 8), {"kernel": (2, 2), "stride": (2, 2), "pad": (1, 0), "num_filter": 64}),
        ("Deconvolution", (2, 15, 1), {"kernel": (3,), "stride": (8,), "pad": (1,), "num_filter": 8}),
        (
            "Deconvolution",
            (1, 16, 2, 1),
            {"kernel": (4, 4), "stride": (2, 4), "pad": (1, 1), "num_filter": 15},
        ),
    ],
)
@pytest.mark.parametrize("no_bias", [False, True])
def test_bfloat16_windows_that_are_computed_in_float32(
    name: str, data: Shape, attrs: dict[str, Any], no_bias: bool
) -> None:
    judge(name, {**attrs, "no_bias": no_bias}, data, _weight(name, data, attrs))


@settings(max_examples=40, deadline=None)
@given(
    name=st.sampled_from(["Convolution", "Deconvolution"]),
    batch=st.integers(1, 3),
    channels=st.sampled_from([1, 3, 8, 15, 16, 32, 48]),
    filters=st.sampled_from([1, 4, 16, 19, 32]),
    axes=st.lists(
        st.tuples(
            st.integers(1, 20), st.integers(1, 7), st.integers(1, 8), st.integers(0, 5), st.integers(1, 2)
        ),
        min_size=1,
        max_size=2,
    ),
)
def test_any_bfloat16_window(
    name: str, batch: int, channels: int, filters: int, axes: list[tuple[int, ...]]
) -> None:
    attrs = {
        key: tuple(axis[i] for axis in axes)
        for i, key in enumerate(("kernel", "stride", "pad", "dilate"), start=1)
    }
    extents = [(k - 1) * d + 1 for _, k, _, _, d in axes]
    if name == "Convolution":
        sizes = [max(axis[0], e - 2 * axis[3]) for axis, e in zip(axes, extents, strict=True)]
    else:
        sizes = [max(1, axis[0] // axis[2]) for axis in axes]
        if any((n - 1) * a[2] + e - 2 * a[3] < 1 for n, a, e in zip(sizes, axes, extents, strict=True)):
            return
    data = (batch, channels, *sizes)
    judge(
        name,
        {**attrs, "num_filter": filters, "no_bias": True},
        data,
        _weight(name, data, {**attrs, "num_filter": filters}),
    )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    ("channels", "filters", "sizes", "kernel", "stride", "pad"),
    [
        (32, 48, (3, 3, 2), (5, 4, 3), (2, 1, 3), (3, 2, 2)),
        (48, 1, (4, 6, 4), (5, 2, 3), (2, 4, 4), (3, 0, 4)),
        (17, 32, (4, 5, 5), (5, 2, 2), (3, 2, 3), (4, 1, 1)),
        (32, 1, (4, 6, 3), (4, 5, 3), (2, 1, 2), (3, 0, 0)),
    ],
)
def test_filters_of_windows_padded_deeply(
    rng: np.random.Generator, channels: int, filters: int, sizes: tuple[int, ...], kernel: tuple[int, ...],
    stride: tuple[int, ...], pad: tuple[int, ...], dtype: str,
) -> None:  # fmt: skip
    """Gradients that oneDNN's kernels for AVX-512 leave unwritten, or write beyond their memory."""
    op = operators.get("Convolution")
    p = op.Param.parse(
        {"kernel": kernel, "stride": stride, "pad": pad, "num_filter": filters, "no_bias": True}, op=op.name
    )
    kind = dtypes.numpy_dtype(dtypes.code(dtype))
    data = rng.uniform(-1, 1, (3, channels, *sizes)).astype(kind).astype(np.float64)
    weight = rng.uniform(-1, 1, (filters, channels, *kernel)).astype(kind).astype(np.float64)
    context = ReferenceContext(True, ())
    (out,) = op.reference(p, [data, weight], context)
    head = rng.uniform(-1, 1, out.shape).astype(kind).astype(np.float64)
    backward = operators.get("_backward_Convolution")
    expected = backward.reference(p, [head, data, weight], context)
    inputs = [x.astype(kind) for x in (head, data, weight)]
    outputs = [np.zeros(x.shape, kind) for x in (data, weight)]
    specs = [[TensorSpec(x.shape, dtypes.code(dtype)) for x in arrays] for arrays in (inputs, outputs)]
    plan = prepare(backward, p, *specs, cpu(), True).plan
    assert plan is not None
    for req in ([1, 1], [0, 1]):
        layer_plans.run(plan, inputs, outputs, req)
        for got, want in zip(outputs, expected, strict=True):
            near = {"float32": 1e-5, "bfloat16": 1e-2}[dtype] * np.abs(want).max()
            np.testing.assert_allclose(got.astype(np.float64), want, 0, near)
