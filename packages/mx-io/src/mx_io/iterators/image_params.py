# SPDX-License-Identifier: Apache-2.0
"""Parameters of the image record iterators, with MXNet's names and defaults."""

from __future__ import annotations

from typing import Any

from mx_core.errors import ArgumentError
from mx_core.operator import Params, Shape, opt, required
from mx_io import _core

_NORMALISING = (
    "mirror", "rand_mirror", "mean_img", "mean_r", "mean_g", "mean_b", "mean_a", "std_r", "std_g",
    "std_b", "std_a", "scale", "max_random_contrast", "max_random_illumination",
)  # fmt: skip


class ImageParams(Params):
    """Of all iterators of images."""

    data_shape: Shape = required("(channels, height, width) of an example")
    batch_size: int = required("examples in a batch", lower=1)
    label_width: int = opt(1, "labels of an example", lower=1)
    shuffle: bool = opt(False, "read in a new random order in every epoch")
    seed: int = opt(0, "seed of the order and of the augmentation")
    seed_aug: int | None = opt(None, "seed of the augmentation, if it is to differ from `seed`")
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
    device_id: int = opt(0, "of cpu_pinned")
    verbose: bool = opt(True, "accepted; nothing is printed")
    aug_seq: str = opt(
        "aug_default",
        "names of augmenters, with commas between, or a list of them or of their names; aug_default stands for the "
        "geometry and the colours below",
    )
    on_error: str = opt(
        "raise",
        "what happens with an example that cannot be read: raise, or skip, which counts it in `skipped`",
        choices=("raise", "skip"),
    )
    scaled_decoding: bool = opt(
        False,
        "decode JPEG images at 1/2, 1/4 or 1/8 of their size where augmentation shrinks them at least as far",
    )
    # geometry
    resize: int = opt(-1, "new length of the shorter side", upper=32768)
    max_rotate_angle: int = opt(0, "rotate by up to so many degrees", lower=0)
    rotate: int = opt(-1, "rotate by so many degrees")
    max_shear_ratio: float = opt(0.0, "shear by up to so much", lower=0)
    min_random_scale: float = opt(1.0, "smallest random scale", lower=1e-3)
    max_random_scale: float = opt(1.0, "largest random scale", lower=1e-3)
    min_img_size: float = opt(0.0, "smallest side after scaling", lower=0)
    max_img_size: float = opt(1e10, "largest side after scaling", lower=1)
    pad: int = opt(0, "border added on each side", lower=0, upper=32768)
    fill_value: int = opt(255, "value of borders", lower=0, upper=255)
    rand_crop: bool = opt(False, "crop at a random place instead of the middle")
    random_resized_crop: bool = opt(False, "crop a random area of random aspect ratio, then resize")
    min_crop_size: int = opt(-1, "smallest side of a random square crop")
    max_crop_size: int = opt(-1, "largest side of a random square crop")
    min_random_area: float = opt(1.0, "smallest share of the area, for random_resized_crop", lower=0, upper=1)
    max_random_area: float = opt(1.0, "largest share of the area", lower=0, upper=1)
    min_aspect_ratio: float | None = opt(None, "smallest aspect ratio; 1 - max_aspect_ratio by default")
    max_aspect_ratio: float = opt(0.0, "largest aspect ratio, or its distance from 1", lower=0)
    inter_method: int = opt(
        1,
        "0 nearest, 1 bilinear, 2 bicubic, 3 area, 4 Lanczos, 9 by direction, 10 random",
        choices=(0, 1, 2, 3, 4, 9, 10),
    )
    # colour
    brightness: float = opt(0.0, "random factor around 1", lower=0)
    contrast: float = opt(0.0, "random factor around 1", lower=0)
    saturation: float = opt(0.0, "random factor around 1", lower=0)
    pca_noise: float = opt(0.0, "deviation of noise along the principal components of colour", lower=0)
    random_h: int = opt(0, "random shift of hue, of 180", lower=0)
    random_s: int = opt(0, "random shift of saturation, of 255", lower=0)
    random_l: int = opt(0, "random shift of lightness, of 255", lower=0)
    # normalisation
    mirror: bool = opt(False, "mirror every image")
    rand_mirror: bool = opt(False, "mirror every other image, at random")
    mean_img: str = opt(
        "", "file of a mean image, instead of mean_r, …; computed and written if there is none"
    )
    mean_r: float = opt(0.0, "subtracted from red, or grey")
    mean_g: float = opt(0.0, "subtracted from green")
    mean_b: float = opt(0.0, "subtracted from blue")
    mean_a: float = opt(0.0, "subtracted from alpha")
    std_r: float = opt(1.0, "red is divided by this")
    std_g: float = opt(1.0, "green is divided by this")
    std_b: float = opt(1.0, "blue is divided by this")
    std_a: float = opt(1.0, "alpha is divided by this")
    scale: float = opt(1.0, "multiplied last")
    max_random_contrast: float = opt(0.0, "random factor around 1", lower=0)
    max_random_illumination: float = opt(0.0, "random shift", lower=0)


