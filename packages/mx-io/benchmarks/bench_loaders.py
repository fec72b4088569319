# SPDX-License-Identifier: Apache-2.0
"""How many images a second do ImageRecordIter and the loaders of other systems give?

    python benchmarks/bench_loaders.py [--images 400] [--rounds 5] [--only mx,torch_pil]

500 x 375 JPEGs of photographs; crops of 8 to 100 % of the area resized to 224 x 224, mirrored, normalized; as many
threads or processes as there are cores. The loaders take turns, an epoch each, and their medians are compared: MXNet's
ImageRecordIter (of the Python in MX_BENCH_MXNET_PYTHON; the goal is a ratio of 3), PyTorch's DataLoader with PIL and
with torchvision, WebDataset and tf.data (of the Pythons in MX_BENCH_LOADERS_PYTHON, with colons between; the present
one without it). What no Python has is named as missing. CPU time counts processes of a loader, too; on a machine that
others use it says more than images a second. The time to the first batch counts from the call that makes the loader,
after imports.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from bench_image_pipeline import make_jpegs

from mx_core.testing.benchmark import record, spread
from mx_io.recordio import IRHeader, MXRecordIO, pack

SCRIPT = Path(__file__).with_name("image_loaders.py")
#: What a loader imports, and how it is called in the results.
NEEDS = {
    "mx": ("mx_io", "mx"),
    "mxnet": ("mxnet", "MXNet's ImageRecordIter"),
    "torch_pil": ("torchvision", "PyTorch's DataLoader with PIL"),
    "torch_torchvision": ("torchvision", "PyTorch's DataLoader with torchvision"),
    "webdataset": ("webdataset", "WebDataset"),
    "tf_data": ("tensorflow", "tf.data"),
}


class Loader:
    """A loader in its process, warm after one epoch."""

    def __init__(self, python: str, name: str, folder: str, workers: int) -> None:
        command = [python, str(SCRIPT), name, folder, str(workers)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.name = name
        self.first = self._answer()["first"]
        self.epochs: list[dict[str, float]] = []

    def epoch(self) -> None:
        """Measure one."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        self.epochs.append(self._answer())

    def rates(self, of: str) -> list[float]:
        """Images for each `seconds` or `cpu` second, an epoch each."""
        return [epoch["images"] / epoch[of] for epoch in self.epochs]

    def close(self) -> None:
        """End the process."""
        self._process.communicate()

    def _answer(self) -> dict[str, float]:
        assert self._process.stdout is not None
        said = ""
        for line in self._process.stdout:
            said = line.strip() or said
            if line.startswith("measured "):
                found: dict[str, float] = json.loads(line.partition(" ")[2])
                return found
        raise RuntimeError(f"{self.name} ended with {self._process.wait()}: {said}")


def pythons(name: str) -> list[str]:
    """Interpreters that may have a loader."""
    if name == "mx":
        return [sys.executable]
    variable = "MX_BENCH_MXNET_PYTHON" if name == "mxnet" else "MX_BENCH_LOADERS_PYTHON"
    given = os.environ.get(variable, "" if name == "mxnet" else sys.executable)
    return [python for python in given.split(":") if python]


def python_with(name: str) -> str | None:
    """The first that has what the loader needs."""
    look = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({NEEDS[name][0]!r}) is None)"
    for python in pythons(name):
        done = subprocess.run([python, "-c", look], capture_output=True, check=False)
        if done.returncode == 0:
            return python
    return None


def write(folder: str, jpegs: list[bytes], shards: int) -> None:
    """The photographs as files, records and tar shards."""
    with MXRecordIO(f"{folder}/all.rec", "w") as records:
        for i, data in enumerate(jpegs):
            Path(f"{folder}/{i:04}.jpg").write_bytes(data)
            records.write(pack(IRHeader(0, float(i % 10), i, 0), data))
    for shard in range(shards):
        with tarfile.open(f"{folder}/{shard}.tar", "w") as archive:
            for i in range(shard, len(jpegs), shards):
                for suffix, content in ((".jpg", jpegs[i]), (".cls", b"%d" % (i % 10))):
                    member: Any = tarfile.TarInfo(f"{i:04}{suffix}")
                    member.size = len(content)
                    archive.addfile(member, io.BytesIO(content))


def main() -> None:
    """Print the rates of each, and ours as ratios to them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default=",".join(NEEDS))
    arguments = parser.parse_args()
    workers = os.cpu_count() or 1
    loaders: list[Loader] = []
    with tempfile.TemporaryDirectory() as folder:
        write(folder, make_jpegs(arguments.images), workers)
        for name in arguments.only.split(","):
            python = python_with(name)
            if python is None:
                print(f"missing as a baseline: {NEEDS[name][1]}")
                continue
            try:
                loaders.append(Loader(python, name, folder, workers))
            except RuntimeError as error:
                print(f"missing as a baseline: {NEEDS[name][1]} ({error})")
        for _ in range(arguments.rounds):
            for loader in loaders:
                loader.epoch()
        for loader in loaders:
            loader.close()
    report(loaders)


def report(loaders: list[Loader]) -> None:
    """One line for each loader and each thing that is compared; ratios above 1 are ours better."""
    ours = loaders[0]
    for of, unit in (("seconds", "images/s"), ("cpu", "images/CPU s")):
        mine = statistics.median(ours.rates(of))
        record(f"ImageRecordIter of {ours.name}", mine, unit)
        for loader in loaders[1:]:
            theirs = loader.rates(of)
            ratio = mine / statistics.median(theirs)
            noise = (spread(ours.rates(of)) + spread(theirs)) * ratio
            record(f"ImageRecordIter beside {statistics.median(theirs):.0f}", mine, unit,
                   baseline=NEEDS[loader.name][1], ratio=ratio, spread=noise)  # fmt: skip
    record("time to the first batch", ours.first * 1e3, "ms")
    for loader in loaders[1:]:
        record(f"time to the first batch beside {loader.first * 1e3:.0f}", ours.first * 1e3, "ms",
               baseline=NEEDS[loader.name][1], ratio=loader.first / ours.first)  # fmt: skip


if __name__ == "__main__":
    main()
