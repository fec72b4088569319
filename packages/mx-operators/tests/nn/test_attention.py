# SPDX-License-Identifier: Apache-2.0
"""Interleaved attention against the plain formula, head by head."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mx_core import operators
from mx_core.errors import ShapeError
from mx_core.operator import infer_shapes

PREFIX = "_contrib_interleaved_matmul_"
L, Q, N, H, D = 4, 3, 2, 5, 6


def array(*shape: int) -> Any:
    return np.random.default_rng(len(shape) + sum(shape)).normal(size=shape)


def part(x: Any, n: int, head: int, parts: int, which: int) -> Any:
    begin = (head * parts + which) * D
    return x[:, n, begin : begin + D]


def test_self_attention(run: Any, check_gradient: Any) -> None:
    x, attention = array(L, N, H * 3 * D), array(N * H, L, L)
    scores = run(PREFIX + "selfatt_qk", [x], heads=H)[0]
    values = run(PREFIX + "selfatt_valatt", [x, attention], heads=H)[0]
    assert scores.shape == (N * H, L, L) and values.shape == (L, N, H * D)
    for n, h in np.ndindex(N, H):
        expected = part(x, n, h, 3, 0) @ part(x, n, h, 3, 1).T / np.sqrt(D)
        np.testing.assert_allclose(scores[n * H + h], expected)
        np.testing.assert_allclose(part(values, n, h, 1, 0), attention[n * H + h] @ part(x, n, h, 3, 2))
    check_gradient(PREFIX + "selfatt_qk", [x], heads=H)
    check_gradient(PREFIX + "selfatt_valatt", [x, attention], heads=H)


def test_attention_between_encoder_and_decoder(run: Any, check_gradient: Any) -> None:
    q, x, attention = array(Q, N, H * D), array(L, N, H * 2 * D), array(N * H, Q, L)
    scores = run(PREFIX + "encdec_qk", [q, x], heads=H)[0]
    values = run(PREFIX + "encdec_valatt", [x, attention], heads=H)[0]
    assert scores.shape == (N * H, Q, L) and values.shape == (Q, N, H * D)
    for n, h in np.ndindex(N, H):
        expected = part(q, n, h, 1, 0) @ part(x, n, h, 2, 0).T / np.sqrt(D)
        np.testing.assert_allclose(scores[n * H + h], expected)
        np.testing.assert_allclose(part(values, n, h, 1, 0), attention[n * H + h] @ part(x, n, h, 2, 1))
    check_gradient(PREFIX + "encdec_qk", [q, x], heads=H)
    check_gradient(PREFIX + "encdec_valatt", [x, attention], heads=H)


def test_shapes() -> None:
    op = operators.get(PREFIX + "selfatt_qk")
    _, outputs = infer_shapes(op, op.Param(heads=H), [(L, N, H * 3 * D)])
    assert outputs[0] == (N * H, L, L)
    op = operators.get(PREFIX + "encdec_qk")
    _, outputs = infer_shapes(op, op.Param(heads=H), [(Q, N, H * D), (L, N, H * 2 * D)])
    assert outputs[0] == (N * H, Q, L)
    with pytest.raises(ShapeError, match="queries"):
        infer_shapes(op, op.Param(heads=H), [(Q, N, H * D), (L, N, H * 4 * D)])
    with pytest.raises(ShapeError, match="5 heads"):
        infer_shapes(op, op.Param(heads=H), [(Q, N, 7), (L, N, 14)])
    op = operators.get(PREFIX + "encdec_valatt")
    inputs, outputs = infer_shapes(op, op.Param(heads=H), [(L, N, H * 2 * D), (-1, Q, -1)])
    assert inputs[1] == (N * H, Q, L) and outputs[0] == (Q, N, H * D)


def test_div_sqrt_dim(run: Any, check_gradient: Any) -> None:
    x = array(2, 9)
    np.testing.assert_allclose(run("_contrib_div_sqrt_dim", [x])[0], x / 3)
    check_gradient("_contrib_div_sqrt_dim", [x])
