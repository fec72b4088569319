# SPDX-License-Identifier: Apache-2.0
"""Geometry of boxes: corner form (x₀, y₀, x₁, y₁), centre form (x, y, width, height)."""

from __future__ import annotations

import numpy as np

from mx_core.operator import Array


def to_corner(boxes: Array) -> Array:
    """Corner form from centre form, of the last axis."""
    middle, half = boxes[..., :2], boxes[..., 2:] / 2
    return np.concatenate((middle - half, middle + half), -1)


def to_center(boxes: Array) -> Array:
    """Centre form from corner form, of the last axis."""
    low, high = boxes[..., :2], boxes[..., 2:]
    return np.concatenate(((low + high) / 2, high - low), -1)


def areas(corners: Array) -> Array:
    """Areas; 0 where a side is negative."""
    sides = corners[..., 2:] - corners[..., :2]
    return np.where((sides < 0).any(-1), 0, sides[..., 0] * sides[..., 1])


def iou(a: Array, b: Array) -> Array:
    """Intersection over union of every box of a (…, 4) with every one of b (…, 4), corner form.

    Returns
    -------
    array, shape a.shape[:-1] + b.shape[:-1]; 0 where nothing intersects
    """
    left = a.reshape(-1, 1, 4)
    right = b.reshape(1, -1, 4)
    sides = np.minimum(left[..., 2:], right[..., 2:]) - np.maximum(left[..., :2], right[..., :2])
    common = np.where((sides > 0).all(-1), sides[..., 0] * sides[..., 1], 0)
    union = areas(left) + areas(right) - common
    ratio = np.divide(common, union, out=np.zeros_like(common), where=(common > 0) & (union > 0))
    return ratio.reshape(*a.shape[:-1], *b.shape[:-1])


def suppress(boxes: Array, classes: Array | None, threshold: float, closed: bool = False) -> Array:
    """Greedy non-maximum suppression of boxes that are sorted, best first.

    A box survives unless a surviving better one of its class overlaps it by more than `threshold`
    (by as much, when `closed`).

    Parameters
    ----------
    boxes : (n, 4), corner form
    classes : (n,), or None when all boxes compete

    Returns
    -------
    bool array (n,)
    """
    n = boxes.shape[0]
    alive = np.ones(n, bool)
    for i in range(n - 1):
        if not alive[i]:
            continue
        rest = np.flatnonzero(alive[i + 1 :]) + i + 1
        if classes is not None:
            rest = rest[classes[rest] == classes[i]]
        overlap = iou(boxes[i], boxes[rest]).reshape(-1)
        alive[rest[overlap >= threshold if closed else overlap > threshold]] = False
    return alive


def clipped(boxes: Array) -> Array:
    """Boxes cut to the unit square."""
    return np.clip(boxes, 0, 1)
