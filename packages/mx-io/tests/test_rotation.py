# SPDX-License-Identifier: Apache-2.0
"""Rotations of images; `packages/mx-gluon` compares them with MXNet's."""

import numpy as np
import pytest

from mx_core.errors import ArgumentError, DTypeError, ShapeError
from mx_io import image
from mx_ndarray import nd

SQUARE = nd.array(np.random.default_rng(0).normal(size=(2, 5, 5)))


@pytest.mark.parametrize("quarters", [0, 1, 2, 3, -1])
def test_quarters_move_pixels(quarters):
    rotated = image.imrotate(SQUARE, 90 * quarters).asnumpy()
    np.testing.assert_allclose(rotated, np.rot90(SQUARE.asnumpy(), quarters, (1, 2)), atol=1e-5)


def test_each_image_has_its_angle():
    batch = nd.stack(SQUARE, SQUARE, SQUARE)
    angles = [0.0, 30.0, 90.0]
    for given in (angles, nd.array(angles), np.array(angles)):
        rotated = image.imrotate(batch, given)
        for i, angle in enumerate(angles):
            np.testing.assert_allclose(
                rotated[i].asnumpy(), image.imrotate(SQUARE, angle).asnumpy(), atol=1e-6
            )


def test_zoom_shows_no_border_or_all():
    ones = nd.ones((1, 9, 9))
    assert (image.imrotate(ones, 30, zoom_in=True).asnumpy() > 0.99).all()
    seen = image.imrotate(ones, 30, zoom_out=True).asnumpy()
    assert seen[0, 4, 4] > 0.99 and seen[0, 0, 0] < 0.01 and seen[0, 4, 0] > 0


def test_random_angles_lie_between_the_limits():
    np.random.seed(0)
    near, far = (image.random_rotate(SQUARE, limits).asnumpy() for limits in ((89.9, 90.1), (10, 80)))
    np.testing.assert_allclose(near, np.rot90(SQUARE.asnumpy(), 1, (1, 2)), atol=0.05)
    assert np.abs(far - near).max() > 0.1
    batch = image.random_rotate(nd.stack(SQUARE, SQUARE), (10, 80)).asnumpy()
    assert np.abs(batch[0] - batch[1]).max() > 1e-3


@pytest.mark.parametrize(
    ("src", "angle", "error", "message"),
    [
        (nd.zeros((1, 2, 2), dtype="uint8"), 1, DTypeError, "expected float32, got uint8"),
        (nd.zeros((2, 2)), 1, ShapeError, r"3 or 4 axes, got shape \(2, 2\)"),
        (nd.zeros((1, 2, 2)), [1, 2], DTypeError, "expected a number for one image"),
        (nd.zeros((2, 1, 2, 2)), [1, 2, 3], ArgumentError, r"got 2 and shape \(3,\)"),
    ],
)
def test_what_is_refused(src, angle, error, message):
    with pytest.raises(error, match=message):
        image.imrotate(src, angle)
