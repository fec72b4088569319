# SPDX-License-Identifier: Apache-2.0
"""Offsets of an index file, read at once."""

from __future__ import annotations

import numpy as np
import pytest

from mx_core.errors import FileFormatError
from mx_io import recordio
from mx_io.pipeline.records import indexed_offsets


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("0\t8\n1\t40\n", [8, 40]),
        ("b\t8\na\t40\n", [8, 40]),
        ("7\t8\n1\t40\n7\t80\n", [80, 40]),
        ("7\t8\n07\t40\n", [8, 40]),
        ("", []),
    ],
)
def test_offsets_of_an_index(tmp_path, lines, expected):
    (tmp_path / "a.idx").write_text(lines)
    found = indexed_offsets(tmp_path / "a.idx")
    assert found.dtype == np.int64 and found.tolist() == expected
    assert found.tolist() == list(recordio.read_index(tmp_path / "a.idx", str).values())


@pytest.mark.parametrize("lines", ["0\t8\n1\tx\n", "0\t8\n1\t-4\n", "0\t8\n1\n", "0\t8\t9\n", "0\t1e400\n"])
def test_damaged_lines_of_an_index_are_named(tmp_path, lines):
    (tmp_path / "a.idx").write_text(lines)
    with pytest.raises(FileFormatError, match=r"a\.idx: line [12]: expected 'key<TAB>offset'"):
        indexed_offsets(tmp_path / "a.idx")
