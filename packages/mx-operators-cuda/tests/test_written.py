# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's compiler accepts the written kernels, for three generations of GPUs; no GPU is needed."""

from __future__ import annotations

import importlib
import re
import sys
from typing import Any

import numpy as np
import pytest

from mx_core.context import gpu
from mx_core.kernels import KernelCall
from mx_core.testing.case import make_case
from mx_operators_cuda.launch import Kind, Launch, Product
from mx_operators_cuda.register import KERNELS

INDEX = np.array([0.0, 3, 1])
#: an operator of every function of a header: parameters and inputs
CASES: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "Convolution": ({"kernel": (3, 3), "num_filter": 8}, [(2, 4, 8, 8)]),
    "_backward_Convolution": (
        {"kernel": (3, 3), "num_filter": 8},
        [(2, 8, 46, 46), (2, 4, 48, 48), (8, 4, 3, 3)],
    ),
    "Pooling": ({"kernel": (3, 3), "pool_type": "max"}, [(2, 4, 8, 8)]),
    "_backward_Pooling": ({"kernel": (3, 3), "pool_type": "max"}, [(2, 4, 6, 6), (2, 4, 8, 8), (2, 4, 6, 6)]),
    "take": ({}, [(5, 3), INDEX]),
    "pick": ({}, [(3, 7), INDEX]),
    "_backward_Embedding": ({"input_dim": 5, "output_dim": 4}, [(3, 4), INDEX]),
    "one_hot": ({"depth": 4}, [INDEX]),
    "CTCLoss": ({}, [(7, 3, 5), np.array([[1.0, 2], [3, 0], [1, 1]])]),
    "ROIPooling": ({"pooled_size": (2, 2), "spatial_scale": 1.0}, [(2, 3, 5, 6), np.zeros((3, 5))]),
    "_backward_ROIPooling": (
        {"pooled_size": (2, 2), "spatial_scale": 1.0},
        [(3, 3, 2, 2), (2, 3, 5, 6), np.zeros((3, 5)), np.zeros((3, 3, 2, 2), np.int32)],
    ),
    "LRN": ({"nsize": 5}, [(2, 8, 3)]),
    "_backward_LRN": ({"nsize": 5}, [(2, 8, 3)] * 3),
    "_arange": ({"start": 0, "stop": 9}, []),
    "_eye": ({"N": 4}, []),
    "SequenceMask": ({"use_sequence_length": True}, [(4, 3, 2), INDEX]),
    "SequenceLast": ({"use_sequence_length": True}, [(4, 3, 2), INDEX]),
    "_backward_SequenceLast": ({"use_sequence_length": True}, [(3, 2), (4, 3, 2), INDEX]),
    "SequenceReverse": ({"use_sequence_length": True}, [(4, 3, 2), INDEX]),
    "topk": ({"k": 3, "ret_typ": "both"}, [(2, 1300)]),
    "_backward_topk": ({"k": 2, "ret_typ": "value"}, [(2, 2), (2, 4)]),
}
#: the same of images, regions, boxes, samples, positions and matrices
BOX = np.array([[[0.0, 0, 2, 2], [1, 1, 3, 4]]])
POOL: dict[str, Any] = {
    "spatial_scale": 1.0,
    "output_dim": 1,
    "group_size": 2,
    "pooled_size": 2,
    "trans_std": 0.1,
}
EVENTS: list[Any] = [(2, 3), (3,), (3,), (2, 3), (2, 4), np.zeros((2, 4), np.int32), (2,), (2,)]
MORE: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "_contrib_ROIAlign": ({"pooled_size": (2, 2), "spatial_scale": 1.0}, [(2, 3, 5, 6), np.zeros((3, 5))]),
    "_backward_contrib_ROIAlign": (
        {"pooled_size": (2, 2), "spatial_scale": 1.0}, [(3, 3, 2, 2), (2, 3, 5, 6), np.zeros((3, 5))],
    ),
    "_contrib_PSROIPooling": (
        {"pooled_size": 2, "output_dim": 1, "spatial_scale": 1.0}, [(2, 4, 5, 6), np.zeros((3, 5))],
    ),
    "_backward_contrib_PSROIPooling": (
        {"pooled_size": 2, "output_dim": 1, "spatial_scale": 1.0}, [(3, 1, 2, 2), (2, 4, 5, 6), np.zeros((3, 5))],
    ),
    "GridGenerator": ({"transform_type": "affine", "target_shape": (3, 4)}, [(2, 6)]),
    "_backward_GridGenerator": ({"transform_type": "affine", "target_shape": (3, 4)}, [(2, 2, 3, 4)]),
    "_contrib_BilinearResize2D": ({"height": 3, "width": 4}, [(2, 3, 5, 6)]),
    "_backward_contrib_BilinearResize2D": ({"height": 3, "width": 4}, [(2, 3, 3, 4), (2, 3, 5, 6)]),
    "BilinearSampler": ({}, [(2, 3, 4, 5), (2, 2, 3, 4)]),
    "_backward_BilinearSampler": ({}, [(2, 3, 3, 4), (2, 3, 4, 5), (2, 2, 3, 4)]),
    "SpatialTransformer": (
        {"transform_type": "affine", "sampler_type": "bilinear", "target_shape": (3, 4)}, [(2, 3, 4, 5), (2, 6)],
    ),
    "_contrib_box_iou": ({}, [BOX, BOX]),
    "_contrib_box_encode": ({}, [np.ones((1, 2)), np.zeros((1, 2)), BOX, BOX, np.zeros(4), np.ones(4)]),
    "_contrib_box_decode": ({}, [BOX, BOX]),
    "_contrib_box_nms": ({}, [(2, 40, 6)]),
    "_backward_contrib_box_nms": ({}, [(2, 40, 6), np.zeros((2, 40), np.int64), (2, 40, 6)]),
    "_image_to_tensor": ({}, [(4, 5, 3)]),
    "_image_normalize": ({}, [(3, 4, 5)]),
    "_image_random_flip_left_right": ({}, [(4, 5, 3)]),
    "_image_resize": ({"size": (3, 2), "interp": 2}, [(4, 5, 3)]),
    "_image_random_color_jitter": (
        {"brightness": 0.1, "contrast": 0.1, "saturation": 0.1, "hue": 0.1}, [(4, 5, 3)],
    ),
    "_image_random_lighting": ({}, [(4, 5, 3)]),
    "Correlation": ({}, [(2, 3, 6, 5)] * 2),
    "_backward_Correlation": ({}, [(2, 9, 4, 3), (2, 3, 6, 5), (2, 3, 6, 5)]),
    "im2col": ({"kernel": (3, 3)}, [(2, 3, 5, 6)]),
    "col2im": ({"kernel": (3, 3), "output_size": (5, 6)}, [(2, 27, 12)]),
    "_sample_gamma": ({}, [(3,), (3,)]),
    "_sample_negative_binomial": ({}, [(3,), (3,)]),
    "_random_poisson": ({"lam": 4.0, "shape": (3,)}, []),
    "_random_generalized_negative_binomial": ({"mu": 4.0, "alpha": 1.0, "shape": (3,)}, []),
    "_sample_multinomial": ({}, [(3, 4)]),
    "_sample_unique_zipfian": ({"range_max": 9, "shape": (3, 4)}, []),
    "_shuffle": ({}, [(3, 4)]),
    "_ravel_multi_index": ({"shape": (3, 4)}, [np.zeros((2, 5))]),
    "_unravel_index": ({"shape": (3, 4)}, [INDEX]),
    "_contrib_index_array": ({}, [(3, 4)]),
    "_contrib_index_copy": ({}, [(5, 3), np.zeros(3, np.int64), (3, 3)]),
    "_backward_contrib_index_copy": ({}, [(5, 3), (5, 3), np.zeros(3, np.int64), (3, 3)]),
    "_onehot_encode": ({}, [INDEX, (3, 4)]),
    "fill_element_0index": ({}, [(3, 4), (3,), INDEX]),
    "_linalg_extracttrian": ({}, [(2, 3, 3)]),
    "_linalg_maketrian": ({}, [(2, 6)]),
    "_linalg_trmm": ({}, [(2, 3, 3), (2, 3, 4)]),
    "_linalg_inverse": ({}, [(2, 4, 4)]),
    "_linalg_slogdet": ({}, [(2, 4, 4)]),
    "_linalg_potrf": ({}, [(2, 4, 4)]),
    "_backward_linalg_potrf": ({}, [(2, 4, 4), (2, 4, 4)]),
    "_linalg_potri": ({}, [(2, 4, 4)]),
    "_linalg_trsm": ({}, [(2, 4, 4), (2, 4, 3)]),
    "transpose": ({}, [(40, 50)]),
    "khatri_rao": ({"num_args": 2}, [(2, 3), (4, 3)]),
    "_np_cumsum": ({}, [(3, 4)]),
    "_contrib_MultiBoxPrior": ({}, [(2, 3, 4, 5)]),
    "_contrib_MultiBoxTarget": ({"negative_mining_ratio": 3.0}, [BOX, np.ones((2, 3, 5)), (2, 3, 2)]),
    "_contrib_MultiBoxDetection": ({"nms_topk": 1}, [(2, 3, 2), (2, 8), BOX]),
    "_contrib_bipartite_matching": ({"threshold": 0.1}, [(2, 3, 4)]),
    "_contrib_MultiProposal": ({"scales": (1.0,), "ratios": (1.0,)}, [(2, 2, 3, 4), (2, 4, 3, 4), (2, 3)]),
    "_contrib_ModulatedDeformableConvolution": (
        {"kernel": (2, 2), "num_filter": 3}, [(2, 3, 5, 6), (2, 8, 4, 5), (2, 4, 4, 5), (3, 3, 2, 2), (3,)],
    ),
    "_backward_contrib_ModulatedDeformableConvolution": (
        {"kernel": (2, 2), "num_filter": 3},
        [(2, 3, 4, 5), (2, 3, 5, 6), (2, 8, 4, 5), (2, 4, 4, 5), (3, 3, 2, 2), (3,)],
    ),
    "_contrib_DeformablePSROIPooling": (POOL, [(2, 4, 5, 6), np.zeros((3, 5)), (3, 2, 2, 2)]),
    "_backward_contrib_DeformablePSROIPooling": (
        POOL, [(3, 1, 2, 2), (2, 4, 5, 6), np.zeros((3, 5)), (3, 2, 2, 2)],
    ),
    "_histogram": ({}, [(3, 4), np.arange(5.0)]),
    "_contrib_count_sketch": ({"out_dim": 3}, [(2, 4), (1, 4), (1, 4)]),
    "_backward_contrib_count_sketch": ({"out_dim": 3}, [(2, 3), (2, 4), (1, 4), (1, 4)]),
    "_contrib_fft": ({}, [(2, 37)]),
    "_contrib_ifft": ({}, [(2, 74)]),
    "_contrib_hawkesll": ({}, EVENTS),
    "_backward_contrib_hawkesll": ({}, [(2,), *EVENTS]),
    "_random_pdf_dirichlet": ({}, [(2, 3), (2, 3)]),
    "_backward_random_pdf_dirichlet": ({}, [(2,), (2, 3), (2, 3)]),
    "_backward_contrib_boolean_mask": ({}, [(2, 3), (4, 3), np.ones(4)]),
    "_backward_linalg_det": ({}, [(2,), (2, 4, 4)]),
    "_linalg_gelqf": ({}, [(2, 3, 4)]),
    "_backward_linalg_gelqf": ({}, [(2, 3, 4), (2, 3, 3), (2, 3, 4), (2, 3, 3)]),
    "_linalg_syevd": ({}, [(2, 4, 4)]),
    "_backward_linalg_syevd": ({}, [(2, 4, 4), (2, 4), (2, 4, 4), (2, 4)]),
}  # fmt: skip
RNN: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "RNN": ({"state_size": 8, "num_layers": 1, "mode": "lstm"}, [(3, 2, 4)]),
}


