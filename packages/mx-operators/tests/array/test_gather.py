# SPDX-License-Identifier: Apache-2.0
"""Indices that select nothing repeat the data."""

import numpy as np
import pytest

from mx_core.testing import check_kernel, check_operator


@pytest.mark.parametrize("repeats", [(4,), (4, 2)])
def test_data_without_indexed_axes_is_repeated_and_its_gradient_summed(repeats):
    indices = np.zeros((0, *repeats), np.float32)
    check_operator("gather_nd", {}, [(2, 3), indices])
    check_kernel("_backward_gather_nd", {}, [(*repeats, 2, 3), (2, 3), indices], may_decline=True)
