# SPDX-License-Identifier: Apache-2.0
"""The softmax family against its references."""

import itertools

import layer_plans
import numpy as np
import plans
import pytest

from mx_core import dtypes, kernels, operators
from mx_core.context import cpu
from mx_core.errors import IndexOutOfBoundsError


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "softmin"])
@pytest.mark.parametrize("attrs", [{}, {"temperature": 2.5}])
@pytest.mark.parametrize(
    ("shape", "axis"), [((3, 4), -1), ((2, 5, 3), 1), ((7,), 0), ((2, 3, 4, 17), 3), ((4, 1), 1), ((), 0)]
)
def test_softmax(rng: np.random.Generator, name: str, shape: tuple[int, ...], axis: int, attrs: dict) -> None:
    data = (4 * rng.standard_normal(shape)).astype(np.float32)
    layer_plans.verify(name, {"axis": axis, **attrs}, [data])


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "softmin"])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((70, 5), 1), ((5, 64, 3), 1), ((5, 65, 3), 1), ((130, 2, 15), 1),
        ((2, 9, 16), 1), ((3, 7, 131), 1), ((3000, 17), 0),
    ],
)  # fmt: skip
@pytest.mark.parametrize("temperature", [None, -0.5])
def test_columns(
    rng: np.random.Generator, name: str, shape: tuple[int, ...], axis: int, temperature: float | None
) -> None:
    data = (4 * rng.standard_normal(shape)).astype(np.float32)
    data[0] += 1e4
    attrs = {"axis": axis} if temperature is None else {"axis": axis, "temperature": temperature}
    layer_plans.verify(name, attrs, [data], atol=1e-4)


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "softmin"])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("temperature", [None, 0.5, -1.5])
def test_softmax_in_place(
    rng: np.random.Generator, name: str, kind: type, axis: int, temperature: float | None
) -> None:
    op = operators.get(name)
    p = op.Param.parse({"axis": axis} if temperature is None else {"axis": axis, "temperature": temperature})
    data = rng.standard_normal((5, 70, 3)).astype(kind)
    (expected,) = op.reference(p, [data.copy()], None)
    layer_plans.run(layer_plans.prepare(op, p, [data], [data]), [data], [data], [plans.INPLACE])
    np.testing.assert_allclose(data, expected, rtol=1e-5, atol=1e-5 if kind is np.float32 else 1e-12)


