# SPDX-License-Identifier: Apache-2.0
"""What every declaration must have, and how wrong input is answered."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from mx_core import dtypes, operators
from mx_core.errors import ArgumentError, DTypeError, ShapeError
from mx_core.operator import infer_shapes, infer_types
from mx_core.operator.text import coerce


@pytest.mark.parametrize("name", sorted({operators.get(n).name for n in operators.names()}))
def test_declaration_is_complete(name: str) -> None:
    op = operators.get(name)
    assert inspect.getdoc(type(op)), f"{name} has no docstring"
    op.signature()
    assert name in op.doc() or inspect.getdoc(type(op)) in op.doc()  # type: ignore[operator]
    for info in op.Param.fields():
        assert info.doc, f"{name}.{info.name} has no sentence"
        if not info.required and info.default is not None:
            assert coerce(info.default, info, name) == info.default


@pytest.mark.parametrize(
    ("op", "attrs", "shapes", "message"),
    [
        (
            "Convolution",
            {"kernel": (3, 3), "num_filter": 4},
            [(1, 3, 8, 8), (4, 2, 3, 3), None],
            r"weight: expected shape \(4, 3, 3, 3\), got \(4, 2, 3, 3\)",
        ),
        (
            "Convolution",
            {"kernel": (9, 9), "num_filter": 4},
            [(1, 3, 8, 8), None, None],
            "larger than the padded data",
        ),
        ("FullyConnected", {"num_hidden": 4}, [(2, 3), (4, 5), None], "weight"),
        ("elemwise_add", {}, [(2, 3), (3, 2)], "rhs|lhs"),
        ("broadcast_add", {}, [(2, 3), (4,)], r"\[2,3\] \[4\]"),
        ("Concat", {"num_args": 2, "dim": 5}, [(2, 3), (2, 3)], "dim: expected"),
        ("dot", {}, [(2, 3), (4, 5)], "3 differs from 4"),
        ("Pooling", {"kernel": (2, 2)}, [(3, 3)], "expected 3 to 5 dimensions"),
        ("batch_take", {}, [(3, 5, 0), (3,)], "expected 2 dimensions"),
        ("transpose", {"axes": (0, 0)}, [(2, 3)], "not a permutation"),
        ("slice", {"begin": (0, 0, 0), "end": (1, 1, 1)}, [(2, 3)], "do not fit"),
    ],
)
def test_wrong_shapes_name_operator_and_values(
    op: str, attrs: dict[str, object], shapes: list[tuple[int, ...] | None], message: str
) -> None:
    declared = operators.get(op)
    with pytest.raises(ShapeError, match=message) as caught:
        infer_shapes(declared, declared.Param.parse(attrs, op=op), shapes, node="n0")
    assert f"[{op} 'n0']" in str(caught.value)


def test_wrong_types_and_parameters() -> None:
    add = operators.get("elemwise_add")
    with pytest.raises(DTypeError, match="elemwise_add.*expected int32, got float32|float32, got int32"):
        infer_types(add, add.Param(), [4, 0])
    with pytest.raises(ArgumentError, match="num_hidden"):
        operators.get("FullyConnected").Param.parse({"num_hiden": 3}, op="FullyConnected")
    with pytest.raises(ArgumentError, match="act_type: expected one of"):
        operators.get("Activation").Param.parse({"act_type": "swish"}, op="Activation")


@pytest.mark.parametrize("name", ["sgd_update", "adam_update", "_adamw_update", "lamb_update_phase1"])
def test_updates_refuse_integers(name: str) -> None:
    op = operators.get(name)
    p = op.Param(**{info.name: 1 for info in op.Param.fields() if info.required})
    with pytest.raises(DTypeError, match=rf"\[{name}\] weight: expected one of bfloat16, .*, got int32"):
        infer_types(op, p, [dtypes.code("int32"), *[None] * (len(op.inputs(p)) - 1)])


def test_mutual_inference() -> None:
    fc = operators.get("FullyConnected")
    inputs, outputs = infer_shapes(fc, fc.Param(num_hidden=8), [(5, 3, 2), None, None])
    assert (inputs, outputs) == (((5, 3, 2), (8, 6), (8,)), ((5, 8),))
    inputs, _ = infer_shapes(fc, fc.Param(num_hidden=8), [(-1, 6), None, None], [(7, -1)])
    assert inputs[0] == (7, 6)
    concat = operators.get("Concat")
    inputs, _ = infer_shapes(concat, concat.Param(num_args=2), [(2, 3), None], [(2, 8)])
    assert inputs[1] == (2, 5)


@pytest.mark.parametrize(
    ("op", "attrs", "data", "part", "output", "wrong"),
    [
        ("FullyConnected", {"num_hidden": 4, "no_bias": True}, (3, 5), (-1, 5), (3, 4), (2, 4)),
        ("FullyConnected", {"num_hidden": 4, "no_bias": True, "flatten": False}, (3, 5), (3, -1), (3, 4), (3, 5)),
        ("Convolution", {"kernel": (3,), "num_filter": 4, "no_bias": 1}, (2, 5, 7), (-1, 5, -1), (2, 4, 5), (2, 4, 4)),
        ("Pooling", {"kernel": (3,)}, (2, 5, 7), (-1, 5, 7), (2, 5, 5), (1, 5, 5)),
    ],
)  # fmt: skip
def test_the_output_tells_what_is_unknown_of_data_and_contradicts_what_is_known(
    op: str,
    attrs: dict[str, object],
    data: tuple[int, ...],
    part: tuple[int, ...],
    output: tuple[int, ...],
    wrong: tuple[int, ...],
) -> None:
    declared = operators.get(op)
    p = declared.Param.parse(attrs, op=op)
    rest = [None] * (len(declared.inputs(p)) - 1)
    weight = infer_shapes(declared, p, [data, *rest])[0][1:]
    assert infer_shapes(declared, p, [part, *weight], [output]) == ((data, *weight), (output,))
    with pytest.raises(ShapeError, match=f"{op}.* output: expected shape"):
        infer_shapes(declared, p, [data, *weight], [wrong])


def test_random_operators_repeat_for_the_same_counter() -> None:
    from mx_core.operator import ReferenceContext

    op = operators.get("_random_normal")
    p = op.Param(shape=(1000,), loc=2.0, scale=3.0)
    ctx = ReferenceContext(scalars=p.scalars, random_key=3, random_offset=10)
    (a,), (b,) = op.reference(p, [], ctx), op.reference(p, [], ctx)
    np.testing.assert_array_equal(a, b)
    assert abs(a.mean() - 2) < 0.5 and abs(a.std() - 3) < 0.5
