# SPDX-License-Identifier: Apache-2.0
"""Convolution and Deconvolution against their references."""

import threading
import time

import layer_plans
import ml_dtypes
import numpy as np
import plans
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mx_core import operators


def _arrays(
    rng: np.random.Generator, data: tuple[int, ...], attrs: dict, transposed: bool = False
) -> list[np.ndarray]:
    filters, groups, kernel = attrs["num_filter"], attrs.get("num_group", 1), attrs["kernel"]
    last = attrs.get("layout") in ("NHWC", "NDHWC")
    channels = data[-1] if last else data[1]
    if transposed:
        weight = (channels, filters // groups, *kernel)
    elif last:
        weight = (filters, *kernel, channels // groups)
    else:
        weight = (filters, channels // groups, *kernel)
    shapes = [data, weight] + ([] if attrs.get("no_bias", transposed) else [(filters,)])
    return [rng.standard_normal(s).astype(np.float32) for s in shapes]


@pytest.mark.parametrize(
    ("data", "attrs"),
    [
        ((2, 3, 9, 8), {"kernel": (3, 3), "num_filter": 4}),
        ((2, 3, 9, 8), {"kernel": (3, 2), "num_filter": 4, "stride": (2, 1), "pad": (1, 2), "no_bias": True}),
        ((1, 16, 14, 14), {"kernel": (3, 3), "num_filter": 32, "pad": (1, 1)}),
        ((2, 32, 7, 7), {"kernel": (1, 1), "num_filter": 16}),
        ((2, 6, 8, 8), {"kernel": (3, 3), "num_filter": 6, "num_group": 6, "pad": (1, 1)}),
        ((2, 8, 8, 8), {"kernel": (3, 3), "num_filter": 12, "num_group": 4, "dilate": (2, 2)}),
        ((2, 4, 11), {"kernel": (3,), "num_filter": 5, "stride": (2,), "pad": (1,)}),
        ((1, 2, 5, 6, 4), {"kernel": (2, 3, 2), "num_filter": 3, "stride": (1, 2, 1)}),
        ((2, 9, 8, 3), {"kernel": (3, 3), "num_filter": 4, "layout": "NHWC", "pad": (1, 0)}),
        ((2, 9, 8, 4), {"kernel": (3, 3), "num_filter": 6, "num_group": 2, "layout": "NHWC"}),
        (
            (2, 17, 19, 3),
            {"kernel": (7, 7), "num_filter": 32, "layout": "NHWC", "stride": (2, 2), "pad": (3, 3)},
        ),
        ((3, 1, 9, 12), {"kernel": (5, 3), "num_filter": 80, "stride": (1, 2), "pad": (0, 4)}),
    ],
)
def test_convolution(rng: np.random.Generator, data: tuple[int, ...], attrs: dict) -> None:
    layer_plans.verify("Convolution", attrs, _arrays(rng, data, attrs))


@pytest.mark.parametrize(
    ("data", "attrs"),
    [
        ((2, 3, 4, 5), {"kernel": (3, 3), "num_filter": 4}),
        (
            (1, 4, 5, 5),
            {"kernel": (4, 4), "num_filter": 2, "stride": (2, 2), "pad": (1, 1), "no_bias": False},
        ),
        ((1, 4, 4, 4), {"kernel": (3, 3), "num_filter": 6, "num_group": 2, "stride": (2, 2), "adj": (1, 0)}),
        ((2, 3, 5, 4), {"kernel": (4, 4), "num_filter": 2, "stride": (2, 2), "target_shape": (10, 9)}),
        ((2, 3, 7), {"kernel": (3,), "num_filter": 2, "dilate": (2,)}),
        ((1, 2, 3, 4, 3), {"kernel": (2, 2, 2), "num_filter": 3, "stride": (2, 1, 2)}),
    ],
)
def test_deconvolution(rng: np.random.Generator, data: tuple[int, ...], attrs: dict) -> None:
    layer_plans.verify("Deconvolution", attrs, _arrays(rng, data, attrs, transposed=True))


@settings(max_examples=25, deadline=None)
@given(
    batch=st.integers(1, 3),
    groups=st.integers(1, 3),
    per_group=st.integers(1, 5),
    filters=st.integers(1, 5),
    size=st.integers(5, 9),
    kernel=st.integers(1, 3),
    stride=st.integers(1, 3),
    pad=st.integers(0, 2),
    dilate=st.integers(1, 2),
)
def test_convolution_of_any_geometry(
    batch: int,
    groups: int,
    per_group: int,
    filters: int,
    size: int,
    kernel: int,
    stride: int,
    pad: int,
    dilate: int,
) -> None:
    attrs = {
        "kernel": (kernel, kernel),
        "stride": (stride, stride),
        "pad": (pad, pad),
        "dilate": (dilate, dilate),
        "num_filter": groups * filters,
        "num_group": groups,
    }
    data = (batch, groups * per_group, size, size + 1)
    layer_plans.verify("Convolution", attrs, _arrays(np.random.default_rng(1), data, attrs))


def test_empty_batch_is_declined(rng: np.random.Generator) -> None:
    op = operators.get("Convolution")
    attrs = {"kernel": (3, 3), "num_filter": 4}
    inputs = _arrays(rng, (0, 3, 5, 5), attrs)
    assert (
        layer_plans.prepare(op, op.Param.parse(attrs), inputs, [np.empty((0, 4, 3, 3), np.float32)]) is None
    )


def test_one_plan_runs_on_many_threads_at_once(rng: np.random.Generator) -> None:
    op = operators.get("Convolution")
    attrs = {"kernel": (3, 3), "num_filter": 16, "pad": (1, 1)}
    p = op.Param.parse(attrs)
    cases = [_arrays(rng, (1, 8, 12, 12), attrs) for _ in range(4)]
    outputs = [np.empty((1, 16, 12, 12), np.float32) for _ in cases]
    plan = layer_plans.prepare(op, p, cases[0], outputs[:1])

    def work(inputs: list[np.ndarray], output: np.ndarray) -> None:
        for _ in range(20):
            layer_plans.run(plan, inputs, [output], threads=1)

    threads = [threading.Thread(target=work, args=pair) for pair in zip(cases, outputs, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    for inputs, output in zip(cases, outputs, strict=True):
        (expected,) = op.reference(p, inputs, None)
        np.testing.assert_allclose(output, expected, rtol=1e-4, atol=1e-4)


def test_wrong_arguments_are_refused(rng: np.random.Generator) -> None:
    op = operators.get("Convolution")
    attrs = {"kernel": (3, 3), "num_filter": 4}
    inputs, output = _arrays(rng, (1, 3, 5, 5), attrs), np.empty((1, 4, 3, 3), np.float32)
    plan = layer_plans.prepare(op, op.Param.parse(attrs), inputs, [output])
    with pytest.raises(RuntimeError, match="takes 3 inputs, .*; got 2, "):
        layer_plans.run(plan, inputs[:2], [output])
    with pytest.raises(RuntimeError, match="input 0: .* 300 bytes, got .* 288 bytes"):
        layer_plans.run(plan, [np.zeros((1, 3, 4, 6), np.float32), *inputs[1:]], [output])


@pytest.mark.parametrize("no_bias", [False, True])
@pytest.mark.parametrize("filters", [6, 70])
@pytest.mark.parametrize("data", [(3, 5, 6, 7), (1, 16, 4), (2, 3, 2, 3, 4), (2, 33, 1, 1)])
def test_pointwise_convolution(
    rng: np.random.Generator, data: tuple[int, ...], filters: int, no_bias: bool
) -> None:
    attrs = {"kernel": (1,) * (len(data) - 2), "num_filter": filters, "no_bias": no_bias}
    layer_plans.verify("Convolution", attrs, _arrays(rng, data, attrs))


@pytest.mark.parametrize(
    ("residual", "layout", "computed"), [(True, None, False), (False, "NHWC", True), (True, "NHWC", True)]
)
def test_fused_layers_are_declined_where_only_a_reference_computes_them(
    rng: np.random.Generator, residual: bool, layout: str | None, computed: bool
) -> None:
    """A float16 convolution with an addition took thousands of times float32's time that way."""
    pytest.importorskip("mx_symbol.passes.fused_layers")
    from mx_symbol.passes.fused_layers import FUSED_CONVOLUTION

    attrs = {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1), "num_filter": 32, "no_bias": True}
    p = FUSED_CONVOLUTION.Param.parse(
        {**attrs, "residual": residual, "layout": layout}, op="_fused_Convolution"
    )
    data, out = ((1, 16, 14, 14), (1, 32, 7, 7)) if layout is None else ((1, 14, 14, 16), (1, 7, 7, 32))
    inputs = _arrays(rng, data, {**attrs, **({"layout": layout} if layout else {})})
    output = np.zeros(out, np.float32)
    inputs += [np.ones_like(output)] if residual else []
    assert (layer_plans.prepare(FUSED_CONVOLUTION, p, inputs, [output]) is not None) == computed


@pytest.mark.parametrize(("sizes", "computed"), [((8, 14, 14), False), ((2, 2, 2), True)])
def test_fused_layers_are_declined_where_windows_would_be_copied(
    rng: np.random.Generator, sizes: tuple[int, ...], computed: bool
) -> None:
    """With its channels first, data in three dimensions is copied for a product, unless it is reordered before."""
    pytest.importorskip("mx_symbol.passes.fused_layers")
    from mx_symbol.passes.fused_layers import FUSED_CONVOLUTION

    attrs = {"kernel": (3, 3, 3), "pad": (1, 1, 1), "num_filter": 8, "no_bias": True}
    p = FUSED_CONVOLUTION.Param.parse(attrs, op="_fused_Convolution")
    inputs = _arrays(rng, (1, 8, *sizes), attrs)
    output = np.zeros((1, 8, *sizes), np.float32)
    assert (layer_plans.prepare(FUSED_CONVOLUTION, p, inputs, [output]) is not None) == computed


@pytest.mark.skipif(not layer_plans.BFLOAT16_KERNELS, reason="needs kernels for bfloat16")
@pytest.mark.parametrize("kernel", [1, 2, 3])
def test_gradients_of_channels_with_steps_in_bfloat16(kernel: int) -> None:
    """They are those of float32 and take no more than some times as long: kernels for dense groups took twenty."""
    op = operators.get("_backward_Convolution")
    p = op.Param.parse(
        {"kernel": (kernel,) * 2, "stride": (2, 2), "num_filter": 64, "num_group": 64, "no_bias": True}
    )
    size = (28 - kernel) // 2 + 1
    rng = np.random.default_rng(kernel)
    inputs = [
        rng.integers(-4, 5, shape)
        for shape in ((2, 64, size, size), (2, 64, 28, 28), (64, 1, kernel, kernel))
    ]
    found, runs = [], []
    for dtype in (np.float32, ml_dtypes.bfloat16):
        arrays = [a.astype(dtype) for a in inputs]
        outputs = [np.empty_like(a) for a in arrays[1:]]
        plan = layer_plans.prepare(op, p, arrays, outputs)
        layer_plans.run(plan, arrays, outputs)
        found.append([a.astype(np.float32) for a in outputs])
        runs.append((plan, arrays, outputs))
    for exact, rounded in zip(*found, strict=True):
        np.testing.assert_allclose(rounded, exact, rtol=2**-8)
    times = [float("inf")] * 2
    for _ in range(50):  # in turns, until the machine has been quiet for both
        for i, (plan, arrays, outputs) in enumerate(runs):
            for _ in range(20):
                start = time.perf_counter()
                layer_plans.run(plan, arrays, outputs, [plans.WRITE, plans.NULL])
                times[i] = min(times[i], time.perf_counter() - start)
        if times[1] < 7 * times[0]:
            return
        time.sleep(0.02)
    pytest.fail(f"float32 takes {times[0] * 1e6:.0f} us, bfloat16 {times[1] * 1e6:.0f}")
