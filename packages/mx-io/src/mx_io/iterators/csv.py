# SPDX-License-Identifier: Apache-2.0
"""Batches from text files of comma-separated numbers."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np

from mx_core.errors import FileFormatError
from mx_core.files import naming
from mx_core.operator import Params, Shape, opt, required
from mx_io import _core
from mx_io.iterators.documentation import documented
from mx_io.iterators.order import ExampleOrder
from mx_io.iterators.table import TableIter

#: Bytes of a file that are read at once, and the rest of their last line.
_BLOCK = 1 << 24


class CSVParams(Params):
    """Of `CSVIter`."""

    data_csv: str = required("file of the data, an example a line")
    data_shape: Shape = required("shape of an example")
    label_csv: str = opt("NULL", "file of the labels; labels are 0 without")
    label_shape: Shape = opt((1,), "shape of a label")
    batch_size: int = required("examples in a batch", lower=1)
    round_batch: bool = opt(
        True, "fill the last batch with the first examples; the next epoch begins after them"
    )
    prefetch_buffer: int = opt(4, "accepted; the file is read at construction", lower=0)
    ctx: str = opt("gpu", "accepted; batches are in CPU memory", choices=("cpu", "gpu"))
    dtype: str | None = opt(
        None, "element type of data and labels", choices=(None, "float32", "int32", "int64")
    )


@documented(CSVParams)
class CSVIter(TableIter):
    """Iterate over the lines of a CSV file, read into memory at construction.

    Parameters
    ----------
    data_name, label_name : str
    **kwargs
        See below.

    Raises
    ------
    FileFormatError
        A line has another number of values than the shape, or something that is no number.
    """

    def __init__(self, data_name: str = "data", label_name: str = "softmax_label", **kwargs: Any) -> None:
        p = CSVParams.parse(kwargs, op="CSVIter")
        dtype = np.dtype(p.dtype or "float32")
        data = _read(p.data_csv, p.data_shape, dtype)
        if p.label_csv == "NULL":
            label = np.zeros((len(data), *p.label_shape), dtype)
        else:
            label = _read(p.label_csv, p.label_shape, dtype)
        if len(label) != len(data):
            raise FileFormatError(
                f"[CSVIter] {p.label_csv}: expected {len(data)} lines of labels, got {len(label)}"
            )
        if tuple(p.label_shape) == (1,):
            label = label[:, 0]
        order = ExampleOrder(len(data), p.batch_size, tail="round" if p.round_batch else "pad")
        super().__init__(data, label, order, data_name, label_name)


def _read(path: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    columns = math.prod(shape)
    try:
        with naming(path):
            table = _plain(path, columns, dtype)
            if table is None:
                table = np.loadtxt(path, dtype, delimiter=",", ndmin=2, comments=None)
    except (ValueError, UnicodeDecodeError) as error:
        raise FileFormatError(f"[CSVIter] {path}: expected lines of numbers, got {error}") from error
    if table.size == 0:
        raise FileFormatError(f"[CSVIter] {path}: expected at least one line, got none")
    if table.shape[1] != columns:
        raise FileFormatError(
            f"[CSVIter] {path}: expected {columns} values a line for shape {tuple(shape)}, "
            f"got {table.shape[1]}"
        )
    return table.reshape(len(table), *shape)


def _plain(path: str, columns: int, dtype: np.dtype[Any]) -> np.ndarray[Any, Any] | None:
    """The table of a file of plain lines; None if it has others, which NumPy reads or tells what is wrong with."""
    if not os.path.isfile(path):
        return None
    tables = []
    with open(path, "rb") as file:
        for lines in iter(lambda: file.read(_BLOCK) + file.readline(), b""):
            # a number takes two bytes, with what ends it
            most = (len(lines) + 1) // (2 * columns) if columns else 0
            table = np.empty((min(lines.count(b"\n") + 1, most), columns), dtype)
            rows = _core.read_numbers(lines, table)
            if rows is None:
                return None
            tables.append(table[:rows])
    return np.concatenate(tables) if tables else None
