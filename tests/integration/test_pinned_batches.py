# SPDX-License-Identifier: Apache-2.0
"""Batches of images in memory that is page-locked for GPUs, on a fake machine with two."""

from __future__ import annotations

import pytest

pytest.importorskip("mx_operators_cuda", reason="mx-operators-cuda is not installed")
pytest.importorskip("mx_io", reason="mx-io is not installed")
pytest.importorskip("mx_ndarray", reason="mx-ndarray is not installed")

from testkit import cuda_emulator, fake_machine

PROGRAM = """
import gc
import numpy as np
import mx
from mx_core import services
from mx_io.pipeline import Example, ImageSourceIter, Source

class Numbers(Source):
    def __len__(self):
        return 12
    def read(self, positions):
        return [Example(np.full((32, 32, 3), i, np.uint8), float(i), i) for i in positions]

storage = services.storage("cpu_pinned")
used = lambda: storage.stats(mx.cpu_pinned(0)).bytes_in_use
assert storage.name == "CUDA pinned" and used() == 0
batches = ImageSourceIter(Numbers(), data_shape=(3, 32, 32), batch_size=4, ctx="cpu_pinned", prefetch_buffer=2)
size = 4 * 4 * 3 * 32 * 32
for epoch in range(3):
    moved = []
    for number, batch in enumerate(batches):
        assert batch.data[0].context == batch.label[0].context == mx.cpu_pinned(0)
        place = mx.gpu(number % 2)
        moved.append((batch.data[0].as_in_context(place), batch.label[0].as_in_context(place)))
        assert size <= used() < 4.1 * size
    del batch  # its memory serves later batches, when the copies have read it
    batches.reset()
    for number, (data, label) in enumerate(moved):
        numbers = np.arange(4 * number, 4 * number + 4)
        assert np.array_equal(label.asnumpy(), numbers)
        assert (data.asnumpy() == numbers[:, None, None, None]).all()
batches.close()
del batches
mx.nd.waitall()
gc.collect()
print("in use:", used())
"""


@pytest.mark.timeout(280)
@pytest.mark.skipif(cuda_emulator.COMPILER is None, reason="there is no g++, which builds the fake driver")
def test_batches_are_copied_to_gpus(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> None:
    machine = fake_machine.Machine(tmp_path_factory, pytestconfig)
    assert machine.run(PROGRAM, timeout=240, FAKE_CUDA_DELAY="200").strip() == "in use: 0"
