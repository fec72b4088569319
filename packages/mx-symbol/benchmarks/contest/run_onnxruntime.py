# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime on the CPU, its input and output bound to fixed arrays."""

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime

from contest.onnx_model import load


def prepare(
    framework: str, folder: str, training: bool, dtype: str
) -> tuple[Callable[[], None], Callable[[], Any], None]:
    """Step and result of a task."""
    model, data = load(folder)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = os.cpu_count() or 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    given, made = session.get_inputs()[0], session.get_outputs()[0]
    out = onnxruntime.OrtValue.ortvalue_from_shape_and_type(made.shape, np.float32, "cpu", 0)
    binding = session.io_binding()
    binding.bind_ortvalue_input(given.name, onnxruntime.OrtValue.ortvalue_from_numpy(data, "cpu", 0))
    binding.bind_ortvalue_output(made.name, out)

    def step() -> None:
        session.run_with_iobinding(binding)

    def result() -> Any:
        step()
        return out.numpy()

    return step, result, None
