# SPDX-License-Identifier: Apache-2.0
"""The check of augmenters: what `ImageIter` does with them, for an image of each element type."""

from __future__ import annotations

from typing import Any

import numpy as np

from mx_core.testing.training import ToArray


def check_augmenter(augmenter: Any, array: ToArray) -> None:
    """An augmenter makes an image of an image: an array of finite numbers with the axes height, width, channels.

    It has as many channels. The image that it gets stays as it is.
    """
    assert callable(augmenter), f"make gives a {type(augmenter).__name__}; expected a function of an image"
    y, x = np.mgrid[0:64, 0:96]
    image = np.stack([2 * x, 3 * y, x + y], axis=-1).astype(np.uint8)
    expected = "expected an NDArray with the axes height, width, channels"
    for dtype in ("uint8", "float32"):
        before = image.astype(dtype)
        given = array(before)
        made = augmenter(given)
        what = f"of an image of {dtype} it makes"
        assert hasattr(made, "asnumpy"), f"{what} a {type(made).__name__}; {expected}"
        found = made.asnumpy()
        assert found.ndim == 3 and found.shape[2] == 3 and found.size, (
            f"{what} one of shape {found.shape}; {expected}"
        )
        assert np.isfinite(found.astype(np.float32)).all(), f"{what} one with nan or inf"
        assert np.array_equal(given.asnumpy(), before), f"it changes the image of {dtype} that it gets"
