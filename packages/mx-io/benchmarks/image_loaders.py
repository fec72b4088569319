# SPDX-License-Identifier: Apache-2.0
"""One image loader, in a process of its own, for `bench_loaders`: an epoch for each line on standard input.

    python image_loaders.py NAME FOLDER WORKERS

FOLDER has photographs as `NNNN.jpg`, all of them in `all.rec`, and in `0.tar`, `1.tar`, ... for webdataset. A batch has
50 images: crops of 8 to 100 % of the area, resized to 224 x 224, mirrored at random, normalized, as float32 planes
(tf.data: rows of pixels, as TensorFlow has them). The first line that is printed has the seconds to the first batch,
from the call that makes the loader, after imports; each other one those of an epoch, and its CPU seconds, those of
children too.

It runs under the Python of the loader, MXNet's 3.8 also, and imports nothing of mx but for mx's own.
"""

from __future__ import annotations

import glob
import json
import os
import sys
import time
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    #: Makes a loader from folder and workers; what it gives is iterated once an epoch.
    Make = Callable[[str, int], Callable[[], Iterable[Any]]]

BATCH, SIDE = 50, 224
MEAN, STD = (123.68, 116.28, 103.53), (58.4, 57.1, 57.4)
AREA, RATIO = (0.08, 1.0), (3 / 4, 4 / 3)


def _record_iterator(module: Any, folder: str, workers: int) -> Callable[[], Iterable[Any]]:
    """ImageRecordIter, ours or MXNet's."""
    named = [*zip(("mean_r", "mean_g", "mean_b"), MEAN), *zip(("std_r", "std_g", "std_b"), STD)]
    source = module.ImageRecordIter(
        path_imgrec=f"{folder}/all.rec", data_shape=(3, SIDE, SIDE), batch_size=BATCH, preprocess_threads=workers,
        shuffle=True, rand_mirror=True, random_resized_crop=True, min_random_area=AREA[0], max_random_area=AREA[1],
        min_aspect_ratio=RATIO[0], max_aspect_ratio=RATIO[1], **dict(named),
    )  # fmt: skip
    begun: list[bool] = []

    def epoch() -> Iterable[Any]:
        if begun:
            source.reset()
        begun.append(True)
        for batch in source:
            batch.data[0].wait_to_read()
            yield batch

    return epoch


def mx(folder: str, workers: int) -> Callable[[], Iterable[Any]]:
    """Ours."""
    return _record_iterator(import_module("mx_io.io"), folder, workers)


def mxnet(folder: str, workers: int) -> Callable[[], Iterable[Any]]:
    """MXNet's ImageRecordIter, with mean and deviation of its own parameters."""
    return _record_iterator(import_module("mxnet").io, folder, workers)


class Files:
    """Files of a folder as a data set of PyTorch."""

    def __init__(self, folder: str, read: Callable[[str], Any]) -> None:
        self.paths = sorted(glob.glob(f"{folder}/*.jpg"))
        self.read = read

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        return self.read(self.paths[index]), index % 10


class PilImage:
    """Decoded and cropped by PIL, then made a tensor."""

    def __init__(self) -> None:
        transforms = import_module("torchvision.transforms")
        self.open = import_module("PIL.Image").open
        self.change = transforms.Compose([
            transforms.RandomResizedCrop(SIDE, AREA, RATIO), transforms.RandomHorizontalFlip(), transforms.ToTensor(),
            transforms.Normalize([m / 255 for m in MEAN], [s / 255 for s in STD]),
        ])  # fmt: skip

    def __call__(self, path: Any) -> Any:
        return self.change(self.open(path).convert("RGB"))


class TensorImage:
    """Decoded to a tensor of bytes by torchvision and changed by its second transforms."""

    def __init__(self) -> None:
        torch, transforms = import_module("torch"), import_module("torchvision.transforms.v2")
        self.io = import_module("torchvision.io")
        self.change = transforms.Compose([
            transforms.RandomResizedCrop(SIDE, AREA, RATIO, antialias=True), transforms.RandomHorizontalFlip(),
            transforms.ToDtype(torch.float32, scale=True),
            transforms.Normalize([m / 255 for m in MEAN], [s / 255 for s in STD]),
        ])  # fmt: skip

    def __call__(self, path: str) -> Any:
        return self.change(self.io.decode_jpeg(self.io.read_file(path)))


def _one_thread(_: int) -> None:
    import_module("torch").set_num_threads(1)


def _torch_loader(read: Callable[[str], Any], folder: str, workers: int) -> Callable[[], Iterable[Any]]:
    data = import_module("torch.utils.data")
    loader = data.DataLoader(
        Files(folder, read), BATCH, shuffle=True, num_workers=workers, persistent_workers=True,
        worker_init_fn=_one_thread,
    )  # fmt: skip
    return lambda: loader


