# SPDX-License-Identifier: Apache-2.0
"""Signatures that no operator would infer: declined, never computed beyond what they hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mx_operators_cpu.library import native

Shape = tuple[int, ...]
D, C, N = (2, 4, 3), (4,), (2, 3)
BATCH = {"axis": 1, "eps": 1e-3, "momentum": 0.9, "fix_gamma": False, "use_batch_stats": True}
LAYER = {"axis": 2, "eps": 1e-3}
ROWS = (2, 4)
POOL = {
    "options": native.PoolOptions(
        kernel=[2],
        stride=[1],
        pad=[0],
        pool_type="sum",
        count_include_pad=True,
        p_value=2,
        channels_last=False,
    )
}
OUTPUT = {"rows": 2, "classes": 4, "inner": 3, "smooth_alpha": 0.0, "use_ignore": False,
          "label_is_distribution": False, "normalization": "null"}  # fmt: skip
RNN = {"mode": "gru", "layers": 1, "directions": 1, "units": 4, "state_outputs": False, "dropout": 0.0, "has_lengths": False,
       "has_mask": False, "is_train": True, "random_blocks": 0}  # fmt: skip


def _forward(*tensors: Any, **options: Any) -> object | None:
    plan: object | None = native.RecurrentStack(*tensors, **options).forward()
    return plan


def _backward(*tensors: Any, **options: Any) -> object | None:
    plan: object | None = native.RecurrentStack(*tensors, **options).backward()
    return plan


P = (3 * 4 * (3 + 4 + 2),)
#: function, inputs, outputs, options of calls that are right
CALLS: list[tuple[Callable[..., Any], list[Shape], list[Shape], dict[str, Any]]] = [
    (native.batch_norm, [D, C, C, C, C], [D, C, C], BATCH),
    (native.batch_norm_backward, [D, D, C, C, C, C, C], [D, C, C], BATCH),
    (native.layer_norm, [D, (3,), (3,)], [D, ROWS, ROWS], LAYER),
    (native.layer_norm_backward, [D, D, (3,), ROWS, ROWS], [D, (3,), (3,)], LAYER),
    (native.group_norm, [D, (2,), (2,)], [D, (2, 2), (2, 2)], {"groups": 2, "eps": 1e-3}),
    (native.group_norm_backward, [D, D, (2,), (2, 2), (2, 2)], [D, (2,), (2,)], {"groups": 2, "eps": 1e-3}),
    (native.softmax_output_backward, [N, D], [D], OUTPUT),
    (native.pooling, [D], [(2, 4, 2)], POOL),
    (native.pooling_backward, [(2, 4, 2), D, (2, 4, 2)], [D], POOL),
    (native.softmax, [(2, 20)], [(2, 20)],
     {"view": [2, 20], "axis": 1, "logarithm": False, "temperature": 1.0}),
    (_forward, [(5, 2, 3), P, (1, 2, 4)], [(5, 2, 4), (5 * 2 * 4 * 4,)], RNN),
    (_backward, [(5, 2, 4), (5, 2, 3), P, (1, 2, 4), (5, 2, 4), (5 * 2 * 4 * 4,)],
     [(5, 2, 3), P, (1, 2, 4)], RNN),
    (native.attention_scores, [(5, 2, 12)], [(4, 5, 5)], {"heads": 2, "parts": 3}),
    (native.attention_values, [(5, 2, 12), (4, 5, 5)], [(5, 2, 4)], {"heads": 2, "parts": 3}),
]  # fmt: skip


DOUBLE = 1
TYPED = [(*call, 0) for call in CALLS] + [
    (*call, DOUBLE) for call in CALLS if call[0] in (_forward, _backward)
]


@pytest.mark.parametrize(("function", "inputs", "outputs", "options", "dtype"), TYPED)
def test_one_tensor_of_another_size(
    function: Callable[..., Any],
    inputs: list[Shape],
    outputs: list[Shape],
    options: dict[str, Any],
    dtype: int,
) -> None:
    def _specs(shapes: list[Shape]) -> list[tuple[Shape, int]]:
        return [(shape, dtype) for shape in shapes]

    assert function(_specs(inputs), _specs(outputs), **options) is not None
    for which, shapes in enumerate((inputs, outputs)):
        for i, shape in enumerate(shapes):
            for wrong in ((1,), (*shape[:-1], shape[-1] + 1), (0, *shape[1:]), (2**40, *shape)):
                given = [list(inputs), list(outputs)]
                given[which][i] = wrong
                longer = (
                    function is native.pooling and wrong[-1] > shape[-1]
                )  # windows need not reach the end
                if shape != wrong and not longer:
                    assert function(*map(_specs, given), **options) is None, (which, i, wrong)
            fewer = [list(inputs), list(outputs)]
            del fewer[which][i]
            assert function(*map(_specs, fewer), **options) is None
