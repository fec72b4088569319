# SPDX-License-Identifier: Apache-2.0
"""The pipeline under the iterators of images, for sources of one's own.

A `Source` gives encoded examples by position. `ImageSourceIter` decodes, augments and batches them with threads,
prefetch, shuffling that a seed repeats, parts, and errors that name the example; `ImageRecordIter` is the same over
records.

Examples
--------
>>> import numpy as np
>>> from mx_io.pipeline import Example, ImageSourceIter, Source
>>> class Squares(Source):
...     def __len__(self):
...         return 5
...
...     def read(self, positions):
...         return [Example(np.full((4, 4, 3), i * i, np.uint8), float(i), i) for i in positions]
>>> batches = ImageSourceIter(Squares(), data_shape=(3, 4, 4), batch_size=2)
>>> [batch.label[0].asnumpy().tolist() for batch in batches]
[[0.0, 1.0], [2.0, 3.0], [4.0, 0.0]]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mx_core.imports import lazy

if TYPE_CHECKING:
    from mx_io.iterators.image_batches import ImageSourceIter as ImageSourceIter
    from mx_io.pipeline.files import FolderSource as FolderSource
    from mx_io.pipeline.files import ListSource as ListSource
    from mx_io.pipeline.records import RecordSource as RecordSource
    from mx_io.pipeline.samples import ImageSamples as ImageSamples
    from mx_io.pipeline.source import Example as Example
    from mx_io.pipeline.source import Part as Part
    from mx_io.pipeline.source import Source as Source
    from mx_io.pipeline.tar import TarSource as TarSource

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "mx_io.iterators.image_batches": ["ImageSourceIter"],
        "mx_io.pipeline.files": ["FolderSource", "ListSource"],
        "mx_io.pipeline.records": ["RecordSource"],
        "mx_io.pipeline.samples": ["ImageSamples"],
        "mx_io.pipeline.source": ["Example", "Part", "Source"],
        "mx_io.pipeline.tar": ["TarSource"],
    },
)
