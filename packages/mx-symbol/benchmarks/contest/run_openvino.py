# SPDX-License-Identifier: Apache-2.0
"""OpenVINO on the CPU, tuned for latency: one request at a time on all cores."""

from collections.abc import Callable
from typing import Any

import openvino

from contest.onnx_model import load


def prepare(
    framework: str, folder: str, training: bool, dtype: str
) -> tuple[Callable[[], None], Callable[[], Any], None]:
    """Step and result of a task."""
    model, data = load(folder)
    precision = "f32" if dtype == "float32" else "bf16"
    hints = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": precision}
    core = openvino.Core()
    request = core.compile_model(
        core.read_model(model.SerializeToString()), "CPU", hints
    ).create_infer_request()
    given = openvino.Tensor(data)
    request.set_input_tensor(given)

    def step() -> None:
        request.infer()

    def result() -> Any:
        request.infer()
        return request.get_output_tensor().data

    return step, result, None
