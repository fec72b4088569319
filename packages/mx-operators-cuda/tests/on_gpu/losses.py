# SPDX-License-Identifier: Apache-2.0
"""Losses on a GPU, real or fake, against the operators' references; see `plans.py`."""

from __future__ import annotations

import numpy as np
import pytest

from mx_operators_cuda.register import KERNELS
from testkit.device_memory import GpuBench
from testkit.gpu_kernels import FAKE, WRITE, Given, compare

CLASSES = np.array([0.0, 6, 3])
SHARES = np.random.default_rng(4).random((3, 4, 2, 5))
CASES: dict[str, list[Given]] = {
    **{f"{name}RegressionOutput": [({"grad_scale": 2.0}, [(3, 4)])] for name in ("Linear", "Logistic", "MAE")},
    **{f"_backward_{name}RegressionOutput": [({"grad_scale": 2.0}, [(3, 4), (3, 4)]), ({}, [(3,), (3, 1)])]
       for name in ("Linear", "Logistic", "MAE")},
    "_backward_SVMOutput": [
        ({"margin": 0.5, "regularization_coefficient": 2.0}, [CLASSES, (3, 7)]), ({"use_linear": True}, [CLASSES, (3, 7)]),
    ],
    "IdentityAttachKLSparseReg": [({"sparseness_target": 0.2, "penalty": 0.1}, [SHARES, (4,)]), ({}, [SHARES[:, :, 0, 0], (4,)]), ({}, [(0, 2), (2,)])],
    "_backward_IdentityAttachKLSparseReg": [
        ({"sparseness_target": 0.2, "penalty": 0.1}, [(3, 4, 2, 5), np.array([0.1, 0.5, 0.9, 0.2])]),
    ],
    "_backward_MakeLoss": [({"grad_scale": 3.0}, [(3, 4)]), ({"normalization": "batch"}, [(3, 4)])],
    "softmax_cross_entropy": [({}, [(3, 7), CLASSES])],
    "_backward_softmax_cross_entropy": [({}, [(1,), (3, 7), CLASSES]), ({}, [(1,), (2, 300), CLASSES[:2]])],
}  # fmt: skip

WORDS = np.array([[1.0, 2, 2, 0], [3, 0, 0, 0], [1, 1, 1, 1]])
LAST = np.array([[0.0, 1, 1, -1], [2, -1, -1, -1], [0, 3, 0, 2]])
PATHS: list[Given] = [
    ({}, [(7, 3, 5), WORDS]), ({"blank_label": "last"}, [(5, 3, 5), LAST]),
    ({"use_data_lengths": True, "use_label_lengths": True}, [(6, 3, 4), WORDS, np.array([6.0, 3, 6]), np.array([3.0, 1, 4])]),
    ({"use_label_lengths": True}, [(4, 2, 3), np.array([[0.0, 1], [1, 1]]), np.array([2.0, 0])]),
]  # fmt: skip


@pytest.fixture(scope="module")
def bench() -> GpuBench:
    return GpuBench()


def test_every_loss_has_cases() -> None:
    paths = {"CTCLoss", "_backward_CTCLoss"}
    assert set(CASES) | paths == {name for name, make in KERNELS if make.startswith(("losses:", "ctc:"))}


def test_averages_move_in_training_only(bench: GpuBench) -> None:
    given = [SHARES, np.array([0.1, 0.5, 0.9, 0.2])]
    for is_train in (True, False):
        compare(
            bench, "IdentityAttachKLSparseReg", {"momentum": 0.7}, given, is_train=is_train, requests=(WRITE,)
        )


@pytest.mark.parametrize("name", sorted(CASES)[:: 3 if FAKE else 1])
def test_losses(name: str, bench: GpuBench) -> None:
    for params, inputs in CASES[name]:
        compare(bench, name, params, inputs)
        if not FAKE and name != "softmax_cross_entropy":
            compare(bench, name, params, inputs, "float16")


def test_paths(bench: GpuBench) -> None:
    """Repeated labels, padding, lengths, a blank as label, and a label that no path can read."""
    for params, inputs in PATHS:
        case = compare(bench, "CTCLoss", params, inputs, span=(-3, 3))
        slope = case.reference()[1]
        head = np.linspace(-1, 1, slope.shape[1])
        compare(bench, "_backward_CTCLoss", params, [head, slope.astype(np.float64), *case.inputs])