def launches(name: str, params: dict[str, Any], inputs: list[Any], dtype: str) -> list[Launch]:
    """What an operator's kernel would launch."""
    case = make_case(name, params, inputs, dtype=dtype)
    found: list[Launch | Product] = []

    def take(
        name: str, context: Any, inputs: Any, outputs: Any, steps: list[Launch | Product], **_: Any
    ) -> str:
        found.extend(steps)
        return name

    where, function = dict(KERNELS)[name].split(":")
    make = getattr(importlib.import_module(f"mx_operators_cuda.{where}"), function)
    call = KernelCall(case.op, case.params, case.specs, case.outputs, gpu(0), True)
    with pytest.MonkeyPatch.context() as patch:
        for module in [m for key, m in sys.modules.items() if key.startswith("mx_operators_cuda.")]:
            if hasattr(module, "make_plan"):
                patch.setattr(module, "make_plan", take)
        assert make(call) is not None
    return [step for step in found if isinstance(step, Launch)]


def check(launch: Launch, architecture: str, nvrtc: Any) -> None:
    """It compiles without warnings, spills and local memory, and takes as many parameters as are given."""
    source = launch.source
    made = nvrtc.compile_kernel(source.text, source.name, architecture, ("--ptxas-options=-v",))
    assert "warning" not in made.log and "0 bytes spill stores" in made.log, made.log
    assert "0 bytes stack frame" in made.log, made.log
    registers = int(re.search(r"Used (\d+) registers", made.log)[1])  # type: ignore[index]
    assert registers * source.block <= 65536, f"{source.name}: {registers} registers"


