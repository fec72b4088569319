# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime on the CPU."""

import os
from collections.abc import Callable
from typing import Any

import onnxruntime
from onnx_model import load


def prepare(
    framework: str, folder: str, training: bool, dtype: str
) -> tuple[Callable[[], None], Callable[[], Any]]:
    """Step and result of a task."""
    model, data = load(folder)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = os.cpu_count() or 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    given = {session.get_inputs()[0].name: data}

    def step() -> None:
        session.run(None, given)

    return step, lambda: session.run(None, given)[0]
