# SPDX-License-Identifier: Apache-2.0
"""The 1,797 handwritten digits of scikit-learn, as image files and as record files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mx

SIZE = 32  # pixels; the originals have 8


def write_images(folder: Path) -> int:
    """Writes `folder/LABEL/NUMBER.png`; every tenth image as JPEG. Returns how many."""
    from PIL import Image
    from sklearn.datasets import load_digits

    digits = load_digits()
    for number, (pixels, label) in enumerate(zip(digits.images, digits.target, strict=True)):
        image = Image.fromarray((pixels * 255 / 16).astype("uint8")).resize(
            (SIZE, SIZE), Image.Resampling.BICUBIC
        )
        target = folder / str(label)
        target.mkdir(parents=True, exist_ok=True)
        if number % 10:
            image.save(target / f"{number:04d}.png")
        else:
            image.save(target / f"{number:04d}.jpg", quality=95)
    return len(digits.images)


def pack_records(folder: Path, prefix: Path) -> tuple[Path, Path]:
    """Lists the images, splits them 80 to 20, packs both parts; returns the two record files."""
    from mx_io import im2rec

    lists = im2rec.make_list(prefix, folder, recursive=True, train_ratio=0.8, shuffle=True)
    train, validation = sorted(lists, key=lambda path: "train" not in path.name)
    first, second = (im2rec.pack(part, folder, pass_through=True) for part in (train, validation))
    return first.record, second.record


def iterators(train: Path, validation: Path, batch_size: int) -> tuple[Any, Any]:
    """Iterators over (batch, 3, 32, 32); training images are shuffled and shifted."""
    common: dict[str, Any] = {
        "data_shape": (3, 28, 28), "batch_size": batch_size, "preprocess_threads": 2,
        "mean_r": 127.5, "mean_g": 127.5, "mean_b": 127.5, "scale": 1 / 127.5,
    }  # fmt: skip
    return (
        mx.io.ImageRecordIter(path_imgrec=str(train), shuffle=True, rand_crop=True, seed=1, **common),
        mx.io.ImageRecordIter(path_imgrec=str(validation), round_batch=False, **common),
    )
