# SPDX-License-Identifier: Apache-2.0
"""CSVIter takes the text that NumPy takes, to the same numbers."""

from __future__ import annotations

import gzip
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mx_core.errors import FileFormatError
from mx_io.io import CSVIter
from mx_io.iterators import csv

#: What numbers are made of, and what they are not.
VALUES = st.one_of(
    st.floats(width=64).map(repr),
    st.floats(width=32).map("{:.6g}".format),
    st.integers(-(2**65), 2**65).map(str),
    st.sampled_from(
        [
            "+1.5",
            "-.5",
            "2.",
            "1e5",
            "1E-3",
            " 7 ",
            "\t8",
            "9\x0b",
            "inf",
            "-Infinity",
            "NaN",
            "nan(1)",
            "1_0",
        ]
    ),
    st.sampled_from(
        [
            "",
            ".",
            "-",
            "+-1",
            "e5",
            "1e",
            "0x10",
            "1 2",
            "'1'",
            '"1"',
            "1;2",
            "1d5",
            "é",
            "\0",
            "1e999",
            "1e-400",
        ]
    ),
)
LINES = st.lists(VALUES, min_size=1, max_size=3).map(",".join)


@given(
    lines=st.lists(st.one_of(LINES, st.sampled_from(["", " ", "#"])), max_size=6),
    ends=st.sampled_from(["\n", "\r\n", "\r", "\n\n"]),
    last=st.booleans(),
    columns=st.integers(1, 3),
    dtype=st.sampled_from(["float32", "int32", "int64"]),
    block=st.sampled_from([1, 7, csv._BLOCK]),
)
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_numbers_are_those_of_numpy(tmp_path, monkeypatch, lines, ends, last, columns, dtype, block):
    monkeypatch.setattr(csv, "_BLOCK", block)
    file = tmp_path / "a.csv"
    file.write_bytes((ends.join(lines) + ends * last).encode())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            expected = np.loadtxt(file, np.dtype(dtype), delimiter=",", ndmin=2, comments=None)
        except (ValueError, UnicodeDecodeError):
            expected = None
        if expected is None or expected.shape[1] != columns or not expected.size:
            with pytest.raises(FileFormatError, match=r"\[CSVIter\] .*a\.csv: expected "):
                csv._read(str(file), (columns,), np.dtype(dtype))
            return
        found = csv._read(str(file), (columns,), np.dtype(dtype))
    assert found.dtype == expected.dtype
    assert np.array_equal(found, expected, equal_nan=dtype == "float32")
    assert np.array_equal(np.signbit(found), np.signbit(expected))


def test_plain_lines_are_read_without_numpy(tmp_path, monkeypatch):
    table = np.random.default_rng(0).normal(size=(1000, 7)).astype(np.float32)
    np.savetxt(tmp_path / "a.csv", table, "%.9g", ",")
    monkeypatch.setattr(np, "loadtxt", None)
    monkeypatch.setattr(csv, "_BLOCK", 4096)
    assert np.array_equal(csv._read(str(tmp_path / "a.csv"), (7,), np.dtype("float32")), table)


def test_a_compressed_file_is_read_by_its_name(tmp_path):
    with gzip.open(tmp_path / "a.csv.gz", "wt") as file:
        file.write("1,2\n3,4\n")
    batch = CSVIter(data_csv=str(tmp_path / "a.csv.gz"), data_shape=(2,), batch_size=2).next()
    assert batch.data[0].asnumpy().tolist() == [[1, 2], [3, 4]]


def test_a_shape_that_is_far_too_large_is_told_of(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("1,2\n3,4\n")
    with pytest.raises(FileFormatError, match=r"expected 10000000000000 values a line .*, got 2"):
        csv._read(str(file), (10**13,), np.dtype("float32"))
