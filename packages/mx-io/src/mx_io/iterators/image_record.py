# SPDX-License-Identifier: Apache-2.0
"""Images from record files: decoded, augmented and batched by background threads."""

from __future__ import annotations

from typing import Any

from mx_io.iterators.documentation import documented
from mx_io.iterators.image_batches import ImageSourceIter
from mx_io.iterators.image_params import ImageRecordParams
from mx_io.pipeline.records import RecordSource


@documented(ImageRecordParams)
class ImageRecordIter(ImageSourceIter):
    """Iterate over the images of a record file.

    Images are read, decoded, augmented and normalised by `preprocess_threads` threads, up to
    `prefetch_buffer` batches ahead; the heavy parts run without the GIL. Order and augmentation depend on the
    seeds alone, not on the number of threads.

    Parameters
    ----------
    data_name, label_name : str
    **kwargs
        MXNet's parameters, as values or text; `ImageRecordParams` describes each. `path_imgrec`, `data_shape`
        and `batch_size` are required.

    Attributes
    ----------
    provide_data, provide_label : list of DataDesc
        Data (batch, channels, height, width); labels (batch,), or (batch, label_width) for more than one.
    skipped, errors
        As of `ImageSourceIter`.

    Raises
    ------
    ArgumentError, OSError, FileFormatError
        At construction: parameters, a missing file, a damaged file when it has no index (unless
        `on_error="skip"`), a mean image of another shape.
    FileFormatError
        By `next()`: a record or an image is damaged; names file, record and byte. It is raised again until
        `reset()`.

    Notes
    -----
    The last batch is completed with the first examples of the next pass, `pad` says how many, and the next
    epoch begins after them; with `round_batch=False` the missing slots are zeros and every epoch begins at
    the first example. `batch.index` has the numbers (`IRHeader.id`) of the examples. For one consuming
    thread; a forked child goes on by itself. Without an index file the heads of all records are visited at
    construction.
    """

    _params = ImageRecordParams

    def __init__(self, data_name: str = "data", label_name: str = "softmax_label", **kwargs: Any) -> None:
        op = type(self).__name__
        steps, p = self._parsed(kwargs, op)
        source = record_source(p, op)
        source.check_labels(p.label_width)
        self._begin(source, steps, p, op, data_name, label_name)


def record_source(p: Any, op: str) -> RecordSource:
    """The records that parameters describe."""
    return RecordSource(
        p.path_imgrec, p.path_imgidx, p.path_imglist, p.part_index, p.num_parts, p.on_error == "skip", op
    )


class ImageRecordUInt8Iter(ImageRecordIter):
    """`ImageRecordIter` whose data are the pixels themselves, uint8 and not normalised."""

    _normalises = False
    _default_dtype = "uint8"


class ImageRecordInt8Iter(ImageRecordIter):
    """`ImageRecordIter` whose data are the pixels themselves as int8, not normalised; those above 127 become 127."""

    _normalises = False
    _default_dtype = "int8"
