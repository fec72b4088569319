# SPDX-License-Identifier: Apache-2.0
"""UpSampling, BilinearResize2D and AdaptiveAvgPooling2D beyond the recorded cases."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mx_core import operators
from mx_core.errors import ShapeError
from mx_core.operator import infer_shapes


def image(*shape: int) -> Any:
    return np.random.default_rng(3).normal(size=shape)


def test_nearest_brings_inputs_to_one_size(run: Any, check_gradient: Any) -> None:
    a, b = image(2, 3, 4, 2), image(2, 1, 2, 2)
    attrs = {"scale": 2, "sample_type": "nearest", "num_args": 2}
    out = run("UpSampling", [a, b], **attrs)[0]
    assert out.shape == (2, 4, 8, 4)
    np.testing.assert_array_equal(out[:, :3], np.kron(a, np.ones((2, 2))))
    np.testing.assert_array_equal(out[:, 3:], np.kron(b, np.ones((4, 2))))
    check_gradient("UpSampling", [a, b], **attrs)
    total = run("UpSampling", [a, a], multi_input_mode="sum", **attrs)[0]
    np.testing.assert_allclose(total, 2 * np.kron(a, np.ones((2, 2))))
    check_gradient("UpSampling", [a, a], multi_input_mode="sum", **attrs)


@pytest.mark.parametrize("scale", [2, 3])
def test_bilinear_is_a_deconvolution_per_channel(run: Any, check_gradient: Any, scale: int) -> None:
    kernel = 2 * scale - scale % 2
    tent = 1 - abs(np.arange(kernel) / scale - (2 * scale - 1 - scale % 2) / (2 * scale))
    weight = np.broadcast_to(np.outer(tent, tent), (2, 1, kernel, kernel)).copy()
    attrs = {"scale": scale, "sample_type": "bilinear", "num_filter": 2, "num_args": 1}
    data = np.ones((1, 2, 4, 5))
    op = operators.get("UpSampling")
    inputs, outputs = infer_shapes(op, op.Param(**attrs), [data.shape, None])
    assert inputs[1] == weight.shape and outputs[0] == (1, 2, 4 * scale, 5 * scale)
    out = run("UpSampling", [data, weight], **attrs)[0]
    inner = out[..., scale:-scale, scale:-scale]
    np.testing.assert_allclose(inner, np.ones_like(inner))
    check_gradient("UpSampling", [image(1, 2, 4, 5), weight], **attrs)


@pytest.mark.parametrize(
    ("attrs", "expected"),
    [
        ({"height": 3, "width": 9}, (3, 9)),
        ({"mode": "odd_scale", "scale_height": 2.0, "scale_width": 2.0}, (9, 12)),
        ({"mode": "to_even_down"}, (4, 6)),
        ({"mode": "to_even_up"}, (6, 6)),
        ({"mode": "to_odd_down"}, (5, 5)),
        ({"mode": "to_odd_up"}, (5, 7)),
    ],
)
@pytest.mark.parametrize("align", [True, False])
def test_resized_extents(
    run: Any, check_gradient: Any, attrs: dict[str, Any], expected: tuple[int, int], align: bool
) -> None:
    data = image(1, 2, 5, 6)
    out = run("_contrib_BilinearResize2D", [data], align_corners=align, **attrs)[0]
    assert out.shape[2:] == expected
    if align:
        np.testing.assert_allclose(
            out[..., [0, 0, -1, -1], [0, -1, 0, -1]], data[..., [0, 0, -1, -1], [0, -1, 0, -1]]
        )
    assert out.min() >= data.min() and out.max() <= data.max()
    check_gradient("_contrib_BilinearResize2D", [data], align_corners=align, **attrs)


def test_resize_like_another_image(run: Any, check_gradient: Any) -> None:
    inputs = [image(2, 1, 3, 3), image(1, 4, 5, 7)]
    assert run("_contrib_BilinearResize2D", inputs, mode="like")[0].shape == (2, 1, 5, 7)
    check_gradient("_contrib_BilinearResize2D", inputs, mode="like")


def test_one_value_is_both_extents(run: Any) -> None:
    data = image(2, 3, 7, 5)
    np.testing.assert_allclose(run("_contrib_AdaptiveAvgPooling2D", [data])[0][..., 0, 0], data.mean((2, 3)))
    np.testing.assert_allclose(run("_contrib_AdaptiveAvgPooling2D", [data], output_size=(7, 5))[0], data)
    assert run("_contrib_AdaptiveAvgPooling2D", [data], output_size=2)[0].shape == (2, 3, 2, 2)


@pytest.mark.parametrize(
    ("name", "attrs", "shapes", "message"),
    [
        ("UpSampling", {"scale": 2, "sample_type": "nearest", "num_args": 2},
         [(1, 1, 2, 2), (1, 1, 3, 3)], "do not divide"),
        ("UpSampling", {"scale": 2, "sample_type": "bilinear", "num_args": 1},
         [(1, 1, 2, 2), None], "num_filter"),
        ("_contrib_BilinearResize2D", {"mode": "size", "scale_height": 0.01},
         [(1, 1, 2, 2)], "no positive output extent"),
        ("_contrib_AdaptiveAvgPooling2D", {"output_size": (1, 2, 3)}, [(1, 1, 2, 2)], "at most 2"),
        ("_contrib_AdaptiveAvgPooling2D", {}, [(1, 1, 0, 2)], "empty"),
    ],
)  # fmt: skip
def test_errors(name: str, attrs: dict[str, Any], shapes: list[Any], message: str) -> None:
    op = operators.get(name)
    with pytest.raises(ShapeError, match=message):
        infer_shapes(op, op.Param.parse(attrs, op=name), shapes)


@pytest.mark.parametrize(("head", "data"), [((7, 2, 1, 5), (3, 1, 0, 4)), ((1, 1, 4, 5), (1, 1, 2, 2))])
def test_the_gradient_of_a_repetition_has_the_shape_of_its_result(head: Any, data: Any) -> None:
    op = operators.get("_backward_UpSampling")
    param = op.Param.parse({"scale": 2, "sample_type": "nearest", "num_args": 1})
    with pytest.raises(ShapeError, match="_backward_UpSampling"):
        infer_shapes(op, param, [head, data])
