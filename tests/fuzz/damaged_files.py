# SPDX-License-Identifier: Apache-2.0
"""Files of every format that mx reads, damaged in a way that a number decides, and how each is read."""

from __future__ import annotations

import io
import json
import random
import struct
import tarfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[2]
WORDS = (
    0,
    1,
    2,
    0x7F,
    0x80,
    0xFF,
    0xFFFF,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFFF,
    1 << 40,
    1 << 62,
    (1 << 64) - 1,
)
VALUES = (None, True, -1, 0, 1, 2, 10**6, 2**31, 2**63, -(2**63), 1e308, "", "null", "x" * 300, "\ud800", "(0, 2**62)",
          [], {}, [0], [[0, 0, 0]], [-1, 0, 0], "_zeros", "Convolution", "(1,)", "None", "-1")  # fmt: skip


@dataclass(frozen=True)
class Format:
    """One kind of file.

    Attributes
    ----------
    suffix : str
        Of the file's name.
    seeds : callable
        Gives contents that are right.
    read : callable
        Reads a file whole, whatever is in it.
    is_json : bool
        Whether values are exchanged as well as bytes.
    """

    suffix: str
    seeds: Callable[[], list[bytes]]
    read: Callable[[Path], object]
    is_json: bool = False


def data(*places: str) -> list[bytes]:
    """Contents of files that are in the repository."""
    return [path.read_bytes() for place in places for path in sorted(ROOT.glob(place))]


def saved(suffix: str) -> list[bytes]:
    """What `nd.save` writes, of several types and shapes."""
    import tempfile

    import mx

    kinds = ("float32", "float16", "int64", "uint8")
    arrays = {f"arg:x{i}": mx.nd.ones((i, 2)).astype(kind) for i, kind in enumerate(kinds)}
    if suffix == ".npz":
        arrays = {name.replace(":", "_"): array for name, array in arrays.items()}
    wanted = [mx.nd.ones((2, 3))] if suffix == ".npy" else [arrays, [mx.nd.ones((2, 3))]]
    contents = []
    with tempfile.TemporaryDirectory() as folder:
        for one in wanted[: 1 if suffix in (".safetensors", ".npy") else 2]:
            mx.nd.save(f"{folder}/a{suffix}", one)
            contents.append(Path(f"{folder}/a{suffix}").read_bytes())
    return contents


def image(suffix: str) -> bytes:
    """A small photograph."""
    from mx_io import codecs

    y, x = np.mgrid[:12, :16]
    return bytes(codecs.encode(np.stack([x * 16, y * 20, x * y], 2).astype(np.uint8), suffix))


def records(payloads: list[bytes]) -> bytes:
    """A RecordIO file."""
    words = [(struct.pack("<II", 0xCED7230A, len(p)), p, bytes(-len(p) % 4)) for p in payloads]
    return b"".join(part for record in words for part in record)


def images() -> list[bytes]:
    """Record files of images."""
    from mx_io.recordio import IRHeader, pack

    one = [pack(IRHeader(0, float(i), i, 0), image(s)) for i, s in enumerate((".jpg", ".png", ".jpg"))]
    (whole,) = data("packages/mx-io/tests/data/images.rec")
    (lines,) = data("packages/mx-io/tests/data/images.idx")
    sixth = int(lines.split(b"\n")[6].split(b"\t")[1])
    return [records(one), whole[:sixth]]


def boxes() -> list[bytes]:
    """Record files of images with boxes."""
    from mx_io.recordio import IRHeader, pack

    row = [2, 5, 1, 0.1, 0.1, 0.9, 0.8, 0, 0.2, 0.2, 0.4, 0.4]
    return [records([pack(IRHeader(0, row, i, 0), image(s)) for i, s in enumerate((".jpg", ".png"))])]


def shards() -> list[bytes]:
    """Tar files of images with labels."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as tar:
        for name, content in (
            ("0.jpg", image(".jpg")),
            ("0.cls", b"3"),
            ("1.png", image(".png")),
            ("1.cls", b"4"),
        ):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return [target.getvalue()]


def packed() -> list[bytes]:
    """Record files with headers, one of them in parts."""
    from mx_io.recordio import IRHeader, pack

    ours = [pack(IRHeader(0, 1.5, 1, 0), b"abc"), pack(IRHeader(2, np.arange(2.0), 2, 0), b"x" * 40)]
    return [records(ours), *data("packages/mx-io/tests/data/packed.rec")]


def states() -> list[bytes]:
    """States of optimizers, ours and MXNet's."""
    import mx

    contents = data("packages/mx-train/tests/data/*.states")
    for name in ("sgd", "adam"):
        updater = mx.optimizer.get_updater(
            mx.optimizer.create(name, **({"momentum": 0.9} if name == "sgd" else {}))
        )
        for index in range(2):
            updater(index, mx.nd.ones((3,)), mx.nd.ones((3,)))
        contents += [updater.get_states(), updater.get_states(dump_optimizer=True)]
    return contents


