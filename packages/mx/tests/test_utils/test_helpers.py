# SPDX-License-Identifier: Apache-2.0
"""Matrices for tests of decompositions, an iterator for measurements, images by installed codecs."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

import mx


@pytest.mark.parametrize("n", [1, 3, 6])
def test_matrices_have_what_their_names_say(n: int) -> None:
    orthonormal = mx.test_utils.new_orthonormal_matrix_2d(n)
    np.testing.assert_allclose(orthonormal @ orthonormal.T, np.eye(n), atol=1e-12)
    for matrices in (
        mx.test_utils.new_matrix_with_real_eigvals_nd((2, n, n)),
        mx.test_utils.new_sym_matrix_with_real_eigvals_nd((2, n, n)),
    ):
        assert matrices.shape == (2, n, n) and np.linalg.cond(matrices).max() < 1e3
        values = np.linalg.eigvals(matrices)
        np.testing.assert_allclose(values.imag, 0, atol=1e-9)
        assert n == 1 or np.diff(np.sort(abs(values.real))).min() > 0.4
    np.testing.assert_array_equal(matrices, matrices.swapaxes(1, 2))
    with pytest.raises(ValueError, match="shape: expected"):
        mx.test_utils.new_matrix_with_real_eigvals_nd((2, n, n + 1))


def test_the_first_batch_without_end() -> None:
    real = mx.io.NDArrayIter(np.arange(12.0).reshape(6, 2), np.arange(6), batch_size=2)
    dummy = mx.test_utils.DummyIter(real)
    assert dummy.provide_data == real.provide_data and dummy.provide_label == real.provide_label
    assert dummy.batch_size == 2 and dummy.real_iter is real
    batches = list(islice(dummy, 5))
    assert len(batches) == 5 and all(batch is dummy.the_batch for batch in batches)
    np.testing.assert_array_equal(dummy.next().data[0].asnumpy(), [[0, 1], [2, 3]])


def test_images_are_decoded_by_installed_codecs() -> None:
    from mx_io.codecs import encode

    pixels = np.random.default_rng(0).integers(0, 255, (4, 6, 3), np.uint8)
    image = mx.nd.imdecode(encode(pixels, ".png"))
    np.testing.assert_array_equal(image.asnumpy(), pixels.transpose(2, 0, 1))
