# SPDX-License-Identifier: Apache-2.0
"""Linear algebra that has no recorded cases: what it promises, and its gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mx_core import operators
from mx_core.errors import ArgumentError, ShapeError
from mx_core.operator import infer_shapes
from mx_core.operator.declaration import ReferenceContext
from testkit import replay


def matrices(*shape: int, seed: int = 2) -> Any:
    """Random matrices with singular values away from 0."""
    x = np.random.default_rng(seed).normal(size=shape)
    return x + 3 * np.eye(*shape[-2:])


def symmetric(x: Any) -> Any:
    return x + x.swapaxes(-1, -2)


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("rightside", [False, True])
@pytest.mark.parametrize("lower", [False, True])
def test_triangular(run: Any, check_gradient: Any, transpose: bool, rightside: bool, lower: bool) -> None:
    attrs = {"transpose": transpose, "rightside": rightside, "lower": lower, "alpha": 1.5}
    a, b = matrices(2, 3, 3), matrices(2, 4, 3, seed=3) if rightside else matrices(2, 3, 4, seed=3)
    part = np.tril(a) if lower else np.triu(a)
    part = part.swapaxes(-1, -2) if transpose else part
    product = run("_linalg_trmm", [a, b], **attrs)[0]
    np.testing.assert_allclose(product, 1.5 * (b @ part if rightside else part @ b))
    x = run("_linalg_trsm", [a, b], **attrs)[0]
    np.testing.assert_allclose(x @ part if rightside else part @ x, 1.5 * b)
    check_gradient("_linalg_trmm", [a, b], **attrs)
    check_gradient("_linalg_trsm", [a, b], **attrs)


@pytest.mark.parametrize("lower", [True, False])
def test_cholesky_factors(run: Any, check_gradient: Any, lower: bool) -> None:
    a = matrices(2, 3, 3)
    factor = np.tril(a) if lower else np.triu(a)
    turned = factor.swapaxes(-1, -2)
    full = factor @ turned if lower else turned @ factor
    found = run("_linalg_potrf", [full], lower=lower)[0]
    signs = np.sign(np.diagonal(factor, 0, -2, -1))
    np.testing.assert_allclose(
        found, factor * (signs[:, None, :] if lower else signs[:, :, None]), atol=1e-12
    )
    inverse = run("_linalg_potri", [a], lower=lower)[0]
    np.testing.assert_allclose(inverse @ full, np.broadcast_to(np.eye(3), a.shape), atol=1e-12)
    check_gradient("_linalg_potri", [a], lower=lower)


def test_a_cholesky_factor_reads_its_own_triangle(run: Any) -> None:
    a = np.array([[4.0, 1.0], [2.0, 5.0]])
    np.testing.assert_allclose(run("_linalg_potrf", [a])[0], [[2, 0], [1, 2]])
    np.testing.assert_allclose(run("_linalg_potrf", [a], lower=False)[0], [[2, 0.5], [0, np.sqrt(4.75)]])


def test_gradient_of_the_upper_cholesky_factor(run: Any) -> None:
    a = matrices(3, 3)
    a = a @ a.T
    heads = [np.triu(np.arange(9.0).reshape(3, 3))]
    upper, lower = run("_linalg_potrf", [a], lower=False)[:1], run("_linalg_potrf", [a])[:1]
    got = replay.backward("_linalg_potrf", {"lower": False}, [a], upper, heads)[0]
    np.testing.assert_allclose(got, replay.backward("_linalg_potrf", {}, [a], lower, [heads[0].T])[0])


@pytest.mark.parametrize("axis", [0, -3, 1])
def test_products_along_another_axis(run: Any, check_gradient: Any, axis: int) -> None:
    rng = np.random.default_rng(5)
    a, b, c = rng.normal(size=(3, 2, 4)), rng.normal(size=(4, 2, 5)), rng.normal(size=(3, 2, 5))
    if axis == 1:
        a, b, c = (x.swapaxes(0, 1) for x in (a, b, c))
    product = np.einsum("mbk,kbn->mbn" if axis != 1 else "bmk,bkn->bmn", a, b)
    np.testing.assert_allclose(run("_linalg_gemm2", [a, b], axis=axis, alpha=0.5)[0], 0.5 * product)
    np.testing.assert_allclose(run("_linalg_gemm", [a, b, c], axis=axis, beta=2.0)[0], product + 2 * c)
    check_gradient("_linalg_gemm2", [a, b], axis=axis)
    check_gradient("_linalg_gemm", [a, b, c], axis=axis, alpha=0.5, beta=2.0)


@pytest.mark.parametrize("offset", [-2, -1, 0, 1, 2])
def test_diagonals(run: Any, check_gradient: Any, offset: int) -> None:
    a = matrices(2, 4, 4)
    vector = run("_linalg_extractdiag", [a], offset=offset)[0]
    np.testing.assert_array_equal(vector[1], np.diag(a[1], offset))
    back = run("_linalg_makediag", [vector], offset=offset)[0]
    np.testing.assert_array_equal(back[1], np.diag(np.diag(a[1], offset), offset))
    check_gradient("_linalg_extractdiag", [a], offset=offset)
    check_gradient("_linalg_makediag", [vector], offset=offset)


def test_an_upper_triangle_runs_column_by_column(run: Any) -> None:
    a = np.arange(16.0).reshape(4, 4)
    assert run("_linalg_extracttrian", [a], lower=False)[0].tolist() == [0, 1, 5, 2, 6, 10, 3, 7, 11, 15]
    assert run("_linalg_extracttrian", [a], offset=1)[0].tolist() == [1, 2, 6, 3, 7, 11]
    made = run("_linalg_maketrian", [np.arange(1.0, 7.0)], lower=False)[0]
    assert made.tolist() == [[1, 2, 4], [0, 3, 5], [0, 0, 6]]


def test_triangles_of_two_rows(run: Any) -> None:
    a = np.array([[1.0, 2.0], [3.0, 4.0]])
    for attrs, expected in (
        ({}, [1, 3, 4]), ({"lower": False}, [1, 2, 4]), ({"offset": 1}, [2]), ({"offset": -1}, [3]),
    ):  # fmt: skip
        assert run("_linalg_extracttrian", [a], **attrs)[0].tolist() == expected
    vector = np.array([1.0, 2.0, 3.0])
    assert run("_linalg_maketrian", [vector])[0].tolist() == [[1, 0], [2, 3]]
    assert run("_linalg_maketrian", [vector], lower=False)[0].tolist() == [[1, 2], [0, 3]]
    assert run("_linalg_maketrian", [vector], offset=1)[0].tolist() == [[0, 1, 2], [0, 0, 3], [0, 0, 0]]
    assert run("_linalg_maketrian", [vector], offset=-1)[0].tolist() == [[0, 0, 0], [1, 0, 0], [2, 3, 0]]


@pytest.mark.parametrize("attrs", [{}, {"lower": False}, {"offset": 1}, {"offset": -2}])
def test_triangle_gradients(run: Any, check_gradient: Any, attrs: dict[str, Any]) -> None:
    a = matrices(2, 4, 4)
    check_gradient("_linalg_extracttrian", [a], **attrs)
    check_gradient("_linalg_maketrian", [run("_linalg_extracttrian", [a], **attrs)[0]], **attrs)


def test_inverse_and_determinants(run: Any, check_gradient: Any) -> None:
    a = matrices(2, 3, 3) * np.array([1.0, -1.0]).reshape(2, 1, 1)
    np.testing.assert_allclose(run("_linalg_inverse", [a])[0], np.linalg.inv(a))
    det, (sign, log) = run("_linalg_det", [a])[0], run("_linalg_slogdet", [a])
    np.testing.assert_allclose(det, sign * np.exp(log))
    assert sign.tolist() == np.sign(det).tolist() and run("_linalg_det", [a[0]])[0].shape == (1,)
    for name in ("_linalg_inverse", "_linalg_det"):
        check_gradient(name, [a])
        check_gradient(name, [a[0]])


def test_gradients_of_determinants(check_gradient: Any) -> None:
    singular = np.array([[1.0, 2.0], [2.0, 4.0]])
    check_gradient("_linalg_det", [singular])
    a = matrices(2, 3, 3)
    heads = [np.zeros(2), np.array([1.0, 2.0])]
    grad = replay.backward(
        "_linalg_slogdet", {}, [a], replay.forward("_linalg_slogdet", {}, [a], True), heads
    )[0]
    np.testing.assert_allclose(grad, np.linalg.inv(a).swapaxes(-1, -2) * heads[1].reshape(2, 1, 1))
    stack = np.stack((singular, np.eye(2)))
    grad = replay.backward("_linalg_slogdet", {}, [stack], [], [np.zeros(2), np.ones(2)])[0]
    assert not grad[0].any() and (grad[1] == np.eye(2)).all()


def test_lq(run: Any, check_gradient: Any) -> None:
    a = matrices(2, 3, 5)
    q, low = run("_linalg_gelqf", [a])
    np.testing.assert_allclose(low @ q, a)
    np.testing.assert_allclose(q @ q.swapaxes(-1, -2), np.broadcast_to(np.eye(3), (2, 3, 3)), atol=1e-12)
    np.testing.assert_array_equal(low, np.tril(low))
    check_gradient("_linalg_gelqf", [a])


def test_eigenvalues(run: Any, check_gradient: Any) -> None:
    a = symmetric(matrices(2, 4, 4))
    u, values = run("_linalg_syevd", [a])
    np.testing.assert_allclose(u.swapaxes(-1, -2) @ (values[..., None] * u), a, atol=1e-12)
    assert (np.diff(values) > 0).all() and (u.max(-1) == abs(u).max(-1)).all()
    check_gradient("_linalg_syevd", [a], project=symmetric)
    equal = np.eye(3)
    heads = [np.ones((3, 3)), np.ones(3)]
    grad = replay.backward("_linalg_syevd", {}, [equal], run("_linalg_syevd", [equal]), heads)[0]
    np.testing.assert_allclose(grad, np.eye(3))


@pytest.mark.parametrize("name", ["_linalg_trsm", "_linalg_inverse", "_linalg_potri"])
def test_singular_matrices_are_an_error(run: Any, name: str) -> None:
    zero = np.zeros((2, 2))
    with pytest.raises(ArgumentError, match=rf"\[{name}\] A of shape \(2, 2\): Singular"):
        run(name, [zero, zero] if name == "_linalg_trsm" else [zero])


@pytest.mark.parametrize(
    ("name", "attrs", "shapes", "message"),
    [
        ("_linalg_trmm", {}, [(3, 3), (4, 3)], "A"),
        ("_linalg_trmm", {}, [(2, 3, 3), (3, 3)], "same 2 or more dimensions"),
        ("_linalg_extractdiag", {"offset": 3}, [(3, 3)], "offset"),
        ("_linalg_maketrian", {}, [(4,)], "no triangle"),
        ("_linalg_maketrian", {"offset": -1}, [(2, 0)], "at least 1 element"),
        ("_linalg_makediag", {"offset": 1}, [(2, 0)], "at least 1 element"),
        ("_linalg_det", {}, [(2, 3)], "square"),
        ("_linalg_gelqf", {}, [(3, 2)], "at least as many columns"),
    ],
)
def test_errors(name: str, attrs: dict[str, Any], shapes: list[Any], message: str) -> None:
    op = operators.get(name)
    with pytest.raises(ShapeError, match=message):
        infer_shapes(op, op.Param.parse(attrs, op=name), shapes)


def test_a_product_over_no_elements_is_zero():
    dot = operators.get("dot")
    for shapes, options in ((((2, 0), (0, 3)), {}), (((0, 2), (0, 3)), {"transpose_a": True})):
        arrays = [np.ones(shape, np.float32) for shape in shapes]
        (found,) = dot.reference(dot.Param(**options), arrays, ReferenceContext())
        np.testing.assert_array_equal(found, np.zeros((2, 3)))