def test_large_values_do_not_overflow() -> None:
    layer_plans.verify("softmax", {}, [np.array([[1e4, -1e4, 9999.0]], np.float32)])


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "softmin"])
@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("length", [1, 2, 7, 8, 15, 16, 17, 40])
@pytest.mark.parametrize("axis", [0, 1])
def test_rows_with_nan_or_infinity(
    rng: np.random.Generator, name: str, kind: str, length: int, axis: int
) -> None:
    """All of such a row is NaN, as in MXNet's float16 and float64, and no other row is."""
    op = operators.get(name)
    p = op.Param.parse({"axis": axis})
    type_ = dtypes.numpy_dtype(dtypes.code(kind))
    too_much = -np.inf if name == "softmin" else np.inf
    for bad, where in itertools.product((np.nan, too_much), sorted({0, length // 2, length - 1})):
        rows = rng.uniform(-1, 1, (3, length)).astype(type_)
        rows[1, where] = bad
        data = np.ascontiguousarray(rows if axis == 1 else rows.T)
        out = np.zeros_like(data)
        chosen = kernels.prepare(op, p, plans.specs([data]), plans.specs([out]), cpu(0))
        layer_plans.run(chosen.plan, [data], [out])
        found = np.isnan((out if axis == 1 else out.T).astype(np.float32))
        assert found.all(axis=1).tolist() == [False, True, False], (bad, where, out)
        assert not found[[0, 2]].any()


@pytest.mark.parametrize("mode", ["instance", "channel"])
def test_softmax_activation(rng: np.random.Generator, mode: str) -> None:
    layer_plans.verify(
        "SoftmaxActivation", {"mode": mode}, [rng.standard_normal((2, 3, 4)).astype(np.float32)]
    )


@pytest.mark.parametrize("normalization", ["null", "batch", "valid"])
@pytest.mark.parametrize(
    "extra", [{}, {"use_ignore": True, "ignore_label": 1, "grad_scale": 2}, {"smooth_alpha": 0.1}]
)
@pytest.mark.parametrize(
    ("shape", "label", "attrs"),
    [
        ((4, 5), (4,), {}),
        ((2, 3, 4), (2,), {}),
        ((2, 5, 3, 2), (2, 3, 2), {"multi_output": True}),
        ((2, 3, 5), (2, 3), {"preserve_shape": True}),
    ],
)
def test_softmax_output(
    rng: np.random.Generator,
    shape: tuple[int, ...],
    label: tuple[int, ...],
    attrs: dict,
    extra: dict,
    normalization: str,
) -> None:
    inputs = [rng.standard_normal(shape), rng.integers(0, 5, label)]
    layer_plans.verify(
        "SoftmaxOutput",
        {**attrs, **extra, "normalization": normalization},
        [i.astype(np.float32) for i in inputs],
    )


def test_labels_may_be_a_distribution(rng: np.random.Generator) -> None:
    data, label = rng.standard_normal((4, 5)), rng.dirichlet(np.ones(5), 4)
    layer_plans.verify(
        "SoftmaxOutput", {"grad_scale": 3}, [data.astype(np.float32), label.astype(np.float32)]
    )


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "softmin"])
@pytest.mark.parametrize("length", [3, 4, 7, 15, 16, 33, 64, 127, 2049, 5000])
@pytest.mark.parametrize("temperature", [None, 0.5])
def test_rows(rng: np.random.Generator, name: str, length: int, temperature: float | None) -> None:
    data = (4 * rng.standard_normal((3, length))).astype(np.float32)
    data[0] += 1e4
    layer_plans.verify(name, {} if temperature is None else {"temperature": temperature}, [data], atol=1e-4)


@pytest.mark.parametrize("length", [16, 23, 70])
def test_powers_below_the_normal_numbers_are_not_lost(length: int) -> None:
    data = np.zeros((1, length), np.float32)
    data[0, 1:] = np.linspace(-103, -84, length - 1)
    op = operators.get("softmax")
    out = np.empty_like(data)
    layer_plans.run(layer_plans.prepare(op, op.Param.parse({}, op="softmax"), [data], [out]), [data], [out])
    np.testing.assert_allclose(out[0], np.exp(data[0].astype(np.float64)), rtol=4e-7, atol=1.5e-45)


@pytest.mark.parametrize("length", [5, 40, 200])
def test_a_gradient_takes_any_logarithm(length: int) -> None:
    """Also of outputs that no log_softmax has."""
    output = np.linspace(-110, 88, length, dtype=np.float32)[None]
    head = np.zeros_like(output)
    head[0, -1] = -1
    op = operators.get("_backward_log_softmax")
    grad = np.empty_like(head)
    p = op.Param.parse({}, op=op.name)
    layer_plans.run(layer_plans.prepare(op, p, [head, output], [grad]), [head, output], [grad])
    expected = head.astype(np.float64) + np.exp(output.astype(np.float64))
    np.testing.assert_allclose(grad, expected, rtol=1e-6, atol=1e-44)


def test_masked_elements_are_exactly_zero() -> None:
    data = np.zeros((2, 40), np.float32)
    data[0, 7:] = -np.inf
    data[1, ::2] = -1e30
    op = operators.get("softmax")
    out = np.empty_like(data)
    layer_plans.run(layer_plans.prepare(op, op.Param.parse({}, op="softmax"), [data], [out]), [data], [out])
    assert (out[0, 7:] == 0).all() and (out[1, ::2] == 0).all()
    np.testing.assert_allclose(out.sum(-1), 1, rtol=1e-6)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("place", [3, 38])
def test_what_is_no_number_makes_its_row_so(bad: float, place: int) -> None:
    data = np.zeros((2, 40), np.float32)
    data[0, place] = bad
    op = operators.get("softmax")
    out = np.empty_like(data)
    layer_plans.run(layer_plans.prepare(op, op.Param.parse({}, op="softmax"), [data], [out]), [data], [out])
    assert np.isnan(out[0, place]) and np.isfinite(out[1]).all()


@pytest.mark.parametrize("classes", [1, 5, 4099])
def test_cross_entropy(rng: np.random.Generator, classes: int) -> None:
    data, label = 4 * rng.standard_normal((6, classes)), rng.integers(0, classes, 6)
    data[0] -= 1e4
    layer_plans.verify(
        "softmax_cross_entropy", {}, [data.astype(np.float32), label.astype(np.float32)], atol=1e-4
    )


def test_a_loss_of_classes_that_are_not_there() -> None:
    op = operators.get("softmax_cross_entropy")
    inputs = [np.ones((3, 5), np.float32), np.array([0, 5, 1], np.float32)]
    out = np.zeros(1, np.float32)
    plan = layer_plans.prepare(op, op.Param(), inputs, [out])
    with pytest.raises(IndexOutOfBoundsError, match=r"\[softmax_cross_entropy\] index 5 is .* extent 5"):
        layer_plans.run(plan, inputs, [out])
