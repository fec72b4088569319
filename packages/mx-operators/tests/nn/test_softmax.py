# SPDX-License-Identifier: Apache-2.0
"""softmax and log_softmax with a result of another type."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from testkit import replay


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "softmin"])
def test_a_gradient_has_the_type_of_the_data(run: Any, name: str) -> None:
    x, head = np.float16([[1, 2, 3]]), np.float32([[1, 0, 0]])
    attrs = {"dtype": "float32"}
    outputs = run(name, [x], **attrs)
    assert outputs[0].dtype == np.float32
    grad = replay.backward(name, attrs, [x], outputs, [head])[0]
    assert grad.dtype == np.float16
    wide = x.astype(np.float32)
    expected = replay.backward(name, {}, [wide], run(name, [wide]), [head])[0]
    np.testing.assert_allclose(grad, expected, rtol=1e-2)
