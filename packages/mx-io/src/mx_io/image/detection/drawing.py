# SPDX-License-Identifier: Apache-2.0
"""Boxes drawn on images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from mx_io.arrays import to_numpy
from mx_io.image.create import MEAN, STD
from mx_io.image.detection.labels import Objects

#: Of the classes, in turns.
_COLOURS = (
    (230, 25, 75), (60, 180, 75), (0, 130, 200), (245, 130, 48), (145, 30, 180), (70, 240, 240), (240, 50, 230),
    (210, 245, 60),
)  # fmt: skip


def drawn(
    image: np.ndarray[Any, Any],
    objects: Objects,
    color: Sequence[int] | None,
    thickness: int,
    mean: Any,
    std: Any,
    clip: bool,
    names: Mapping[int, str],
) -> np.ndarray[Any, Any]:
    """A copy of an image (height, width, channels) with a frame around each object of a class of 0 or more.

    The mean and deviation that normalised it are undone before.
    """
    picture = image.astype(np.float32)
    if std is not None:
        picture *= STD if std is True else to_numpy(std)
    if mean is not None:
        picture += MEAN if mean is True else to_numpy(mean)
    if clip:
        picture = picture.clip(0, 255)
    height, width, channels = picture.shape
    for row in objects[(objects[:, 0] >= 0) & np.isfinite(objects[:, :5]).all(axis=1)]:
        kind = int(row[0])
        colour = _COLOURS[kind % len(_COLOURS)] if color is None else color
        value = np.resize(np.asarray(colour, np.float32), channels)
        mask = Image.new("L", (width, height))
        pen = ImageDraw.Draw(mask)
        left, upper, right, lower = (
            (row[1:5] * (width, height, width, height)).round().clip(-1e6, 1e6).tolist()
        )
        pen.rectangle(
            (left, upper, max(left, right - 1), max(upper, lower - 1)), outline=255, width=thickness
        )
        if kind in names:
            pen.text((left + thickness + 1, upper + thickness), names[kind], fill=255)
        picture[np.asarray(mask) > 127] = value
    return picture
