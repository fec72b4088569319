# SPDX-License-Identifier: Apache-2.0
"""Layers of neural networks on a GPU, real or fake, against the operators' references; see `plans.py`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mx_core import operators
from mx_core.testing.case import make_case
from mx_operators_cuda.register import KERNELS
from testkit.device_memory import GpuBench
from testkit.gpu_convolutions import CONVOLUTIONS, DECONVOLUTIONS, backward_given
from testkit.gpu_kernels import FAKE, compare

POOLINGS: list[tuple[dict[str, Any], tuple[int, ...]]] = [
    ({"kernel": (3, 2), "pad": (1, 1), "stride": (2, 1)}, (2, 3, 6, 5)),
    ({"kernel": (2,), "pooling_convention": "full", "stride": (2,)}, (2, 3, 7)),
    ({"kernel": (2, 2, 3), "pooling_convention": "same", "stride": (2, 2, 2)}, (1, 2, 5, 4, 5)),
    ({"global_pool": True}, (2, 3, 4, 5)),
    ({"kernel": (3, 3), "layout": "NHWC", "pad": (1, 1), "stride": (2, 2)}, (2, 5, 6, 3)),
    ({"kernel": (3, 3), "count_include_pad": False, "pad": (1, 1), "stride": (2, 2)}, (2, 2, 6, 6)),
]


def test_every_layer_has_cases() -> None:
    layers = {"Convolution", "Deconvolution", "Pooling", *NORMS}
    here = {name for name, make in KERNELS if make.split(":")[0] in ("convolution", "norms", "pooling")}
    here -= {"moments", *(name for name in here if "_contrib_" in name)}  # the latter: `arithmetic.py`
    assert here == layers | {f"_backward_{name}" for name in layers} | {"UpSampling"}


@pytest.fixture(scope="module")
def bench() -> GpuBench:
    return GpuBench()


@pytest.mark.parametrize("dtype", ["float32"] if FAKE else ["float32", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize("name", ["Convolution", "Deconvolution"])
def test_convolutions(name: str, dtype: str, bench: GpuBench) -> None:
    for params, shape in (CONVOLUTIONS if name == "Convolution" else DECONVOLUTIONS)[: 4 if FAKE else None]:
        compare(bench, name, params, [shape], dtype)
        compare(
            bench,
            f"_backward_{name}",
            *backward_given(name, params, shape),
            dtype,
            rtol=None if dtype != "float32" else 3e-4,
        )


@pytest.mark.parametrize("dtype", ["float32"] if FAKE else ["float32", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize("kind", ["max", "avg"] if FAKE else ["max", "avg", "sum", "lp"])
def test_poolings(kind: str, dtype: str, bench: GpuBench) -> None:
    for params, shape in POOLINGS:
        given = {**params, "pool_type": kind, "p_value": 3 if kind == "lp" else None}
        case = compare(bench, "Pooling", given, [shape], dtype, span=(0.1, 1))
        (y,) = case.reference()
        head = np.random.default_rng(1).normal(size=y.shape)
        compare(
            bench,
            "_backward_Pooling",
            given,
            [head, case.inputs[0].astype(np.float64), y.astype(np.float64)],
            dtype,
        )


def test_ties_and_what_is_no_number(bench: GpuBench) -> None:
    """The first of equal maxima gets the gradient; NaN wins no maximum; a window of nothing else has none."""
    x = np.array([[[[1.0, 2, 2], [2, np.nan, 1], [np.nan, np.nan, np.nan]]]])
    params = {"kernel": (2, 2), "pool_type": "max"}
    case = compare(bench, "Pooling", params, [x])
    y = case.reference()[0].astype(np.float64)
    compare(bench, "_backward_Pooling", params, [np.ones(y.shape), x, y])


#: parameters and shape of the data
NORMS: dict[str, list[tuple[dict[str, Any], tuple[int, ...]]]] = {
    "BatchNorm": [
        ({"fix_gamma": False}, (4, 3, 5, 6)), ({"axis": -1, "output_mean_var": True}, (3, 4, 70)), ({}, (50, 2, 13, 13)),
        ({"use_global_stats": True, "fix_gamma": False}, (2, 3, 4)), ({}, (5, 3)),
    ],
    "LayerNorm": [({}, (6, 40)), ({"axis": 1}, (3, 5, 4)), ({}, (2, 300))],
    "GroupNorm": [({"num_groups": 2}, (3, 4, 5)), ({}, (2, 3, 2, 2))],
    "InstanceNorm": [({}, (3, 2, 5, 4))],
    "L2Normalization": [({}, (3, 4, 5)), ({"mode": "channel"}, (3, 4, 5)), ({"mode": "spatial"}, (3, 4, 5))],
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32"] if FAKE else ["float32", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize("name", ["BatchNorm", "LayerNorm"] if FAKE else sorted(NORMS))
def test_normalizations(name: str, dtype: str, bench: GpuBench) -> None:
    for params, shape in NORMS[name][: 1 if FAKE else None]:
        for is_train in (True, False) if name == "BatchNorm" else (True,):
            case = make_case(name, params, [shape], dtype="float64", low=0.2, high=1.2, is_train=is_train)
            compare(bench, name, params, list(case.inputs), dtype, is_train=is_train)
            backward = operators.get(name).backward_operator()
            kept = {"out_grad": np.random.default_rng(2).normal(size=shape)}
            kept |= dict(
                zip([*case.op.inputs(case.params), *case.op.aux(case.params)], case.inputs, strict=True)
            )
            kept |= dict(zip(case.op.outputs(case.params), case.reference(), strict=False))
            inputs = [kept[name] for name in backward.inputs(case.params)]
            compare(bench, backward.name, params, inputs, dtype, is_train=is_train,
                    rtol=3e-4 if dtype == "float32" else None)  # fmt: skip


def test_upsampling(bench: GpuBench) -> None:
    compare(bench, "UpSampling", {"scale": 3, "sample_type": "nearest", "num_args": 1}, [(2, 3, 2, 4)])
    params = {"scale": 2, "sample_type": "bilinear", "num_filter": 3, "num_args": 2}
    compare(bench, "UpSampling", params, [(2, 3, 4, 3)])


def test_regions(bench: GpuBench) -> None:
    """Regions that overlap, reach beyond the image, mark padding, and have no pixels."""
    rois = np.array(
        [[0.0, 0, 0, 5, 3], [1, 2.4, 1, 9, 9], [-1, 1, 1, 2, 2], [1, 8, 8, 9, 9], [0, 1, 0, 4, 3]]
    )
    params = {"pooled_size": (2, 3), "spatial_scale": 0.7}
    case = compare(bench, "ROIPooling", params, [(2, 3, 5, 6), rois])
    y, places = case.reference()
    assert (places < 0).any() and (places >= 0).any()
    head = np.random.default_rng(3).normal(size=y.shape)
    compare(bench, "_backward_ROIPooling", params, [head, case.inputs[0], rois, places])