def read_arrays(path: Path) -> None:
    """Loads and waits."""
    import mx

    loaded = mx.nd.load(str(path))
    for array in (
        loaded.values() if isinstance(loaded, dict) else loaded if isinstance(loaded, list) else [loaded]
    ):
        if array is not None:
            array.asnumpy()


def read_symbol(path: Path) -> None:
    """Loads, infers, lists and writes again."""
    import mx
    from mx_core.errors import MXNetError

    net = mx.sym.load(str(path))
    net.tojson()
    try:
        net.infer_shape_partial(data=(1, 1, 28, 28))
        net.infer_type()
    except MXNetError:
        net.list_arguments()
        raise
    net.save(str(path.with_suffix(".again")))


def read_records(path: Path) -> None:
    """All records, and what they hold."""
    from mx_core.errors import MXNetError
    from mx_io.recordio import MXRecordIO, unpack

    refused: Exception | None = None
    with MXRecordIO(path, "r") as file:
        while (record := file.read()) is not None:
            try:
                unpack(record)
            except MXNetError as error:
                refused = error
    if refused is not None:
        raise refused


def read_index(path: Path) -> None:
    """Every key of an index."""
    from mx_io.recordio import MXIndexedRecordIO

    beside = path.with_name("beside.rec")
    if not beside.exists():
        beside.write_bytes(data("packages/mx-io/tests/data/raw.rec")[0])
    with MXIndexedRecordIO(path, beside, "r") as file:
        for key in file.keys:
            file.read_idx(key)


def read_images(path: Path) -> None:
    """All batches."""
    import mx

    for batch in mx.io.ImageRecordIter(
        path_imgrec=str(path), data_shape=(3, 8, 8), batch_size=2, preprocess_threads=1, prefetch_buffer=1
    ):
        batch.data[0].asnumpy()


def read_crops(path: Path) -> None:
    """Random crops of all images, damaged ones left out."""
    import mx

    for batch in mx.io.ImageRecordIter(
        path_imgrec=str(path), data_shape=(3, 5, 7), batch_size=2, preprocess_threads=1, prefetch_buffer=1,
        random_resized_crop=True, min_random_area=0.1, rand_mirror=True, on_error="skip",
    ):  # fmt: skip
        batch.data[0].asnumpy()


def read_boxes(path: Path) -> None:
    """All images and their boxes, cropped and padded."""
    import mx

    for batch in mx.io.ImageDetRecordIter(
        path_imgrec=str(path), data_shape=(3, 8, 8), batch_size=2, preprocess_threads=1, prefetch_buffer=1,
        rand_mirror_prob=0.5, rand_pad_prob=0.5, max_pad_scale=2.0, rand_crop_prob=0.5, num_crop_sampler=1,
        min_crop_scales=(0.3,), max_crop_scales=(1.0,), max_crop_trials=(5,),
    ):  # fmt: skip
        batch.label[0].asnumpy()


def read_shards(path: Path) -> None:
    """All examples of a tar file."""
    import mx
    from mx_io.pipeline import TarSource

    for batch in mx.io.ImageSourceIter(
        TarSource(str(path)), data_shape=(3, 8, 8), batch_size=2, preprocess_threads=1, prefetch_buffer=1
    ):
        batch.data[0].asnumpy()


def check_records(path: Path) -> None:
    """What `mx rec check` and `mx rec repair` find."""
    from mx_core.errors import FileFormatError
    from mx_io.rec import files

    found = files.check(str(path), None, images=True)
    files.repair(
        str(path), str(path.with_suffix(".mended")), str(path.with_suffix(".index")), None, images=True
    )
    if not found.intact:
        raise FileFormatError("damaged")


def read_batches(make: Callable[[Path], Any]) -> Callable[[Path], None]:
    """Reads all batches of an iterator."""

    def read(path: Path) -> None:
        for batch in make(path):
            batch.data[0].asnumpy()

    return read


def csv(path: Path) -> Any:
    """An iterator over a table."""
    import mx

    return mx.io.CSVIter(data_csv=str(path), data_shape=(3,), batch_size=2)


def mnist(path: Path) -> Any:
    """An iterator over digits whose images are damaged."""
    import mx

    labels = path.with_suffix(".labels")
    labels.write_bytes(struct.pack(">II", 0x801, 4) + bytes(4))
    return mx.io.MNISTIter(image=str(path), label=str(labels), batch_size=2, shuffle=False)


def read_states(path: Path) -> None:
    """Into an updater, and out again."""
    import mx

    updater = mx.optimizer.get_updater(mx.optimizer.create("adam"))
    updater.set_states(path.read_bytes())
    updater.get_states(dump_optimizer=True)


def read_list(path: Path) -> object:
    """Of `im2rec`."""
    from mx_io.im2rec.listing import read_list

    return read_list(path)


def decode(path: Path) -> object:
    """An image."""
    from mx_io import codecs

    return codecs.decode(path.read_bytes())


