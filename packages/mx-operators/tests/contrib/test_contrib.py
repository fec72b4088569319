# SPDX-License-Identifier: Apache-2.0
"""What no recorded case covers: operators that MXNet has on GPUs only, bad values, rare shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mx_core import errors, operators
from mx_core.operator import infer_shapes
from testkit import replay

RNG = np.random.default_rng(3)


def adjoint(name: str, attrs: dict[str, Any], data: Any, *others: Any) -> None:
    """⟨op(x), g⟩ = ⟨x, gradient(g)⟩ for a linear operator."""
    y = replay.forward(name, attrs, [data, *others], False)
    g = RNG.normal(size=y[0].shape)
    grad = replay.backward(name, attrs, [data, *others], y, [g])[0]
    np.testing.assert_allclose((y[0] * g).sum(), (data * grad).sum(), rtol=1e-9)


@pytest.mark.parametrize("n", [1, 5, 8])
def test_fourier_transforms(n: int) -> None:
    x = RNG.normal(size=(2, 3, n))
    (pairs,) = replay.forward("_contrib_fft", {}, [x], False)
    direct = x @ np.exp(-2j * np.pi * np.outer(np.arange(n), np.arange(n)) / n)
    np.testing.assert_allclose(pairs[..., ::2], direct.real, atol=1e-12)
    np.testing.assert_allclose(pairs[..., 1::2], direct.imag, atol=1e-12)
    (back,) = replay.forward("_contrib_ifft", {}, [pairs], False)
    np.testing.assert_allclose(back, n * x, atol=1e-12)
    adjoint("_contrib_fft", {}, x)
    adjoint("_contrib_ifft", {}, pairs)


def test_fourier_transforms_of_nothing_and_of_odd_pairs() -> None:
    assert replay.forward("_contrib_fft", {}, [np.ones((2, 0))], False)[0].shape == (2, 0)
    op = operators.get("_contrib_ifft")
    with pytest.raises(errors.ShapeError, match="pairs"):
        infer_shapes(op, op.Param(), [(2, 5)])


def test_count_sketch() -> None:
    x, h, s = RNG.normal(size=(3, 6)), np.array([[0, 2, 2, 1, 0, 2]]), np.array([[1, -1, 1, 1, -1, 1.0]])
    (y,) = replay.forward("_contrib_count_sketch", {"out_dim": 4}, [x, h, s], False)
    expected = np.stack([x[:, 0] - x[:, 4], x[:, 3], -x[:, 1] + x[:, 2] + x[:, 5], 0 * x[:, 0]], 1)
    np.testing.assert_allclose(y, expected)
    adjoint("_contrib_count_sketch", {"out_dim": 4}, x, h, s)
    with pytest.raises(errors.IndexOutOfBoundsError, match="h: expected 0 to 1, got 2"):
        replay.forward("_contrib_count_sketch", {"out_dim": 2}, [x, h, s], False)


@pytest.mark.parametrize(
    ("shape", "attrs"),
    [
        ((2, 3, 7), {"kernel": (3,), "stride": (2,), "pad": (1,)}),
        ((1, 2, 3, 4, 5), {"kernel": (2, 2, 2), "dilate": (1, 2, 1)}),
        ((0, 2, 4, 4), {"kernel": (2, 3)}),
    ],
)
def test_columns_in_any_number_of_dimensions(shape: tuple[int, ...], attrs: dict[str, Any]) -> None:
    x = RNG.normal(size=shape)
    adjoint("im2col", attrs, x)
    (columns,) = replay.forward("im2col", attrs, [x], False)
    adjoint("col2im", {**attrs, "output_size": shape[2:]}, columns)
    assert infer_shapes(operators.get("im2col"), operators.get("im2col").Param(**attrs), [shape])[1] == (
        columns.shape,
    )


def test_of_equal_indices_the_last_row_counts() -> None:
    old, index, new = np.zeros((3, 2)), np.array([1, 1]), np.array([[1.0, 2], [3, 4]])
    y = replay.forward("_contrib_index_copy", {}, [old, index, new], False)
    assert y[0].tolist() == [[0, 0], [3, 4], [0, 0]]
    grads = replay.backward("_contrib_index_copy", {}, [old, index, new], y, [np.ones((3, 2))])
    assert grads[0].tolist() == [[1, 1], [0, 0], [1, 1]] and grads[2].tolist() == [[0, 0], [1, 1]]
    for wrong in (-1, 3):
        with pytest.raises(errors.IndexOutOfBoundsError, match=f"expected 0 to 2, got {wrong}"):
            replay.forward("_contrib_index_copy", {}, [old, np.array([wrong, 0]), new], False)


def test_a_mask_of_nothing() -> None:
    (y,) = replay.forward("_contrib_boolean_mask", {}, [np.ones((3, 2)), np.zeros(3)], False)
    assert y.shape == (0, 2)
    with pytest.raises(errors.ArgumentError, match="axis"):
        operators.get("_contrib_boolean_mask").Param.parse({"axis": 1}, op="_contrib_boolean_mask")


def test_a_reference_refuses_to_join_several_devices() -> None:
    op = operators.get("_contrib_SyncBatchNorm")
    p = op.Param.parse({"key": "layer", "ndev": "2"}, op=op.name)
    assert p.attrs() == {"key": "layer", "ndev": "2"}
    inputs = [RNG.normal(size=(2, 3, 4)), *np.ones((4, 3))]
    replay.forward(op.name, p.attrs(), inputs, False)
    with pytest.raises(errors.NoKernelError, match="statistics of 2 devices"):
        replay.forward(op.name, p.attrs(), inputs, True)


def test_ctc_of_short_and_impossible_sequences() -> None:
    data = RNG.normal(size=(2, 3, 4))
    label = np.array([[1, 1], [0, 0], [2, 3]])
    y = replay.forward("CTCLoss", {}, [data, label], False)
    log_prob = data - np.log(np.exp(data).sum(2, keepdims=True))
    expected = [0, -log_prob[:, 1, 0].sum(), -log_prob[0, 2, 2] - log_prob[1, 2, 3]]
    np.testing.assert_allclose(y[0], expected)
    grad = replay.backward("CTCLoss", {}, [data, label], y, [np.ones(3), np.zeros_like(data)])[0]
    assert not grad[:, 0].any() and np.isfinite(grad).all() and grad[:, 1].any()
    with pytest.raises(errors.IndexOutOfBoundsError, match="label: expected 1 to 3, got 9"):
        replay.forward("CTCLoss", {}, [data, np.full((3, 2), 9)], False)
    op = operators.get("CTCLoss")
    with pytest.raises(errors.ShapeError, match="at most 2 labels"):
        infer_shapes(op, op.Param(), [(2, 3, 4), (3, 3)])
    for lengths in ((0, 1, 1), (1, 3, 1)):
        with pytest.raises(errors.IndexOutOfBoundsError, match="data_lengths: expected 1 to 2"):
            attrs = {"use_data_lengths": True}
            replay.forward("CTCLoss", attrs, [data, label, np.array(lengths)], False)


def test_ctc_of_the_blank_as_a_label() -> None:
    """Losses of equal probabilities count paths; MXNet 1.9.1 gives the same."""
    data = np.zeros((20, 3, 4))
    label, lengths = np.array([[2, 1, 2, 2], [3, 2, 2, 2], [2, 3, 1, 0]]), np.array([2, 3, 3])
    attrs = {"use_label_lengths": True, "blank_label": "last"}
    loss = replay.forward("CTCLoss", attrs, [data, label, lengths], False)[0]
    np.testing.assert_allclose(loss, [18.82820702, 16.50581741, 16.50581741], rtol=1e-6)
    numbers = np.random.default_rng(1).random((6, 1, 4))
    for each in ([3, 0], [0, 3], [1, 3, 2]):
        label, lengths = np.array([each]), np.array([len(each)])
        y = replay.forward("CTCLoss", attrs, [numbers, label, lengths], False)
        slope = replay.backward(
            "CTCLoss", attrs, [numbers, label, lengths], y, [np.ones(1), np.zeros_like(numbers)]
        )[0]
        step = 1e-5 * np.random.default_rng(2).standard_normal(numbers.shape)
        ahead, behind = (
            replay.forward("CTCLoss", attrs, [numbers + sign * step, label, lengths], False)[0]
            for sign in (1, -1)
        )
        np.testing.assert_allclose(ahead - behind, 2 * (slope * step).sum(), rtol=1e-5)


def test_ctc_with_label_lengths_alone() -> None:
    data = RNG.normal(size=(5, 2, 4))
    label, lengths = np.array([[1, 2, 3], [3, 3, 1]]), np.array([3, 1])
    alone = replay.forward("CTCLoss", {"use_label_lengths": True}, [data, label, lengths], False)
    padded = np.array([[1, 2, 3], [3, 0, 0]])
    np.testing.assert_allclose(alone[0], replay.forward("CTCLoss", {}, [data, padded], False)[0])


def test_slopes_of_a_likelihood() -> None:
    kinds, sequences, events = 3, 2, 5
    inputs = [
        RNG.uniform(0.2, 1, (sequences, kinds)), RNG.uniform(0.1, 0.5, kinds), RNG.uniform(0.5, 2, kinds),
        RNG.uniform(0, 1, (sequences, kinds)), RNG.uniform(0, 1, (sequences, events)),
        RNG.integers(0, kinds, (sequences, events)), np.array([5, 3]), np.array([6.0, 7.0]),
    ]  # fmt: skip
    y = replay.forward("_contrib_hawkesll", {}, inputs, False)
    head = RNG.normal(size=sequences)
    grads = replay.backward("_contrib_hawkesll", {}, inputs, y, [head, np.zeros_like(y[1])])
    for i in range(3):
        direction = RNG.normal(size=inputs[i].shape)
        ends = []
        for sign in (1e-6, -1e-6):
            moved = [x + sign * direction if j == i else x for j, x in enumerate(inputs)]
            ends.append((replay.forward("_contrib_hawkesll", {}, moved, False)[0] * head).sum())
        np.testing.assert_allclose((grads[i] * direction).sum(), (ends[0] - ends[1]) / 2e-6, rtol=1e-6)
    with pytest.raises(errors.IndexOutOfBoundsError, match="marks: expected 0 to 2"):
        replay.forward("_contrib_hawkesll", {}, [*inputs[:5], inputs[5] + 9, *inputs[6:]], False)
