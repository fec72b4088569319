# SPDX-License-Identifier: Apache-2.0
"""The augmentation of one image with boxes, for `ImageDetRecordIter`.

Source of the crops: Liu et al., "SSD: Single Shot MultiBox Detector", 2016, section 2.2.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from mx_io import _core, pixels
from mx_io.image.detection import labels
from mx_io.image.detection.labels import Objects
from mx_io.iterators.det_params import CropKind

Pixels = npt.NDArray[np.uint8]


class DetSteps:
    """Colours, mirroring, padding, cropping and resizing of an image and its boxes.

    Parameters
    ----------
    p : ImageDetRecordParams
    kinds : list of CropKind

    Threads: any; all randomness comes from the generator that a call is given.
    """

    def __init__(self, p: Any, kinds: list[CropKind]) -> None:
        self._p, self._kinds = p, kinds

    def apply(self, image: Pixels, objects: Objects, draw: np.random.Generator) -> tuple[Pixels, Objects]:
        """An image that fits into the data's shape, and its objects."""
        p = self._p
        if p.resize > 0:
            image = pixels.resize_short(image, p.resize, self._interp(draw))
        image = self._coloured(image, draw)
        if draw.random() < p.rand_mirror_prob:
            mirrored = objects.copy()
            mirrored[:, 1], mirrored[:, 3] = 1 - objects[:, 3], 1 - objects[:, 1]
            image, objects = image[:, ::-1], mirrored
        if draw.random() < p.rand_pad_prob:
            image, objects = self._padded(image, objects, draw)
        if draw.random() < p.rand_crop_prob:
            image, objects = self._cropped(image, objects, draw)
        return self._resized(np.ascontiguousarray(image), draw), objects

    def _interp(self, draw: np.random.Generator) -> int:
        method: int = self._p.inter_method
        return int(draw.integers(5)) if method == 10 else method

    def _coloured(self, image: Pixels, draw: np.random.Generator) -> Pixels:
        p = self._p
        shifts = [
            draw.uniform(-most, most) if draw.random() < probability else 0.0
            for most, probability in (
                (p.max_random_hue, p.random_hue_prob),
                (p.max_random_illumination, p.random_illumination_prob),
                (p.max_random_saturation, p.random_saturation_prob),
            )
        ]
        if any(shifts):
            image = _core.shift_hls(np.ascontiguousarray(image), *shifts)
        if draw.random() < p.random_contrast_prob and p.max_random_contrast > 0:
            factor = 1 + draw.uniform(-p.max_random_contrast, p.max_random_contrast)
            image = np.rint((image * np.float32(factor)).clip(0, 255)).astype(np.uint8)
        return image

    def _padded(self, image: Pixels, objects: Objects, draw: np.random.Generator) -> tuple[Pixels, Objects]:
        height, width, channels = image.shape
        scale = draw.uniform(1, self._p.max_pad_scale)
        h, w = min(int(height * scale), 32768), min(int(width * scale), 32768)
        if (h, w) == (height, width):
            return image, objects
        y, x = int(draw.integers(h - height + 1)), int(draw.integers(w - width + 1))
        larger = np.full((h, w, channels), self._p.fill_value, np.uint8)
        larger[y : y + height, x : x + width] = image
        return larger, labels.moved(objects, -x / width, -y / height, w / width, h / height)

    def _cropped(self, image: Pixels, objects: Objects, draw: np.random.Generator) -> tuple[Pixels, Objects]:
        """The first crop that will do, of the kinds in random order; nothing changes without one."""
        height, width = image.shape[:2]
        for number in draw.permutation(len(self._kinds)):
            kind = self._kinds[int(number)]
            for _ in range(kind.trials):
                side = draw.uniform(*kind.ranges["scales"]) * math.sqrt(height * width)
                ratio = math.sqrt(draw.uniform(*kind.ranges["aspect_ratios"]))
                h, w = int(side / ratio), int(side * ratio)
                if not (0 < h <= height and 0 < w <= width):
                    continue
                y, x = int(draw.integers(height - h + 1)), int(draw.integers(width - w + 1))
                kept = self._kept(kind, objects, x / width, y / height, w / width, h / height)
                if kept is not None:
                    return image[y : y + h, x : x + w], kept
        return image, objects

    def _kept(
        self, kind: CropKind, objects: Objects, x: float, y: float, w: float, h: float
    ) -> Objects | None:
        """The objects that stay in a crop; None when it will not do."""
        cut = labels.inside(objects, x, y, x + w, y + h)
        shown, whole = labels.areas(cut), labels.areas(objects)
        area = np.float32(w * h)
        shares = {
            "overlaps": shown / np.maximum(whole + area - shown, 1e-12),
            "sample_coverages": shown / area,
            "object_coverages": shown / np.maximum(whole, 1e-12),
        }
        does = np.ones(len(objects), bool)
        for name, values in shares.items():
            low, high = kind.ranges[name]
            does &= (values >= low) & (values <= high + 1e-6)
        if len(objects) and not does.any():
            return None
        if self._p.crop_emit_mode == "center":
            middle_x, middle_y = (objects[:, 1] + objects[:, 3]) / 2, (objects[:, 2] + objects[:, 4]) / 2
            stays = (middle_x >= x) & (middle_x <= x + w) & (middle_y >= y) & (middle_y <= y + h)
        else:
            stays = shares["object_coverages"] > self._p.emit_overlap_thresh
        kept = labels.moved(cut[stays], x, y, w, h)
        kept[:, 1:5] = kept[:, 1:5].clip(0, 1)
        return kept if len(kept) else None

    def _resized(self, image: Pixels, draw: np.random.Generator) -> Pixels:
        height, width = self._p.data_shape[1:]
        interp = self._interp(draw)
        if self._p.resize_mode != "force":
            scale = min(height / image.shape[0], width / image.shape[1])
            if self._p.resize_mode == "shrink":
                scale = min(scale, 1.0)
            # One side is the data's to the pixel, or the image's; the other is rounded down.
            height, width = (max(1, int(side * scale + 1e-6)) for side in image.shape[:2])
        return pixels.resize(image, width, height, interp)