def functions(sources: list[Launch]) -> dict[str, Launch]:
    return {launch.source.name: launch for launch in sources if ".cuh" in launch.source.text}


@pytest.mark.long
def test_written_kernels_compile(nvrtc: Any) -> None:
    """Those with shared memory, many registers, or structs that must stay in registers; the others in a slow test."""
    made = {}
    for name in ("Convolution", "_backward_Convolution", "_backward_Pooling", "take", "topk", "CTCLoss"):
        made |= functions(launches(name, *CASES[name], "float16"))
    assert len(made) > 9
    for launch in made.values():
        check(launch, "sm_90", nvrtc)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_100"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
def test_written_kernels_compile_for(architecture: str, dtype: str, nvrtc: Any) -> None:
    for name, (params, inputs) in (CASES | MORE | (RNN if dtype in ("float32", "float64") else {})).items():
        for launch in functions(launches(name, params, inputs, dtype)).values():
            check(launch, architecture, nvrtc)


def test_parameters_are_those_of_the_kernel() -> None:
    (launch,) = launches("Pooling", *CASES["Pooling"], "float32")
    declared = launch.source.text.split("(", 2)[2].split(") {")[0].split(", ")
    assert len(declared) == len(launch.parameters)
    assert launch.parameters[0] == (Kind.INPUT, 0) and launch.parameters[2] == (Kind.REQUEST, 0)
