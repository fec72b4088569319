# SPDX-License-Identifier: Apache-2.0
"""Parameters of `ImageDetRecordIter`, with MXNet's names and defaults."""

from __future__ import annotations

from typing import Any

from mx_core.errors import ArgumentError
from mx_core.operator import Params, Shape, opt, required

Floats = tuple[float, ...]


class ImageDetRecordParams(Params):
    """Of `ImageDetRecordIter`."""

    path_imgrec: str = opt("./data/imgrec.rec", "record file")
    path_imglist: str = opt("", "list file whose labels replace those of the records, by number")
    path_imgidx: str = opt("", "index file; parts are then equal numbers of records instead of bytes")
    aug_seq: str = opt("det_aug_default", "accepted", choices=("det_aug_default",))
    label_width: int = opt(-1, "labels that every record must have; any number if not positive")
    data_shape: Shape = required("(channels, height, width) of an example")
    batch_size: int = required("examples in a batch", lower=1)
    label_pad_width: int = opt(0, "labels of an example after filling up; those of the longest if 0", lower=0)
    label_pad_value: float = opt(-1.0, "what labels are filled up with")
    shuffle: bool = opt(False, "read in a new random order in every epoch")
    seed: int = opt(0, "seed of the order and of the augmentation")
    shuffle_chunk_size: int = opt(0, "if positive, shuffle (all records, not only chunks)", lower=0)
    shuffle_chunk_seed: int = opt(0, "added to the seed of the order")
    num_parts: int = opt(1, "parts the data are divided into", lower=1)
    part_index: int = opt(0, "which part to read", lower=0)
    preprocess_threads: int = opt(4, "threads that decode and augment", lower=1, upper=256)
    prefetch_buffer: int = opt(4, "batches prepared ahead", lower=0)
    round_batch: bool = opt(
        True, "fill the last batch with the first examples; the next epoch begins after them"
    )
    dtype: str | None = opt(None, "element type of the data, float32 by default")
    ctx: str = opt(
        "gpu",
        "cpu_pinned for batches in page-locked memory, from where a GPU copies them faster; cpu and gpu for CPU memory",
        choices=("cpu", "gpu", "cpu_pinned"),
    )
    verbose: bool = opt(True, "accepted; nothing is printed")
    on_error: str = opt(
        "raise",
        "what happens with an example that cannot be read: raise, or skip, which counts it in `skipped`",
        choices=("raise", "skip"),
    )
    # geometry
    resize: int = opt(-1, "new length of the shorter side, before everything else", upper=32768)
    rand_mirror_prob: float = opt(0.0, "probability of mirroring", lower=0, upper=1)
    rand_pad_prob: float = opt(0.0, "probability of padding", lower=0, upper=1)
    max_pad_scale: float = opt(1.0, "largest side after padding, in sides of the image", lower=1)
    rand_crop_prob: float = opt(0.0, "probability of cropping", lower=0, upper=1)
    num_crop_sampler: int = opt(1, "kinds of crops, one of which is drawn", lower=1)
    min_crop_scales: Floats = opt(
        (0.0,), "smallest side of a crop of each kind, by the root of the image's area"
    )
    max_crop_scales: Floats = opt((1.0,), "largest side")
    min_crop_aspect_ratios: Floats = opt((1.0,), "smallest aspect ratio, width by height")
    max_crop_aspect_ratios: Floats = opt((1.0,), "largest aspect ratio")
    min_crop_overlaps: Floats = opt((0.0,), "smallest intersection over union with an object")
    max_crop_overlaps: Floats = opt((1.0,), "largest intersection over union")
    min_crop_sample_coverages: Floats = opt((0.0,), "smallest share of the crop that an object covers")
    max_crop_sample_coverages: Floats = opt((1.0,), "largest share of the crop")
    min_crop_object_coverages: Floats = opt((0.0,), "smallest share of an object that the crop covers")
    max_crop_object_coverages: Floats = opt((1.0,), "largest share of an object")
    crop_emit_mode: str = opt(
        "center", "objects that stay in a crop: those whose centre is in it, or that overlap with it enough",
        choices=("center", "overlap"),
    )  # fmt: skip
    emit_overlap_thresh: float = opt(0.3, "share of an object that must be in the crop, for overlap", lower=0)
    max_crop_trials: Shape = opt((25,), "crops of each kind that are tried")
    resize_mode: str = opt(
        "force",
        "force to the data's shape, fit into it, or shrink to fit into it",
        choices=("fit", "force", "shrink"),
    )
    inter_method: int = opt(
        1,
        "0 nearest, 1 bilinear, 2 bicubic, 3 area, 4 Lanczos, 9 by direction, 10 random",
        choices=(0, 1, 2, 3, 4, 9, 10),
    )
    fill_value: int = opt(127, "value of what is padded", lower=0, upper=255)
    # colour
    max_random_hue: int = opt(0, "largest shift of hue, of 180", lower=0)
    random_hue_prob: float = opt(0.0, "probability of a shift of hue", lower=0, upper=1)
    max_random_saturation: int = opt(0, "largest shift of saturation, of 255", lower=0)
    random_saturation_prob: float = opt(0.0, "probability of a shift of saturation", lower=0, upper=1)
    max_random_illumination: int = opt(0, "largest shift of lightness, of 255", lower=0)
    random_illumination_prob: float = opt(0.0, "probability of a shift of lightness", lower=0, upper=1)
    max_random_contrast: float = opt(0.0, "largest distance of the random factor from 1", lower=0)
    random_contrast_prob: float = opt(0.0, "probability of another contrast", lower=0, upper=1)
    # normalisation
    mean_img: str = opt(
        "", "file of a mean image, instead of mean_r, …; computed and written if there is none"
    )
    mean_r: float = opt(0.0, "subtracted from red, or grey")
    mean_g: float = opt(0.0, "subtracted from green")
    mean_b: float = opt(0.0, "subtracted from blue")
    mean_a: float = opt(0.0, "subtracted from alpha")
    std_r: float = opt(0.0, "red is divided by this, unless it is 0")
    std_g: float = opt(0.0, "green is divided by this, unless it is 0")
    std_b: float = opt(0.0, "blue is divided by this, unless it is 0")
    std_a: float = opt(0.0, "alpha is divided by this, unless it is 0")
    scale: float = opt(1.0, "multiplied last")


