# SPDX-License-Identifier: Apache-2.0
"""Boxes, regions and samplers; PyTorch without further packages has only the samplers.

python bench_vision.py [--threads 2] [--reference] [name ...]
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from beside import Case, main, torch


def cases(rng: np.random.Generator) -> Iterator[Case]:
    """All of them."""
    corners = rng.random((1, 8732, 4)).astype(np.float32)
    corners[..., 2:] = corners[..., :2] + rng.random((1, 8732, 2)).astype(np.float32) / 8
    scores = rng.random((1, 8732, 2)).astype(np.float32)
    yield Case("suppression, 8732 boxes", "_contrib_box_nms", {"overlap_thresh": 0.45, "valid_thresh": 0.01},
               [np.concatenate((scores, corners), 2)], None)  # fmt: skip
    yield Case("overlaps", "_contrib_box_iou", {}, [corners[0], corners[0, :500]], None)
    labels = np.concatenate((rng.integers(0, 20, (8, 20, 1)), corners[:, :160].reshape(8, 20, 4)), 2)
    predicted = rng.standard_normal((8, 21, 8732)).astype(np.float32)
    yield Case("box targets", "_contrib_MultiBoxTarget", {"negative_mining_ratio": 3.0},
               [corners, labels.astype(np.float32), predicted], None)  # fmt: skip
    offsets = rng.standard_normal((8, 4 * 8732)).astype(np.float32)
    yield Case("box detection", "_contrib_MultiBoxDetection", {"nms_topk": 400},
               [abs(predicted) / 4, offsets, corners], None)  # fmt: skip
    maps = rng.standard_normal((2, 256, 50, 68)).astype(np.float32)
    rois = rng.random((256, 5)).astype(np.float32) * np.array([2, 400, 400, 0, 0], np.float32)
    rois[:, 3:] = rois[:, 1:3] + rng.random((256, 2)) * 300
    attrs = {"pooled_size": (7, 7), "spatial_scale": 1 / 16}
    yield Case("region means", "_contrib_ROIAlign", {**attrs, "sample_ratio": 2}, [maps, rois], None)
    yield Case("region maxima", "ROIPooling", attrs, [maps, rois], None)
    images = rng.standard_normal((16, 32, 64, 64)).astype(np.float32)
    grid = (rng.random((16, 2, 64, 64), np.float32) * 2 - 1).astype(np.float32)

    def sampled(x: Any, g: Any) -> Any:
        return torch.nn.functional.grid_sample(x, g.permute(0, 2, 3, 1), align_corners=True)

    yield Case("samples", "BilinearSampler", {}, [images, grid], torch and sampled)

    def pulled(head: Any, x: Any, g: Any) -> Any:
        given = [t.detach().requires_grad_() for t in (x, g)]
        return torch.autograd.grad(sampled(*given), given, head)

    yield Case(
        "samples and gradients", "_backward_BilinearSampler", {}, [images, images, grid], torch and pulled
    )
    flow = rng.standard_normal((1, 64, 48, 64)).astype(np.float32)
    yield Case("correlation", "Correlation", {"max_displacement": 20, "stride2": 2, "pad_size": 20},
               [flow, flow], None)  # fmt: skip


if __name__ == "__main__":
    main(cases(np.random.default_rng(0)))
