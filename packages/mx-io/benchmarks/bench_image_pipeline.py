# SPDX-License-Identifier: Apache-2.0
"""How close does ImageRecordIter come to the bare decoding rate of the JPEG library?

    python benchmarks/bench_image_pipeline.py [--images 400] [--threads 2]

Baseline: simplejpeg decodes the same JPEG data from memory in as many threads, and throws the pixels away.
The iterator also reads, crops at random, mirrors, normalises, and writes float planes (3, 224, 224). It is measured
with crops of 224 x 224 pixels, with crops of 8 to 100 % of the area that are resized, and with these and decoding at a
smaller scale. The goals are ratios of 0.95, 0.95 and 1.3. CPU time is that of the whole process, for a busy machine.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import simplejpeg

from mx_core.testing.benchmark import record
from mx_io import pixels
from mx_io.io import ImageRecordIter
from mx_io.recordio import IRHeader, MXRecordIO, pack

#: A second, and a second of CPU time.
Rates = tuple[float, float]


def make_jpegs(count: int) -> list[bytes]:
    """500 x 375 pixels, quality 90: tiles of scikit-learn's two photographs, or noise where it is not installed."""
    rng = np.random.default_rng(0)
    try:
        from sklearn.datasets import load_sample_images

        photographs = load_sample_images().images
    except ImportError:
        coarse = rng.integers(0, 256, (2, 24, 32, 3), np.uint8)
        photographs = [
            (pixels.resize(each, 640, 427, 2) + rng.integers(-12, 13, (427, 640, 3)))
            .clip(0, 255)
            .astype(np.uint8)
            for each in coarse
        ]
    jpegs = []
    for i in range(count):
        height = int(rng.integers(320, 428))
        width = height * 4 // 3
        y, x = int(rng.integers(428 - height)), int(rng.integers(641 - width))
        tile = np.ascontiguousarray(photographs[i % 2][y : y + height, x : x + width])
        jpegs.append(simplejpeg.encode_jpeg(pixels.resize(tile, 500, 375, 2), 90, colorsubsampling="420"))
    return jpegs


RESIZED: dict[str, Any] = {
    "random_resized_crop": True, "min_random_area": 0.08, "min_aspect_ratio": 0.75, "max_aspect_ratio": 4 / 3,
}  # fmt: skip
KINDS: dict[str, dict[str, Any]] = {
    "crop": {"rand_crop": True},
    "resized crop": RESIZED,
    "resized crop, scaled decoding": RESIZED | {"scaled_decoding": True},
}


def decode_rate(jpegs: list[bytes], threads: int) -> Rates:
    """Images a second of the bare decoder, and a second of CPU time."""

    def decode(part: list[bytes]) -> None:
        for data in part:
            simplejpeg.decode_jpeg(data)

    with ThreadPoolExecutor(threads) as pool:
        start = time.perf_counter(), time.process_time()
        list(pool.map(decode, [jpegs[i::threads] for i in range(threads)]))
        return _rates(len(jpegs), start)


def pipeline_rate(path: str, count: int, threads: int, more: dict[str, Any]) -> Rates:
    """Images a second of the iterator, the second epoch, and a second of CPU time."""
    source = ImageRecordIter(
        path_imgrec=path, data_shape=(3, 224, 224), batch_size=50, preprocess_threads=threads, rand_mirror=True,
        mean_r=123.68, mean_g=116.28, mean_b=103.53, scale=1 / 58, shuffle=True, **more,
    )  # fmt: skip
    for _ in source:
        pass
    start = time.perf_counter(), time.process_time()
    source.reset()
    for _ in source:
        pass
    rates = _rates(count, start)
    source.close()
    return rates


def _rates(count: int, start: Rates) -> Rates:
    return count / (time.perf_counter() - start[0]), count / (time.process_time() - start[1])


def main() -> None:
    """Print the rates and their ratios, alternating and taking the best of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    jpegs = make_jpegs(arguments.images)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "bench.rec")
        with MXRecordIO(path, "w") as records:
            for i, data in enumerate(jpegs):
                records.write(pack(IRHeader(0, float(i), i, 0), data))
        rounds = [
            [
                decode_rate(jpegs, arguments.threads),
                *(pipeline_rate(path, len(jpegs), arguments.threads, more) for more in KINDS.values()),
            ]
            for _ in range(arguments.rounds)
        ]
    size = sum(map(len, jpegs)) / len(jpegs) / 1000
    for which, unit in enumerate(("images/s", "images/CPU s")):
        best = [max(rates[which] for rates in kind) for kind in zip(*rounds, strict=True)]
        for kind, rate in zip(KINDS, best[1:], strict=True):
            name = f"ImageRecordIter, {kind}, {arguments.threads} threads, {size:.0f} kB"
            record(name, rate, unit, baseline="decoder alone", ratio=rate / best[0])


if __name__ == "__main__":
    main()