#: Parameters of crops that have a value for each kind.
_RANGES = ("scales", "aspect_ratios", "overlaps", "sample_coverages", "object_coverages")


class CropKind:
    """One kind of crop: ranges by name, and how often it is tried.

    Threads: any.
    """

    def __init__(self, ranges: dict[str, tuple[float, float]], trials: int) -> None:
        self.ranges, self.trials = ranges, trials


def crop_kinds(p: Any, op: str) -> list[CropKind]:
    """The kinds of crops of some parameters, checked."""
    count = p.num_crop_sampler

    def spread(name: str) -> tuple[Any, ...]:
        values = tuple(getattr(p, name))
        if len(values) not in (1, count):
            raise ArgumentError(
                f"[{op}] {name}: expected 1 or {count} values (num_crop_sampler), got {len(values)}"
            )
        return values * count if len(values) == 1 else values

    trials = spread("max_crop_trials")
    lows = {name: spread(f"min_crop_{name}") for name in _RANGES}
    highs = {name: spread(f"max_crop_{name}") for name in _RANGES}
    for name in _RANGES:
        for low, high in zip(lows[name], highs[name], strict=True):
            if low > high:
                raise ArgumentError(
                    f"[{op}] expected min_crop_{name} <= max_crop_{name}, got {low} and {high}"
                )
    return [
        CropKind({name: (lows[name][i], highs[name][i]) for name in _RANGES}, int(trials[i]))
        for i in range(count)
    ]