class ImageRecordParams(ImageParams, leading=True):
    """Of `ImageRecordIter`."""

    path_imgrec: str = required("record file")
    path_imgidx: str = opt("", "index file; parts are then equal numbers of records instead of bytes")
    path_imglist: str = opt("", "list file whose labels replace those of the records, by number")


#: Native steps that change shapes and colours, and those that mirror and normalise.
GEOMETRY = (
    "resize", "max_rotate_angle", "rotate", "max_shear_ratio", "min_random_scale", "max_random_scale", "min_img_size",
    "max_img_size", "pad", "fill_value", "rand_crop", "random_resized_crop", "min_crop_size", "max_crop_size",
    "min_random_area", "max_random_area", "max_aspect_ratio", "inter_method", "brightness", "contrast", "saturation",
    "pca_noise", "random_h", "random_s", "random_l",
)  # fmt: skip
_FINISHING = ("mirror", "rand_mirror", "scale", "max_random_contrast", "max_random_illumination")
#: Parameters that the iterators of plain bytes do not have.
NORMALISING = frozenset(_NORMALISING)


def augment_options(p: Any, op: str) -> Any:
    """The native augmentation options of some parameters, checked together."""
    shape = p.data_shape
    if len(shape) != 3 or shape[0] not in (1, 3, 4) or min(shape) < 1:
        raise ArgumentError(f"[{op}] data_shape: expected (1, 3 or 4, height, width), got {tuple(shape)}")
    if 0.0 in (p.std_r, p.std_g, p.std_b, p.std_a):
        raise ArgumentError(f"[{op}] std_r, std_g, std_b, std_a: expected values other than 0")
    _check_together(p, op)
    options = _core.AugmentOptions()
    options.channels, options.height, options.width = shape
    options.min_aspect_ratio = -1.0 if p.min_aspect_ratio is None else p.min_aspect_ratio
    for name in (*GEOMETRY, *_FINISHING):
        setattr(options, name, getattr(p, name))
    options.set_mean([p.mean_r, p.mean_g, p.mean_b, p.mean_a])
    options.set_std([p.std_r, p.std_g, p.std_b, p.std_a])
    options.check()
    return options


def finishing_options(p: Any) -> Any:
    """Options of mirroring and normalising alone, for images that have their shape."""
    options = _core.AugmentOptions()
    options.channels, options.height, options.width = p.data_shape
    for name in _FINISHING:
        setattr(options, name, getattr(p, name))
    options.set_mean([p.mean_r, p.mean_g, p.mean_b, p.mean_a])
    options.set_std([p.std_r, p.std_g, p.std_b, p.std_a])
    return options


def plain_options(options: Any, p: Any) -> Any:
    """`augment_options` without mirroring and normalising, for what a mean image is the mean of."""
    plain = _core.AugmentOptions()
    plain.channels, plain.height, plain.width = p.data_shape
    for name in GEOMETRY:
        setattr(plain, name, getattr(options, name))
    plain.min_aspect_ratio = options.min_aspect_ratio
    return plain


def _check_together(p: Any, op: str) -> None:
    for low, high in (("min_random_scale", "max_random_scale"), ("min_random_area", "max_random_area")):
        if getattr(p, low) > getattr(p, high):
            raise ArgumentError(
                f"[{op}] expected {low} <= {high}, got {getattr(p, low)} and {getattr(p, high)}"
            )
    if not p.random_resized_crop:
        return
    geometry = {
        "rand_crop": p.rand_crop,
        "min_crop_size, max_crop_size": p.min_crop_size > 0 or p.max_crop_size > 0,
        "min_random_scale, max_random_scale": (p.min_random_scale, p.max_random_scale) != (1, 1),
        "min_img_size, max_img_size": p.min_img_size > 0 or p.max_img_size < 1e10,
        "max_rotate_angle, rotate, max_shear_ratio": p.max_rotate_angle > 0
        or p.rotate > 0
        or p.max_shear_ratio > 0,
    }
    clashing = [names for names, given in geometry.items() if given]
    if clashing:
        raise ArgumentError(f"[{op}] random_resized_crop excludes {'; '.join(clashing)}")
