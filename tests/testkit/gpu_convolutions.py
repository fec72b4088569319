# SPDX-License-Identifier: Apache-2.0
"""Convolutions that a GPU is asked for: parameters, and shapes of the data."""

from __future__ import annotations

from typing import Any

from mx_core.testing.case import make_case
from testkit.gpu_kernels import Given

CONVOLUTIONS: list[tuple[dict[str, Any], tuple[int, ...]]] = [
    ({"kernel": (3, 3), "num_filter": 5, "pad": (1, 1), "stride": (2, 2)}, (2, 3, 7, 6)),
    ({"kernel": (2, 3), "num_filter": 6, "num_group": 2, "dilate": (2, 1), "no_bias": True}, (2, 4, 6, 5)),
    ({"kernel": (3,), "num_filter": 70, "stride": (2,), "pad": (1,)}, (3, 2, 800)),
    ({"kernel": (2, 1, 2), "num_filter": 2, "pad": (1, 0, 1)}, (1, 3, 3, 2, 3)),
    ({"kernel": (3, 3), "num_filter": 4, "pad": (1, 1), "layout": "NHWC"}, (2, 5, 4, 3)),
    ({"kernel": (1, 1), "num_filter": 4}, (0, 2, 3, 3)),
    ({"kernel": (2, 2), "num_filter": 3, "num_group": 3, "layout": "NHWC", "no_bias": True}, (2, 70, 20, 3)),
]
DECONVOLUTIONS: list[tuple[dict[str, Any], tuple[int, ...]]] = [
    ({"kernel": (3, 3), "num_filter": 4, "stride": (2, 2), "pad": (1, 1), "adj": (1, 1)}, (2, 3, 4, 5)),
    ({"kernel": (3,), "num_filter": 4, "num_group": 2, "no_bias": False, "dilate": (2,)}, (2, 6, 5)),
    ({"kernel": (2, 2, 2), "num_filter": 2, "target_shape": (5, 4, 6), "stride": (2, 2, 2)}, (1, 2, 3, 2, 3)),
]


def backward_given(name: str, params: dict[str, Any], data: tuple[int, ...]) -> Given:
    """Out-gradient, data and weight of a convolution's gradient."""
    case = make_case(name, params, [data])
    return params, [case.outputs[0].shape, data, case.inputs[1].shape]
