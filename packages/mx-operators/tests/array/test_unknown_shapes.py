# SPDX-License-Identifier: Apache-2.0
"""What is not known when shapes are inferred is left open; what is known is checked."""

from __future__ import annotations

from typing import Any

import pytest

from mx_core import operators
from mx_core.errors import MXNetError
from mx_core.operator import infer_shapes


def test_a_slice_is_checked_against_the_shape_once_that_is_known() -> None:
    op = operators.get("_slice_assign_scalar")
    p = op.Param.parse({"scalar": 1.0, "begin": (0, 0), "end": (1, 2)})
    assert infer_shapes(op, p, [None]) == ((None,), (None,))
    assert infer_shapes(op, p, [(3, 4)]) == (((3, 4),), ((3, 4),))
    with pytest.raises(MXNetError, match="_slice_assign_scalar"):
        infer_shapes(op, p, [(3,)])


def test_one_hot_rows_have_two_axes() -> None:
    op = operators.get("_onehot_encode")
    p = op.Param.parse({})
    assert infer_shapes(op, p, [None, None]) == ((None, None), (None,))
    assert infer_shapes(op, p, [None, (3, 4)]) == (((3,), (3, 4)), ((3, 4),))
    with pytest.raises(MXNetError, match="rhs: expected 2 dimensions"):
        infer_shapes(op, p, [None, (3, 4, 5)])


def _inferred(name: str, given: dict[str, object], inputs: list[Any], outputs: list[Any]) -> Any:
    op = operators.get(name)
    return infer_shapes(op, op.Param.parse(given), inputs, outputs)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("FullyConnected", {"num_hidden": 4}),
        ("Convolution", {"num_filter": 4, "kernel": (3, 3)}),
        ("Deconvolution", {"num_filter": 4, "kernel": (3, 3), "no_bias": False}),
    ],
)
def test_a_layer_without_data_tells_nothing_of_its_parameters(name: str, given: dict[str, object]) -> None:
    assert _inferred(name, given, [None, None, None], [None]) == ((None, None, None), (None,))


def test_a_convolution_of_stride_1_tells_the_extents_of_its_data() -> None:
    given = {
        "num_filter": 4,
        "kernel": (3, 5),
        "stride": (1, 2),
        "dilate": (2, 1),
        "pad": (1, 0),
        "no_bias": True,
    }
    data = [(-1, 6, -1, -1), None]
    (found, weight), _ = _inferred("Convolution", given, data, [(2, 4, 8, 8)])
    assert (found, weight) == ((2, 6, 10, -1), (4, 6, 3, 5))
    assert _inferred("Convolution", given, [(2, 6, 10, 19), None], [None])[1] == ((2, 4, 8, 8),)
    last = {"num_filter": 4, "kernel": (3, 3), "layout": "NHWC", "no_bias": True}
    assert _inferred("Convolution", last, [(-1, -1, -1, 6), None], [(2, 8, 9, 4)]) == (
        ((2, 10, 11, 6), (4, 3, 3, 6)),
        ((2, 8, 9, 4),),
    )


def test_a_deconvolution_tells_the_extents_that_it_knows() -> None:
    given = {"num_filter": 4, "kernel": (3, 3)}
    assert _inferred("Deconvolution", given, [(2, 6, -1, 8), None], [None])[1] == ((2, 4, -1, 10),)
    with pytest.raises(MXNetError, match="no positive output extent"):
        _inferred("Deconvolution", given | {"pad": (0, 6)}, [(2, 6, -1, 8), None], [None])


def test_concatenated_arrays_take_extents_from_each_other_and_the_result() -> None:
    given = {"num_args": 2, "dim": 1}
    assert _inferred("Concat", given, [(-1, 10), (-1, 5)], [(2, -1)]) == (((2, 10), (2, 5)), ((2, 15),))
    assert _inferred("Concat", given, [(-1, 1, 3), (4, 2, -1)], [None])[1] == ((4, 3, 3),)
    with pytest.raises(MXNetError, match="Concat"):
        _inferred("Concat", given, [(4, 1, 3), (4, 2, -1)], [(4, 3, 2)])


def test_pieces_tell_the_extents_of_what_was_cut() -> None:
    squeezed = {"num_outputs": 2, "axis": 1, "squeeze_axis": True}
    assert _inferred("SliceChannel", squeezed, [(-1, 2, 3)], [None, (5, 3)]) == (
        ((5, 2, 3),),
        ((5, 3), (5, 3)),
    )
    kept = {"num_outputs": 3}
    assert _inferred("SliceChannel", kept, [(-1, 15, -1)], [None, (3, 5, 2), None])[0] == ((3, 15, 2),)
    with pytest.raises(MXNetError, match="SliceChannel"):
        _inferred("SliceChannel", squeezed, [(4, 2, 3)], [None, (5, 3)])


def test_a_product_waits_for_the_axis_that_is_summed() -> None:
    assert _inferred("batch_dot", {}, [(-1, 3, 4), (-1, -1, 5)], [None])[1] == (None,)
    assert _inferred("batch_dot", {}, [(-1, 3, 4), (-1, 4, 5)], [None])[1] == ((-1, 3, 5),)


def test_a_slice_of_an_unknown_extent_has_the_other_extents() -> None:
    given = {"axis": 1, "begin": 0, "end": 2}
    assert _inferred("slice_axis", given, [(2, -1, 8)], [None])[1] == ((2, -1, 8),)


def test_no_axes_to_follow_are_refused() -> None:
    with pytest.raises(MXNetError, match=r"lhs_axes: expected at least one axis, got \(\)"):
        _inferred("broadcast_like", {"lhs_axes": (), "rhs_axes": ()}, [(1, 3), (2, 3)], [None])
