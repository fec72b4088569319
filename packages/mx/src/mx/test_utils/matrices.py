# SPDX-License-Identifier: Apache-2.0
"""Random square matrices that decompositions can be tested on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


def new_orthonormal_matrix_2d(n: int) -> Any:
    """A random orthonormal matrix (n, n)."""
    q, r = np.linalg.qr(np.random.normal(size=(n, n)))
    return q * np.sign(np.diag(r))


def _eigenvalues(n: int) -> Any:
    """n real numbers of either sign, apart from each other and from 0."""
    sizes = 1 + np.arange(n) + np.random.uniform(0, 0.5, n)
    return np.random.permutation(sizes * np.random.choice((-1.0, 1.0), n))


def new_matrix_with_real_eigvals_2d(n: int) -> Any:
    """A well-conditioned matrix (n, n) with small, real, different eigenvalues."""
    vectors = new_orthonormal_matrix_2d(n) * np.random.uniform(0.5, 2, n)
    vectors += np.triu(vectors, 1) * 0.1
    return vectors @ np.diag(_eigenvalues(n)) @ np.linalg.inv(vectors)


def new_sym_matrix_with_real_eigvals_2d(n: int) -> Any:
    """A symmetric matrix (n, n) with small, different eigenvalues."""
    vectors = new_orthonormal_matrix_2d(n)
    made = vectors @ np.diag(_eigenvalues(n)) @ vectors.T
    return (made + made.T) / 2


def _stacked(shape: Sequence[int], one: Callable[[int], Any]) -> Any:
    *batch, rows, columns = shape
    if rows != columns:
        raise ValueError(f"shape: expected (…, n, n), got {tuple(shape)}")
    matrices = [one(rows) for _ in range(int(np.prod(batch)))]
    return np.reshape(matrices, tuple(shape))


def new_matrix_with_real_eigvals_nd(shape: Sequence[int]) -> Any:
    """Matrices (…, n, n) as `new_matrix_with_real_eigvals_2d` makes them."""
    return _stacked(shape, new_matrix_with_real_eigvals_2d)


def new_sym_matrix_with_real_eigvals_nd(shape: Sequence[int]) -> Any:
    """Matrices (…, n, n) as `new_sym_matrix_with_real_eigvals_2d` makes them."""
    return _stacked(shape, new_sym_matrix_with_real_eigvals_2d)
