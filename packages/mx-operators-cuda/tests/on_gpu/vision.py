# SPDX-License-Identifier: Apache-2.0
"""Images, regions and boxes on a GPU, real or fake, against the operators' references; see `plans.py`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mx_core import gpu, kernels
from mx_core.errors import NoKernelError
from mx_core.testing.case import make_case
from mx_operators_cuda.register import KERNELS
from testkit.device_memory import GpuBench
from testkit.gpu_kernels import FAKE, WRITE, Given, compare

_RANDOM = np.random.default_rng(5)
#: points inside, on the border and beyond it, and no numbers
GRID = np.concatenate([_RANDOM.uniform(-1.3, 1.3, (2, 2, 3, 4)), np.full((2, 2, 3, 1), 1.0)], 3)
MATRICES = np.array([[0.7, 0.2, 0.1, -0.3, 0.9, 0], [1, 0, 0.5, 0, 1, -2]])
ROIS = np.array([[0.0, 0, 0, 5, 3], [1, 2.4, 1, 9, 9], [-1, 1, 1, 2, 2], [1, 8, 8, 9, 9], [0, 1, 0, 4, 3]])
PRESENT = np.abs(ROIS)
ROTATED = np.concatenate([ROIS, np.array([[0.0], [30], [0], [200], [-45]])], 1)
ANCHORS = np.sort(_RANDOM.uniform(0, 4, (1, 5, 2, 2)), 2).reshape(1, 5, 4)
BOXES = np.sort(_RANDOM.uniform(0, 4, (2, 3, 2, 2)), 2).reshape(2, 3, 4)
#: class, score, box, one more
ROWS = np.concatenate([
    _RANDOM.integers(0, 2, (2, 40, 1)), _RANDOM.uniform(-0.2, 1, (2, 40, 1)).round(1),
    np.sort(_RANDOM.uniform(0, 3, (2, 40, 2, 2)), 2).reshape(2, 40, 4), _RANDOM.normal(size=(2, 40, 1)),
], 2)  # fmt: skip
PHOTO = _RANDOM.integers(0, 256, (5, 7, 3)).astype(np.uint8)
FLOATS = PHOTO.astype(np.float64)
#: operators with a gradient of their own: parameters and inputs of the forward one
MAPS: dict[str, list[Given]] = {
    "BilinearSampler": [({}, [(2, 3, 4, 5), GRID]), ({}, [(2, 1, 1, 1), GRID]), ({}, [(2, 3, 4, 5), (2, 2, 0, 3)])],
    "GridGenerator": [({"transform_type": "affine", "target_shape": (3, 4)}, [MATRICES]), ({"transform_type": "warp"}, [(2, 2, 3, 4)])],
    "_contrib_BilinearResize2D": [
        ({"height": 5, "width": 3}, [(2, 3, 4, 6)]), ({"height": 9, "width": 13, "align_corners": False}, [(1, 2, 4, 6)]),
        ({"height": 1, "width": 2, "align_corners": False}, [(1, 2, 9, 13)]), ({"mode": "like"}, [(1, 2, 4, 6), (1, 1, 3, 8)]),
    ],
    "_contrib_AdaptiveAvgPooling2D": [({"output_size": (2, 5)}, [(2, 3, 5, 7)]), ({}, [(2, 3, 5, 7)]), ({"output_size": 6}, [(1, 2, 3, 4)])],
    "_contrib_ROIAlign": [
        ({"pooled_size": (2, 3), "spatial_scale": 0.7, "sample_ratio": 2}, [(2, 3, 5, 6), ROIS]),
        ({"pooled_size": (2, 2), "spatial_scale": 0.7, "aligned": True}, [(2, 3, 5, 6), ROIS]),
        ({"pooled_size": (2, 2), "spatial_scale": 1.0, "position_sensitive": True}, [(2, 8, 5, 6), ROIS]),
    ],
    "_contrib_RROIAlign": [({"pooled_size": (2, 3), "spatial_scale": 0.7, "sampling_ratio": n}, [(2, 3, 5, 6), ROTATED]) for n in (2, -1)],
    "_contrib_PSROIPooling": [
        ({"spatial_scale": 0.8, "output_dim": 2, "pooled_size": 3}, [(2, 18, 5, 6), PRESENT]),
        ({"spatial_scale": 1.0, "output_dim": 3, "pooled_size": 3, "group_size": 2}, [(2, 12, 5, 6), PRESENT]),
    ],
    "Correlation": [
        ({"kernel_size": 3, "max_displacement": 2, "pad_size": 3, "stride2": 2}, [(2, 3, 6, 5)] * 2),
        ({"max_displacement": 1, "stride1": 2, "is_multiply": False}, [(1, 2, 6, 7)] * 2),
    ],
    "im2col": [
        ({"kernel": (3, 2), "stride": (2, 1), "pad": (1, 1), "dilate": (1, 2)}, [(2, 3, 6, 5)]), ({"kernel": (3,)}, [(2, 3, 7)]),
        ({"kernel": (2, 1, 2), "stride": (1, 2, 2)}, [(1, 2, 3, 4, 5)]),
    ],
    "_image_normalize": [({"mean": (1.0, 2, 3), "std": (2.0,)}, [(2, 3, 4, 5)]), ({"mean": 0.5, "std": (3.0,)}, [(1, 4, 5)])],
    "_image_crop": [({"x": 1, "y": 2, "width": 3, "height": 2}, [(5, 6, 3)]), ({"x": 0, "y": 0, "width": 6, "height": 5}, [(2, 5, 6, 3)])],
    "_contrib_box_nms": [
        ({}, [ROWS]), ({"id_index": 0, "topk": 9, "overlap_thresh": 0.2, "out_format": "center"}, [ROWS]),
        ({"id_index": 0, "background_id": 1, "in_format": "center"}, [ROWS]), ({"id_index": 0, "force_suppress": True, "valid_thresh": 0.5}, [ROWS]),
        ({}, [(2, 0, 6)]),
    ],
}  # fmt: skip
#: operators without one
PLAIN: dict[str, list[Given]] = {
    "SpatialTransformer": [({"transform_type": "affine", "sampler_type": "bilinear", "target_shape": (3, 4)}, [(2, 3, 4, 5), MATRICES])],
    "col2im": [({"output_size": (6, 5), "kernel": (3, 2), "pad": (1, 0)}, [(2, 18, 24)])],
    "_contrib_box_iou": [({}, [BOXES, BOXES[0]]), ({"format": "center"}, [BOXES[0], BOXES[1]])],
    "_contrib_box_encode": [({}, [
        np.array([[1.0, 0, 1, -1, 1]]), np.array([[0.0, 5, 2, 0, 1]]), ANCHORS, BOXES[:1], np.array([0.1, 0, -0.1, 0]), np.array([0.1, 0.2, 1, 2])])],
    "_contrib_box_decode": [({"clip": 0.1, "format": "corner", "std0": 0.5}, [(2, 5, 4), ANCHORS]), ({}, [(2, 5, 4), ANCHORS])],
    "_image_to_tensor": [({}, [PHOTO]), ({}, [(2, 4, 5, 3)])],
    **{f"_image_flip_{way}": [({}, [PHOTO]), ({}, [(4, 5, 3)])] for way in ("left_right", "top_bottom")},
    **{f"_image_random_flip_{way}": [({}, [PHOTO]), ({}, [(4, 5, 3)])] for way in ("left_right", "top_bottom")},
    "_image_resize": [({"size": size, "interp": how}, [x]) for how in (0, 1, 2) for size, x in (((4, 9), PHOTO), ((11,), PHOTO), ((3, 2), FLOATS))],
    **{f"_image_random_{what}": [({"min_factor": 0.4, "max_factor": 0.5}, [x]) for x in (PHOTO, FLOATS, PHOTO[..., :1])]
       for what in ("brightness", "contrast", "saturation", "hue")},
    "_image_random_color_jitter": [({"brightness": 0.2, "contrast": 0.3, "saturation": 0.4, "hue": 0.1}, [FLOATS]),
                                   ({"brightness": 0.0, "contrast": 0.3, "saturation": 0.0, "hue": 0.1}, [PHOTO])],
    "_image_adjust_lighting": [({"alpha": (0.1, -0.2, 0.3)}, [x]) for x in (PHOTO, FLOATS)],
    "_image_random_lighting": [({"alpha_std": 0.1}, [x]) for x in (PHOTO, FLOATS)],
}  # fmt: skip
SAME = ("_image_flip", "_image_random_flip", "_image_crop", "im2col")
HERE = ("aligned", "boxes", "columns", "correlation", "images", "sampling")


@pytest.fixture(scope="module")
def bench() -> GpuBench:
    return GpuBench()


def test_every_kernel_has_cases() -> None:
    backward = {f"_backward_{name.removeprefix('_')}" for name in MAPS}
    assert {name for name, make in KERNELS if make.split(":")[0] in HERE} == {*MAPS, *PLAIN} | backward


@pytest.mark.parametrize("dtype", ["float32"] if FAKE else ["float32", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize("name", ["BilinearSampler", "_contrib_ROIAlign"] if FAKE else sorted(MAPS))
def test_maps_and_their_gradients(name: str, dtype: str, bench: GpuBench) -> None:
    for params, inputs in MAPS[name][: 1 if FAKE else None]:
        exact = name == "_contrib_box_nms"  # numbers of 16 bits overlap by other amounts than those of 64
        case = compare(
            bench, name, params, inputs, dtype, exact=exact, requests=(1, 0) if exact else (1, 3, 0)
        )
        known: dict[str, Any] = dict(zip(case.op.inputs(case.params), case.inputs, strict=True))
        outputs = case.reference()
        known |= dict(zip(case.op.outputs(case.params), outputs, strict=False))
        known["out_grad"] = np.random.default_rng(2).normal(size=outputs[0].shape)
        backward = case.op.backward_operator()
        given = [known[key] for key in backward.inputs(case.params)]
        given = [x if np.issubdtype(x.dtype, np.integer) else x.astype(np.float64) for x in given]
        # of sums of many numbers in 32 bits
        compare(
            bench, backward.name, params, given, dtype, exact=False, rtol=3e-4 if dtype == "float32" else None
        )


@pytest.mark.parametrize("name", ["_image_to_tensor", "_image_random_contrast"] if FAKE else sorted(PLAIN))
def test_images_and_boxes(name: str, bench: GpuBench) -> None:
    dtypes = ("float32",) if FAKE or "image" in name else ("float32", "float16", "bfloat16", "float64")
    for params, inputs in PLAIN[name][: 1 if FAKE else None]:
        for dtype in dtypes:
            given = [
                x
                if isinstance(x, tuple) or x.dtype == np.uint8
                else x.astype(dtype if dtype != "bfloat16" else float)
                for x in inputs
            ]
            integers = any(getattr(x, "dtype", None) == np.uint8 for x in given)
            # what is added to a number of 8 bits wraps around
            requests = (WRITE, 0) if integers and "tensor" not in name else (WRITE, 3, 0)
            compare(
                bench, name, params, given, dtype, exact=integers and "tensor" not in name, requests=requests
            )


def test_regions_and_interpolations_without_kernels_are_declined() -> None:
    case = make_case("_image_resize", {"size": (3, 2), "interp": 4}, [PHOTO])
    with pytest.raises(NoKernelError, match="_image_resize"):
        kernels.prepare(case.op, case.params, case.specs, case.outputs, gpu(0))
