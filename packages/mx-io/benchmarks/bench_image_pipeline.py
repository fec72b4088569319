# SPDX-License-Identifier: Apache-2.0
"""How close does ImageRecordIter come to the bare decoding rate of the JPEG library?

    python benchmarks/bench_image_pipeline.py [--images 400] [--threads 2]

Baseline: simplejpeg decodes the same JPEG data from memory in as many threads, and throws the pixels away.
The iterator also reads, crops at random, mirrors, normalises, and writes float planes (3, 224, 224). The goal
is a ratio of 0.9.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import simplejpeg

from mx_core.testing.benchmark import record
from mx_io import pixels
from mx_io.io import ImageRecordIter
from mx_io.recordio import IRHeader, MXRecordIO, pack


def make_jpegs(count: int) -> list[bytes]:
    """Natural-looking noise of 500 x 375 pixels, quality 90, about 100 kB each."""
    rng = np.random.default_rng(0)
    jpegs = []
    for _ in range(count):
        coarse = rng.integers(0, 256, (24, 32, 3), np.uint8)
        image = pixels.resize(coarse, 500, 375, 2).astype(np.int16) + rng.integers(-12, 13, (375, 500, 3))
        jpegs.append(
            simplejpeg.encode_jpeg(np.clip(image, 0, 255).astype(np.uint8), 90, colorsubsampling="420")
        )
    return jpegs


def decode_rate(jpegs: list[bytes], threads: int) -> float:
    """Images a second of the bare decoder."""

    def decode(part: list[bytes]) -> None:
        for data in part:
            simplejpeg.decode_jpeg(data)

    with ThreadPoolExecutor(threads) as pool:
        start = time.perf_counter()
        list(pool.map(decode, [jpegs[i::threads] for i in range(threads)]))
        return len(jpegs) / (time.perf_counter() - start)


def pipeline_rate(path: str, count: int, threads: int) -> float:
    """Images a second of the iterator, the second epoch."""
    source = ImageRecordIter(
        path_imgrec=path, data_shape=(3, 224, 224), batch_size=50, preprocess_threads=threads, rand_crop=True,
        rand_mirror=True, mean_r=123.68, mean_g=116.28, mean_b=103.53, scale=1 / 58, shuffle=True,
    )  # fmt: skip
    for _ in source:
        pass
    start = time.perf_counter()
    source.reset()
    for _ in source:
        pass
    seconds = time.perf_counter() - start
    source.close()
    return count / seconds


def main() -> None:
    """Print both rates and their ratio, alternating and taking the best of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=400)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    jpegs = make_jpegs(arguments.images)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "bench.rec")
        with MXRecordIO(path, "w") as records:
            for i, data in enumerate(jpegs):
                records.write(pack(IRHeader(0, float(i), i, 0), data))
        pairs = [
            (decode_rate(jpegs, arguments.threads), pipeline_rate(path, len(jpegs), arguments.threads))
            for _ in range(5)
        ]
    decoding, pipeline = (max(rates) for rates in zip(*pairs, strict=True))
    size = sum(map(len, jpegs)) / len(jpegs) / 1000
    name = f"ImageRecordIter, {arguments.threads} threads, {size:.0f} kB"
    record(name, pipeline, "images/s", baseline="decoder alone", ratio=pipeline / decoding)


if __name__ == "__main__":
    main()
