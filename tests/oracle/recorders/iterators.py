# SPDX-License-Identifier: Apache-2.0
"""Records batches of MXNet 1.9.1's iterators, none of them drawn at random. Runs under Python 3.8.

python iterators.py             writes the files that are read, and records the cases below anew
python iterators.py --check     compares with what is recorded, and changes nothing
"""

import os
import struct
import sys
import tempfile

import mxnet as mx
import numpy as np
from common import write_or_check
from detection import FOLDER, png
from mxnet import recordio

PATH = os.path.join(FOLDER, "iterators.json")

#: name in `mx.io`, settings, epochs; FOLDER/ stands before names of files
FILES = [
    ("ImageRecordIter", {"path_imgrec": "images.rec", "data_shape": [3, 6, 5], "batch_size": 3}, 2),
    ("ImageRecordIter", {"path_imgrec": "images.rec", "data_shape": [3, 4, 4], "batch_size": 7}, 1),
    ("ImageRecordIter", {"path_imgrec": "images.rec", "data_shape": [1, 4, 4], "batch_size": 4}, 1),
    ("ImageRecordIter", {"path_imgrec": "images.rec", "path_imglist": "images.lst", "data_shape": [3, 4, 4], "batch_size": 4}, 1),
    ("ImageRecordIter", {"path_imgrec": "images.rec", "data_shape": [3, 4, 4], "batch_size": 2, "mean_r": 10.0, "mean_g": 20.0,
                         "mean_b": 30.0, "std_r": 2.0, "std_g": 4.0, "std_b": 8.0, "scale": 0.5, "mirror": True}, 1),
    ("ImageRecordIter", {"path_imgrec": "images.rec", "data_shape": [3, 10, 9], "batch_size": 2, "pad": 2, "fill_value": 7}, 1),
    ("ImageRecordIter", {"path_imgrec": "images.rec", "data_shape": [3, 4, 4], "batch_size": 2, "resize": 5}, 1),
    ("ImageRecordIter", {"path_imgrec": "images.rec", "data_shape": [3, 9, 12], "batch_size": 2, "inter_method": 2}, 1),
    ("ImageRecordIter", {"path_imgrec": "images.rec", "data_shape": [3, 4, 4], "batch_size": 3, "mean_img": "OUT"}, 1),
    ("ImageRecordUInt8Iter", {"path_imgrec": "images.rec", "data_shape": [3, 6, 5], "batch_size": 3}, 1),
    ("ImageRecordInt8Iter", {"path_imgrec": "images.rec", "data_shape": [3, 6, 5], "batch_size": 3}, 1),
    ("MNISTIter", {"image": "digits.images", "label": "digits.labels", "batch_size": 3, "shuffle": False}, 2),
    ("MNISTIter", {"image": "digits.images", "label": "digits.labels", "batch_size": 2, "shuffle": False, "flat": True,
                   "num_parts": 3, "part_index": 1}, 1),
    ("CSVIter", {"data_csv": "numbers.csv", "data_shape": [2, 2], "batch_size": 3}, 2),
    ("CSVIter", {"data_csv": "numbers.csv", "data_shape": [4], "label_csv": "labels.csv", "batch_size": 2, "dtype": "int32"}, 2),
    ("CSVIter", {"data_csv": "numbers.csv", "data_shape": [4], "label_csv": "numbers.csv", "label_shape": [2, 2], "batch_size": 5}, 1),
]  # fmt: skip
#: settings of NDArrayIter over 7 examples of 2 numbers and a label, epochs
ARRAYS = [
    ({"batch_size": 3}, 2),
    ({"batch_size": 3, "last_batch_handle": "discard"}, 2),
    ({"batch_size": 3, "last_batch_handle": "roll_over"}, 4),
    ({"batch_size": 9}, 2),
    ({"batch_size": 2, "data_name": "x", "label_name": "y"}, 1),
]


def write_files():
    generator = np.random.RandomState(3)
    path = os.path.join(FOLDER, "images")
    record = recordio.MXIndexedRecordIO(path + ".idx", path + ".rec", "w")
    lines = []
    for i in range(7):
        pixels = generator.randint(0, 256, (6 + i % 3, 5 + i % 2, 3)).astype(np.uint8)
        header = recordio.IRHeader(0, i / 4.0, i, 0)
        record.write_idx(i, recordio.pack(header, png(pixels)))
        lines.append("{}\t{}\tx\n".format(i, 100 + i))
    record.close()
    with open(path + ".lst", "w") as file:
        file.writelines(lines)
    with open(os.path.join(FOLDER, "digits.images"), "wb") as file:
        file.write(struct.pack(">IIII", 2051, 8, 3, 4) + bytes(range(96)))
    with open(os.path.join(FOLDER, "digits.labels"), "wb") as file:
        file.write(struct.pack(">II", 2049, 8) + bytes(range(8)))
    with open(os.path.join(FOLDER, "numbers.csv"), "w") as file:
        file.writelines("{},{},{},{}\n".format(*range(10 * i, 10 * i + 4)) for i in range(5))
    with open(os.path.join(FOLDER, "labels.csv"), "w") as file:
        file.writelines("{}\n".format(7 * i) for i in range(5))


def described(source):
    return [
        [d.name, list(d.shape), np.dtype(d.dtype).name, d.layout]
        for d in source.provide_data + source.provide_label
    ]


def epochs(source, count):
    found = []
    for _ in range(count):
        found.append(
            [
                [
                    np.where(data == data.round(), data.round(), data.astype(np.float64).round(3)).tolist(),
                    batch.label[0].asnumpy().tolist(),
                    batch.pad,
                ]
                for batch in source
                for data in [batch.data[0].asnumpy()]
            ]
        )
        source.reset()
    return found


def from_files(name, settings, count):
    with tempfile.TemporaryDirectory() as folder:
        given = {
            key: os.path.join(FOLDER, value)
            if key.startswith("path") or key in ("image", "label", "data_csv", "label_csv")
            else value
            for key, value in settings.items()
        }
        if "mean_img" in given:
            given["mean_img"] = os.path.join(folder, "mean.bin")
        if name.startswith("Image"):
            given["preprocess_threads"] = 1
        source = getattr(mx.io, name)(**given)
        found = {
            "name": name,
            "settings": settings,
            "described": described(source),
            "epochs": epochs(source, count),
        }
        if "mean_img" in given:
            (array,) = mx.nd.load(given["mean_img"]).values()
            found["mean"] = array.asnumpy().astype(np.float64).round(3).tolist()
        return found


def from_arrays(settings, count):
    data = np.arange(14, dtype=np.float32).reshape(7, 2)
    source = mx.io.NDArrayIter(data, np.arange(7) * 10, **settings)
    return {"settings": settings, "described": described(source), "epochs": epochs(source, count)}


def main():
    if sys.argv[1:] != ["--check"]:
        write_files()
    found = {
        "files": [from_files(*case) for case in FILES],
        "arrays": [from_arrays(*case) for case in ARRAYS],
    }
    write_or_check(PATH, found, 1e-2, indent=None)


if __name__ == "__main__":
    main()
