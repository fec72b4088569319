# SPDX-License-Identifier: Apache-2.0
"""Labels of detection: from rows of numbers in files to objects, and how crops change them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mx_core.errors import FileFormatError
from mx_io.arrays import to_numpy

#: (objects, 5 or more): class, left, upper, right, lower, …
Objects = npt.NDArray[np.float32]
#: The class and the four borders.
LEAST_WIDTH = 5


def parse(label: Any) -> Objects:
    """The objects with an area of a label as files have it.

    Raises
    ------
    FileFormatError  the row is too short, is not divided evenly into objects, or has no object with an area
    """
    row = np.ravel(np.asarray(to_numpy(label), np.float32))
    if row.size < 2 + LEAST_WIDTH:
        raise FileFormatError(
            f"[ImageDetIter] label: expected 7 or more numbers (2 of the head, 5 of an object), got {row.size}"
        )
    head, width = float(row[0]), float(row[1])
    if not (
        2 <= head < row.size
        and LEAST_WIDTH <= width <= row.size - 2
        and (row.size - int(head)) % int(width) == 0
    ):
        raise FileFormatError(
            f"[ImageDetIter] label: expected a head of 2 or more and objects of 5 or more numbers in {row.size}, "
            f"got a head of {head:g} and objects of {width:g}"
        )
    objects = row[int(head) :].reshape(-1, int(width))
    found: Objects = objects[with_area(objects)]
    if not len(found):
        raise FileFormatError(
            f"[ImageDetIter] label: expected an object of positive width and height, got {len(objects)} without"
        )
    return found.copy()


def with_area(objects: Objects) -> npt.NDArray[np.bool_]:
    """Which objects have positive width and height, and numbers for their class and borders."""
    finite = np.isfinite(objects[:, :LEAST_WIDTH]).all(axis=1)
    found: npt.NDArray[np.bool_] = finite & (objects[:, 3] > objects[:, 1]) & (objects[:, 4] > objects[:, 2])
    return found


def areas(objects: Objects) -> npt.NDArray[np.float32]:
    """Width by height of each box, 0 without."""
    widths, heights = objects[:, 3] - objects[:, 1], objects[:, 4] - objects[:, 2]
    found: npt.NDArray[np.float32] = widths.clip(0) * heights.clip(0)
    return found


def inside(objects: Objects, left: float, upper: float, right: float, lower: float) -> Objects:
    """A copy whose boxes are what of them lies in a region; a box outside has no area."""
    cut = objects.copy()
    cut[:, (1, 3)] = np.clip(cut[:, (1, 3)], left, right)
    cut[:, (2, 4)] = np.clip(cut[:, (2, 4)], upper, lower)
    return cut


def moved(objects: Objects, left: float, upper: float, width: float, height: float) -> Objects:
    """A copy whose boxes are shares of a region instead of the image."""
    changed = objects.copy()
    changed[:, (1, 3)] = (changed[:, (1, 3)] - left) / width
    changed[:, (2, 4)] = (changed[:, (2, 4)] - upper) / height
    return changed
