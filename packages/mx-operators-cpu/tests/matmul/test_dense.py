# SPDX-License-Identifier: Apache-2.0
"""Matrix products against their references."""

import layer_plans
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st


def _normal(rng: np.random.Generator, *shapes: tuple[int, ...]) -> list[np.ndarray]:
    return [rng.standard_normal(s).astype(np.float32) for s in shapes]


@pytest.mark.parametrize("no_bias", [False, True])
@pytest.mark.parametrize(
    ("data", "flatten"),
    [((4, 5), True), ((2, 3, 4), True), ((2, 3, 4), False), ((1, 7), True), ((33, 65), False)],
)
def test_fully_connected(
    rng: np.random.Generator, data: tuple[int, ...], flatten: bool, no_bias: bool
) -> None:
    depth = int(np.prod(data[1:])) if flatten else data[-1]
    inputs = _normal(rng, data, (6, depth), (6,))[: 2 if no_bias else 3]
    layer_plans.verify("FullyConnected", {"num_hidden": 6, "flatten": flatten, "no_bias": no_bias}, inputs)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 40))
def test_fully_connected_of_any_size(rows: int, depth: int, hidden: int) -> None:
    inputs = _normal(np.random.default_rng(2), (rows, depth), (hidden, depth), (hidden,))
    layer_plans.verify("FullyConnected", {"num_hidden": hidden}, inputs)


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize(
    ("m", "k", "n"),
    [((3,), 4, (5,)), ((2, 3), 4, (5,)), ((2,), 3, (2, 2)), ((1,), 1, (1,)), ((16,), 1, (8,))],
)
def test_dot(
    rng: np.random.Generator,
    m: tuple[int, ...],
    k: int,
    n: tuple[int, ...],
    transpose_a: bool,
    transpose_b: bool,
) -> None:
    lhs, rhs = (k, *m) if transpose_a else (*m, k), (*n, k) if transpose_b else (k, *n)
    attrs = {"transpose_a": transpose_a, "transpose_b": transpose_b}
    layer_plans.verify("dot", attrs, _normal(rng, lhs, rhs))


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("batch", [1, 3])
def test_batch_dot(rng: np.random.Generator, batch: int, transpose_a: bool, transpose_b: bool) -> None:
    lhs, rhs = (6, 4) if transpose_a else (4, 6), (5, 6) if transpose_b else (6, 5)
    attrs = {"transpose_a": transpose_a, "transpose_b": transpose_b}
    layer_plans.verify("batch_dot", attrs, _normal(rng, (batch, *lhs), (batch, *rhs)))


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize(
    "sizes", [(1, 33, 40, 50), (3, 33, 40, 50), (3, 1, 200, 300), (2, 300, 200, 1), (2, 90, 1, 200)]
)
def test_batches_of_any_size(
    rng: np.random.Generator, sizes: tuple[int, int, int, int], transpose_a: bool, transpose_b: bool
) -> None:
    batch, m, k, n = sizes
    lhs, rhs = (k, m) if transpose_a else (m, k), (n, k) if transpose_b else (k, n)
    attrs = {"transpose_a": transpose_a, "transpose_b": transpose_b}
    layer_plans.verify("batch_dot", attrs, _normal(rng, (batch, *lhs), (batch, *rhs)), atol=1e-4)


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("alpha", [1.0, -2.5])
def test_gemm(rng: np.random.Generator, alpha: float, transpose_a: bool) -> None:
    lhs = (2, 6, 4) if transpose_a else (2, 4, 6)
    attrs = {"transpose_a": transpose_a, "alpha": alpha}
    layer_plans.verify("_linalg_gemm2", attrs, _normal(rng, lhs, (2, 6, 5)), gradient=False)
    layer_plans.verify(
        "_linalg_gemm", attrs | {"beta": 0.5}, _normal(rng, lhs, (2, 6, 5), (2, 4, 5)), gradient=False
    )


def test_vectors(rng: np.random.Generator) -> None:
    layer_plans.verify("dot", {}, _normal(rng, (7,), (7,)))
    layer_plans.verify("dot", {"transpose_a": True, "transpose_b": True}, _normal(rng, (7,), (7,)))