def torch_pil(folder: str, workers: int) -> Callable[[], Iterable[Any]]:
    """PyTorch's DataLoader with PIL, in processes."""
    return _torch_loader(PilImage(), folder, workers)


def torch_torchvision(folder: str, workers: int) -> Callable[[], Iterable[Any]]:
    """PyTorch's DataLoader with torchvision's decoder and tensors, in processes."""
    return _torch_loader(TensorImage(), folder, workers)


class _Sample:
    """An image and its label of a sample of webdataset."""

    def __init__(self) -> None:
        self.change = PilImage()
        self.bytes = import_module("io").BytesIO

    def __call__(self, sample: dict[str, bytes]) -> Any:
        return self.change(self.bytes(sample["jpg"])), int(sample["cls"])


def webdataset(folder: str, workers: int) -> Callable[[], Iterable[Any]]:
    """WebDataset's tar shards with PIL, in processes."""
    data = import_module("webdataset")
    shards = sorted(glob.glob(f"{folder}/*.tar"))
    source = data.WebDataset(shards, shardshuffle=len(shards)).shuffle(200).map(_Sample()).batched(BATCH)
    loader = import_module("torch.utils.data").DataLoader(
        source, None, num_workers=workers, persistent_workers=True, worker_init_fn=_one_thread
    )
    return lambda: loader


def tf_data(folder: str, workers: int) -> Callable[[], Iterable[Any]]:
    """tf.data: only the crop of a file is decoded."""
    tf = import_module("tensorflow")
    tf.config.threading.set_inter_op_parallelism_threads(workers)
    tf.config.threading.set_intra_op_parallelism_threads(1)

    def read(path: Any) -> Any:
        content = tf.io.read_file(path)
        box = tf.image.sample_distorted_bounding_box(
            tf.image.extract_jpeg_shape(content), tf.constant([0.0, 0.0, 1.0, 1.0], shape=[1, 1, 4]),
            area_range=AREA, aspect_ratio_range=RATIO, max_attempts=10, use_image_if_no_bounding_boxes=True,
        )  # fmt: skip
        (y, x, _), (h, w, _) = tf.unstack(box[0]), tf.unstack(box[1])
        image = tf.image.decode_and_crop_jpeg(content, tf.stack([y, x, h, w]), channels=3)
        image = tf.image.random_flip_left_right(tf.image.resize(image, [SIDE, SIDE]))
        return (image - tf.constant(MEAN)) / tf.constant(STD)

    paths = sorted(glob.glob(f"{folder}/*.jpg"))
    source = (
        tf.data.Dataset.from_tensor_slices(paths).shuffle(len(paths)).map(read, num_parallel_calls=workers)
    )
    source = source.batch(BATCH).prefetch(2)
    return lambda: source


LOADERS: dict[str, Make] = {
    "mx": mx, "mxnet": mxnet, "torch_pil": torch_pil, "torch_torchvision": torch_torchvision,
    "webdataset": webdataset, "tf_data": tf_data,
}  # fmt: skip


#: What is imported before the time counts.
IMPORTS = {
    "mx": ("mx_io.io", "mx_ndarray"), "mxnet": ("mxnet",),
    "torch_pil": ("torch.utils.data", "torchvision.transforms", "PIL.Image"),
    "torch_torchvision": ("torch.utils.data", "torchvision.transforms.v2", "torchvision.io"),
    "webdataset": ("torch.utils.data", "torchvision.transforms", "PIL.Image", "webdataset"),
    "tf_data": ("tensorflow",),
}  # fmt: skip


def cpu_seconds(process: int) -> float:
    """Of a process and its children that live."""
    with open(f"/proc/{process}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    total = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    for task in os.listdir(f"/proc/{process}/task"):
        with open(f"/proc/{process}/task/{task}/children") as file:
            total += sum(cpu_seconds(int(child)) for child in file.read().split())
    return total


def say(found: dict[str, float]) -> None:
    """A line for the benchmark; libraries may print others."""
    print("measured " + json.dumps(found), flush=True)


def main() -> None:
    """Make the loader, and give an epoch for each line."""
    name, folder, workers = sys.argv[1], sys.argv[2], int(sys.argv[3])
    for module in IMPORTS[name]:
        import_module(module)
    if name == "mx":  # plug-ins are loaded with the first name, what MXNet has with its import
        _ = import_module("mx_io.io").ImageRecordIter
    begin = time.perf_counter()
    epoch = LOADERS[name](folder, workers)
    batches = iter(epoch())
    next(batches)
    say({"first": time.perf_counter() - begin})
    count = 1 + sum(1 for _ in batches)
    for _ in sys.stdin:
        begin, used = time.perf_counter(), cpu_seconds(os.getpid())
        count = sum(1 for _ in epoch())
        say({
            "images": count * BATCH, "seconds": time.perf_counter() - begin, "cpu": cpu_seconds(os.getpid()) - used
        })  # fmt: skip


if __name__ == "__main__":
    main()
