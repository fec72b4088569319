# SPDX-License-Identifier: Apache-2.0
"""Detectors on a GPU, real or fake: anchors, targets, detections, pairs, against the references; see `plans.py`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mx_operators_cuda.register import KERNELS
from testkit.device_memory import GpuBench
from testkit.gpu_kernels import FAKE, Given, compare, swept

_RANDOM = np.random.default_rng(11)


def boxes(*shape: int) -> np.ndarray:
    """Corners in the unit square; with eight bits each they are the same in every type."""
    corners = np.sort(_RANDOM.integers(0, 256, (*shape, 2, 2)) / 256, axis=-2)
    return corners.reshape(*shape, 4)


ANCHORS = boxes(1, 300)
#: objects that end at class -1, one image without any, one with more of them than anchors
OBJECTS = np.concatenate([_RANDOM.integers(0, 3, (3, 6, 1)), boxes(3, 6), _RANDOM.normal(size=(3, 6, 1))], 2)
OBJECTS[0, 4:, 0] = -1
OBJECTS[1, :, 0] = -1
SURE = _RANDOM.normal(size=(3, 4, 300))
FEW = np.array([[[0.0, 0, 0.5, 0.5], [0.25, 0.25, 0.75, 0.75]]])
CHANCES = _RANDOM.uniform(0, 1, (2, 3, 300))
CHANCES[0, :, 5] = np.nan
MOVES = _RANDOM.integers(-16, 17, (2, 1200)) / 16
SCORES = _RANDOM.permutation(2 * 21 * 14).reshape(2, 21, 14) / 1024
CASES: dict[str, list[Given]] = {
    "_contrib_MultiBoxTarget": [
        ({"negative_mining_ratio": 3.0}, [ANCHORS, OBJECTS, SURE]),
        ({}, [ANCHORS, OBJECTS, SURE]),
        ({"overlap_threshold": 0.0, "variances": (1.0, 2.0, 0.5, 0.25)}, [FEW, OBJECTS, SURE[..., :2]]),
        (
            {"negative_mining_ratio": 2.0, "negative_mining_thresh": 0.1, "ignore_label": 7},
            [ANCHORS, OBJECTS[..., :5], SURE],
        ),
        ({}, [ANCHORS, (3, 0, 5), SURE]),
        ({}, [(1, 0, 4), OBJECTS, (3, 4, 0)]),
    ],
    "_contrib_MultiBoxPrior": [
        ({"sizes": (0.5, 0.25), "ratios": (1.0, 2.0, 0.5)}, [(1, 2, 3, 4)]),
        ({"sizes": (1.5,), "clip": True, "steps": (0.3, 0.2), "offsets": (0.1, 0.4)}, [(1, 2, 2, 3)]),
    ],
    "_contrib_MultiBoxDetection": [
        ({"nms_threshold": 0.4, "nms_topk": 100}, [CHANCES, MOVES, ANCHORS]),
        ({}, [CHANCES, MOVES, ANCHORS]),
        ({"force_suppress": True, "threshold": 0.6, "clip": False}, [CHANCES, MOVES, ANCHORS]),
        ({"nms_threshold": 1.5, "threshold": 0.8, "nms_topk": 3}, [CHANCES, MOVES, ANCHORS]),
        ({"threshold": 2.0}, [CHANCES, MOVES, ANCHORS]),
        ({}, [(2, 3, 0), (2, 0), (1, 0, 4)]),
    ],
    "_contrib_bipartite_matching": [
        ({"threshold": 0.1}, [SCORES]),
        ({"threshold": 0.3, "is_ascend": True, "topk": 5}, [SCORES]),
        ({"threshold": -1.0}, [np.array([[0.5, 0.5], [0.5, np.nan], [0.25, 1]])]),
        ({"threshold": 0.1}, [(2, 0, 3)]),
    ],
}
#: height, width and scale of images
ABOUT = np.array([[60.0, 75, 1.0], [40, 33, 2.0]])
PROBABLE = _RANDOM.permutation(2 * 24 * 4 * 5).reshape(2, 24, 4, 5) / 1024
FEWER: dict[str, Any] = {
    "scales": (1.0, 2.0),
    "ratios": (0.5, 1.0, 2.0),
    "feature_stride": 16,
    "rpn_min_size": 4,
}
NARROW = PROBABLE[:, :12]
CASES |= {
    "_contrib_MultiProposal": [
        (
            {**FEWER, "rpn_post_nms_top_n": 20, "threshold": 0.6, "output_score": True},
            [NARROW, (2, 24, 4, 5), ABOUT],
        ),
        (
            {**FEWER, "rpn_pre_nms_top_n": 40, "rpn_post_nms_top_n": 50, "iou_loss": True},
            [NARROW, (2, 24, 4, 5), ABOUT],
        ),
    ],
    "_contrib_Proposal": [({"rpn_post_nms_top_n": 9}, [PROBABLE[:1], (1, 48, 4, 5), ABOUT[:1]])],
}
REGIONS = np.array(
    [[0.0, 0, 0, 20, 16], [1, 3.5, 2, 9, 30], [-1, 1, 1, 2, 2], [1, 28, 20, 40, 40], [0, 5, 0, 4, 3]]
)
WINDOW: dict[str, Any] = {"kernel": (3, 2), "num_filter": 4}
WIDE: dict[str, Any] = {
    "kernel": (2, 2), "stride": (2, 1), "pad": (1, 2), "dilate": (1, 2), "num_filter": 6, "num_group": 2,
    "num_deformable_group": 4,
}  # fmt: skip
POOL: dict[str, Any] = {"spatial_scale": 0.25, "output_dim": 2, "group_size": 2, "pooled_size": 3}
OFFSETS = _RANDOM.uniform(-2, 2, (2, 12, 3, 5)), _RANDOM.uniform(-2, 2, (1, 32, 3, 7))
#: operators with a gradient of their own: parameters and inputs of the forward one
MAPS: dict[str, list[Given]] = {
    "_contrib_DeformableConvolution": [
        (WINDOW, [(2, 3, 5, 6), OFFSETS[0], (4, 3, 3, 2), (4,)]),
        ({**WIDE, "no_bias": True}, [(1, 8, 4, 5), OFFSETS[1], (6, 4, 2, 2)]),
    ],
    "_contrib_ModulatedDeformableConvolution": [
        (WINDOW, [(2, 3, 5, 6), OFFSETS[0], (2, 6, 3, 5), (4, 3, 3, 2), (4,)]),
        ({**WIDE, "no_bias": True}, [(1, 8, 4, 5), OFFSETS[1], (1, 16, 3, 7), (6, 4, 2, 2)]),
    ],
    "_contrib_DeformablePSROIPooling": [
        (
            {**POOL, "sample_per_part": 2, "trans_std": 0.2, "part_size": 2},
            [(2, 8, 5, 7), np.abs(REGIONS), (5, 4, 2, 2)],
        ),
        ({**POOL, "no_trans": True, "sample_per_part": 4}, [(2, 8, 5, 7), np.abs(REGIONS)]),
        ({**POOL, "trans_std": 0.1}, [(2, 8, 5, 7), np.abs(REGIONS), (5, 2, 3, 3)]),
    ],
}
HERE = ("deformable", "detectors", "proposals")


@pytest.fixture(scope="module")
def bench() -> GpuBench:
    return GpuBench()


def test_every_kernel_has_cases() -> None:
    backward = {f"_backward{name}" for name in MAPS}
    assert {name for name, make in KERNELS if make.split(":")[0] in HERE} == {*CASES, *MAPS} | backward


@pytest.mark.parametrize("dtype", ["float32"] if FAKE else ["float32", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize("name", ["_contrib_MultiBoxTarget"] if FAKE else sorted(CASES))
def test_numbers(name: str, dtype: str, bench: GpuBench) -> None:
    for params, inputs in CASES[name][: 1 if FAKE else None]:
        compare(bench, name, params, inputs, dtype, requests=(1, 3, 0))


@swept
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize("name", sorted(MAPS))
def test_maps_and_their_gradients(name: str, dtype: str, bench: GpuBench) -> None:
    for params, inputs in MAPS[name]:
        case = compare(bench, name, params, inputs, dtype)
        known: dict[str, Any] = dict(zip(case.op.inputs(case.params), case.inputs, strict=True))
        known["out_grad"] = np.random.default_rng(2).normal(size=case.outputs[0].shape)
        backward = case.op.backward_operator()
        given = [known[key].astype(np.float64) for key in backward.inputs(case.params)]
        # of sums of many numbers, in 16 bits of what is rounded between products
        rtol = {"float32": 3e-4, "float16": 4e-2, "bfloat16": 0.2}.get(dtype)
        compare(bench, backward.name, params, given, dtype, rtol=rtol)