FORMATS: dict[str, Format] = {
    "params": Format(
        ".params", lambda: saved(".params") + data("packages/*/tests/data/*.params"), read_arrays
    ),
    "symbol": Format(".json", lambda: data("packages/mx-symbol/tests/data/**/*.json"), read_symbol, True),
    "records": Format(".rec", packed, read_records),
    "images": Format(".rec", images, read_images),
    "states": Format(".states", states, read_states),
    "npz": Format(".npz", lambda: saved(".npz"), read_arrays),
    "npy": Format(".npy", lambda: saved(".npy"), read_arrays),
    "safetensors": Format(".safetensors", lambda: saved(".safetensors"), read_arrays),
    "index": Format(".idx", lambda: data("packages/mx-io/tests/data/raw.idx"), read_index),
    "list": Format(".lst", lambda: [b"0\t1.0\ta.jpg\n1\t0.0\t2.0\tb/c.png\n"], read_list),
    "csv": Format(".csv", lambda: [b"1,2,3\n4,5.5,-6e3\n7,8,9\n"], read_batches(csv)),
    "mnist": Format(
        ".idx3", lambda: [struct.pack(">IIII", 0x803, 4, 5, 5) + bytes(100)], read_batches(mnist)
    ),
    "crops": Format(".rec", images, read_crops),
    "boxes": Format(".rec", boxes, read_boxes),
    "checked": Format(".rec", images, check_records),
    "shard": Format(".tar", shards, read_shards),
    "webp": Format(".webp", lambda: [image(".webp")], decode),
    "bmp": Format(".bmp", lambda: [image(".bmp")], decode),
    "pixels": Format(".npy", lambda: [image(".npy")], decode),
    "jpeg": Format(".jpg", lambda: [image(".jpg")], decode),
    "png": Format(".png", lambda: [image(".png")], decode),
}
NAMES = sorted(FORMATS)
#: formats one after the other, those with most to go wrong more often
TURNS = (*NAMES, "params", "symbol", "params", "symbol")


@cache
def seeds(name: str) -> list[bytes]:
    """Contents of a format that are right."""
    return FORMATS[name].seeds()


def make(seed: int, number: int) -> tuple[str, bytes]:
    """Format and damaged contents of input `number`."""
    name = TURNS[number % len(TURNS)]
    rng = random.Random(f"{seed} {number}")
    contents = rng.choice(seeds(name))
    if FORMATS[name].is_json and rng.random() < 0.75:
        try:
            return name, json.dumps(_exchange(rng, json.loads(contents))).encode()
        except UnicodeEncodeError:
            pass
    changed = bytearray(contents)
    for _ in range(rng.choice((1, 1, 2, 3))):
        _damage(rng, changed)
    if name == "png" and rng.random() < 0.5:
        _repair_png(changed)
    return name, bytes(changed)


def _damage(rng: random.Random, contents: bytearray) -> None:
    if not contents:
        contents += bytes(rng.randrange(16))
        return
    at = rng.randrange(min(len(contents), rng.choice((64, 512, len(contents)))))
    kind = rng.randrange(7)
    if kind == 0:
        contents[at] ^= 1 << rng.randrange(8)
    elif kind == 1:
        contents[at] = rng.randrange(256)
    elif kind in (2, 3):
        size = rng.choice((2, 4, 4, 8))
        word = rng.choice(WORDS) & ((1 << 8 * size) - 1)
        contents[at : at + size] = word.to_bytes(size, rng.choice(("little", "big")))
    elif kind == 4:
        del contents[at:]
    elif kind == 5:
        del contents[at : at + rng.choice((1, 4, 8, 100))]
    else:
        contents[at:at] = contents[at : at + rng.choice((1, 4, 8, 100))]


def _exchange(rng: random.Random, graph: Any) -> Any:
    places: list[tuple[Any, Any]] = []

    def walk(value: Any) -> None:
        for key in (
            list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
        ):
            places.append((value, key))
            walk(value[key])

    walk(graph)
    for _ in range(rng.choice((1, 1, 2, 3))):
        holder, key = rng.choice(places)
        other, place = rng.choice(places)
        if not _has(holder, key):
            continue
        taken = rng.choice((*VALUES, other[place] if _has(other, place) else 0))
        if type(holder[key]) is int and rng.random() < 0.8:  # an index, mostly
            taken = holder[key] + rng.choice((-1, 1, 2, 100, 5000))
        if rng.random() < 0.2:
            del holder[key]
        else:
            holder[key] = json.loads(json.dumps(taken))
    return graph


def _has(holder: Any, key: Any) -> bool:
    return key in holder if isinstance(holder, dict) else key < len(holder)


def _repair_png(contents: bytearray) -> None:
    """Makes checksums right, so that what is behind them is read."""
    at = 8
    while at + 12 <= len(contents):
        length = int.from_bytes(contents[at : at + 4], "big")
        end = at + 8 + length
        if end + 4 > len(contents):
            return
        contents[end : end + 4] = zlib.crc32(bytes(contents[at + 4 : end])).to_bytes(4, "big")
        at = end + 4
