# SPDX-License-Identifier: Apache-2.0
"""Records iterators and augmenters of detection of MXNet 1.9.1. Runs under Python 3.8.

python detection.py             writes the record files, and records the cases below anew
python detection.py --check     compares with what is recorded, and changes nothing
"""

import os
import struct
import sys
import zlib

import mxnet as mx
import numpy as np
from common import write_or_check
from mxnet import image, recordio

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "io")
PATH = os.path.join(FOLDER, "detection.json")

#: objects of each image, after a head of two numbers, or of four
OBJECTS = [
    [[0, 0.0, 0.05, 0.3, 0.55]],
    [[1, 0.1, 0.05, 0.4, 0.55], [2, 0.2, 0.3, 0.9, 1.0], [0, 0.5, 0.5, 0.75, 0.625]],
    [[1, 0.0, 0.0, 1.0, 1.0], [2, 0.5, 0.2, 0.5, 0.9]],
    [[2, 0.25, 0.25, 0.5, 0.75]],
    [[0, 0.3, 0.1, 0.2, 0.4], [1, 0.1, 0.1, 0.3, 0.4]],
]
SIZE = (12, 16)

ITERATORS = [
    {"batch_size": 2, "data_shape": [3, 12, 16]},
    {"batch_size": 2, "data_shape": [3, 8, 10]},
    {"batch_size": 3, "data_shape": [3, 24, 20], "inter_method": 1},
    {"batch_size": 2, "data_shape": [3, 12, 16], "last_batch_handle": "discard"},
    {"batch_size": 2, "data_shape": [3, 12, 16], "num_parts": 2, "part_index": 1},
    {"batch_size": 2, "data_shape": [3, 12, 16], "mean": True, "std": True},
    {"batch_size": 5, "data_shape": [3, 6, 6], "resize": 10, "data_name": "x", "label_name": "y"},
]
RECORD_ITERATORS = [
    {"batch_size": 2, "data_shape": [3, 12, 16]},
    {"batch_size": 2, "data_shape": [3, 12, 16], "label_pad_width": 20},
    {
        "batch_size": 2,
        "data_shape": [3, 12, 16],
        "label_pad_width": 24,
        "label_pad_value": 7.0,
        "round_batch": False,
    },
    {"batch_size": 2, "data_shape": [3, 8, 10]},
    {"batch_size": 2, "data_shape": [3, 8, 10], "resize_mode": "shrink"},
    {"batch_size": 2, "data_shape": [3, 8, 10], "resize_mode": "fit"},
    {"batch_size": 2, "data_shape": [3, 20, 40], "resize_mode": "shrink"},
    {"batch_size": 2, "data_shape": [3, 20, 40], "resize_mode": "fit"},
    {
        "batch_size": 2,
        "data_shape": [3, 12, 16],
        "mean_r": 10.0,
        "mean_g": 20.0,
        "mean_b": 30.0,
        "scale": 0.5,
    },
    {"batch_size": 2, "data_shape": [3, 12, 16], "std_r": 2.0, "std_g": 4.0, "std_b": 8.0},
    {"batch_size": 2, "data_shape": [3, 12, 16], "rand_mirror_prob": 1.0},
]
LISTS = [
    {},
    {"resize": 10, "rand_crop": 0.5, "rand_pad": 0.4, "rand_mirror": True, "mean": True, "std": True},
    {"brightness": 0.1, "contrast": 0.2, "saturation": 0.3, "pca_noise": 0.1, "hue": 0.1, "rand_gray": 0.2},
    {"rand_crop": 1, "rand_pad": 1, "area_range": [0.1, 4.0]},
]
CROPS = [
    {},
    {"min_object_covered": [0.1, 0.2, 0.3]},
    {"area_range": [(0.1, 1.0), (0.2, 1.0)], "max_attempts": 5, "skip_prob": 0.3},
    {"aspect_ratio_range": 1, "area_range": 0.5},
]
#: rows of numbers that labels may be
ROWS = {
    "short": [2, 5],
    "uneven": [2, 5, 0, 0.1, 0.1, 0.2, 0.2, 1],
    "narrow": [2, 4, 0, 0.1, 0.1, 0.2, 0, 0.1, 0.1, 0.2],
    "longer head": [4, 5, 640, 480, 0, 0.1, 0.1, 0.5, 0.5],
    "no area": [2, 5, 0, 0.5, 0.5, 0.1, 0.1],
    "one without area": [2, 5, 0, 0.5, 0.5, 0.1, 0.1, 1, 0, 0, 0.5, 0.5],
    "outside": [2, 5, 0, -0.1, 0, 1.2, 1],
    "class below 0": [2, 5, -1, 0.1, 0.1, 0.5, 0.5],
    "wide objects": [2, 7, 1, 0.1, 0.1, 0.5, 0.5, 8, 9],
    "head beyond": [100, 5, 1, 2, 3, 4, 5, 6, 7],
}


def png(pixels):
    """An image as PNG, red first."""
    height, width, _ = pixels.shape
    raw = b"".join(b"\0" + row.tobytes() for row in pixels)

    def chunk(kind, data):
        return (
            struct.pack(">I", len(data))
            + kind
            + data
            + struct.pack(">I", zlib.crc32(kind + data) & 0xFFFFFFFF)
        )

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(raw, 9)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def row_of(objects, number):
    head = [2, 5] if number % 2 == 0 else [4, 5, 16, 12]
    return head + [value for each in objects for value in each]


def write_records(path, rows):
    generator = np.random.RandomState(7)
    record = recordio.MXIndexedRecordIO(path + ".idx", path + ".rec", "w")
    for i, row in enumerate(rows):
        pixels = generator.randint(0, 256, SIZE + (3,)).astype(np.uint8)
        record.write_idx(i, recordio.pack(recordio.IRHeader(0, np.array(row, np.float32), i, 0), png(pixels)))
    record.close()


def batches(source):
    """Labels of all batches; the pixels of the first."""
    found = [
        {"label": b.label[0].asnumpy().tolist(), "pad": b.pad, "data": b.data[0].asnumpy()} for b in source
    ]
    for number, batch in enumerate(found):
        data = batch.pop("data")
        if number == 0:
            batch["data"] = np.where(data == data.round(), data.round(), data.round(3)).tolist()
    return found


def described(source):
    return [
        [name, list(shape)] for name, shape in (x[:2] for x in source.provide_data + source.provide_label)
    ]


def files(path):
    return {"path_imgrec": path + ".rec", "path_imgidx": path + ".idx"}


def iterator(path, settings):
    source = image.ImageDetIter(**files(path), **dict(settings, data_shape=tuple(settings["data_shape"])))
    return {
        "settings": settings,
        "described": described(source),
        "label_shape": list(source.label_shape),
        "batches": batches(source),
    }


def record_iterator(path, settings):
    source = mx.io.ImageDetRecordIter(path_imgrec=path + ".rec", preprocess_threads=1, **settings)
    found = batches(source)
    source.reset()
    second = [b.label[0].asnumpy()[:, 0].tolist() for b in source]
    return {
        "settings": settings,
        "described": described(source),
        "batches": found,
        "second": [len(second), [b["pad"] for b in found]],
    }


def read_row(path, row):
    """What an iterator gives for a file of one image with a label; the kind of error."""
    write_records(path, [row])
    try:
        source = image.ImageDetIter(1, (3, 12, 16), **files(path))
    except Exception:
        return {"row": row, "refused": True}
    return {"row": row, "refused": False, "labels": [b.label[0].asnumpy().tolist() for b in source]}


def shapes(path):
    """Changes of shapes, and which are refused."""
    source = image.ImageDetIter(2, (3, 8, 10), **files(path))
    refused = []
    for shape in ((3,), (2, 5), (5, 4), (5, 6)):
        try:
            source.reshape(None, shape)
        except ValueError:
            refused.append(list(shape))
    source.reshape(None, (6, 5))
    other = image.ImageDetIter(2, (3, 8, 10), **files(path))
    source.sync_label_shape(other)
    return {"refused": refused, "synchronised": [list(source.label_shape), list(other.label_shape)]}


def dumps(settings):
    settings = {k: tuple(v) if k == "area_range" else v for k, v in settings.items()}
    return [augmenter.dumps() for augmenter in image.CreateDetAugmenter((3, 8, 10), **settings)]


def main():
    path = os.path.join(FOLDER, "objects")
    if sys.argv[1:] != ["--check"]:
        os.makedirs(FOLDER, exist_ok=True)
        write_records(path, [row_of(objects, i) for i, objects in enumerate(OBJECTS)])
    label = np.array([[0, 0.1, 0.2, 0.3, 0.4, 9], [1, 0, 0, 1, 1, 8]], np.float32)
    _, flipped = image.DetHorizontalFlipAug(1.0)(mx.nd.zeros((2, 2, 3)), label.copy())
    spare = os.path.join("/tmp", "mx-detection-{}".format(os.getpid()))
    found = {
        "iterators": [iterator(path, settings) for settings in ITERATORS],
        "record_iterators": [record_iterator(path, settings) for settings in RECORD_ITERATORS],
        "lists": [[settings, dumps(settings)] for settings in LISTS],
        "crops": [[settings, image.CreateMultiRandCropAugmenter(**settings).dumps()] for settings in CROPS],
        "rows": {name: read_row(spare, row) for name, row in ROWS.items()},
        "shapes": shapes(path),
        "flipped": flipped.tolist(),
    }
    for suffix in (".rec", ".idx"):
        os.remove(spare + suffix)
    write_or_check(PATH, found, 1e-3, indent=None)


if __name__ == "__main__":
    main()
