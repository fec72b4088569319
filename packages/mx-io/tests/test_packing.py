# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mx_core.errors import ArgumentError, FileFormatError
from mx_io import recordio
from mx_io.recordio import IRHeader

DATA = Path(__file__).parent / "data"
TRUTH = json.loads((DATA / "records_truth.json").read_text())["packed"]


def test_golden_headers_and_labels():
    with recordio.MXRecordIO(DATA / "packed.rec", "r") as record:
        for _, label, identity, id2 in TRUTH:
            header, payload = recordio.unpack(record.read())
            assert header.flag == (len(label) if isinstance(label, list) else 0)
            assert np.array_equal(header.label, label)
            assert (header.id, header.id2) == (identity, id2)
            assert payload == b"payload-%d" % identity
        assert record.read() is None


def test_packing_gives_the_golden_bytes(tmp_path):
    with recordio.MXRecordIO(tmp_path / "packed.rec", "w") as record:
        for flag, label, identity, id2 in TRUTH:
            record.write(recordio.pack(IRHeader(flag, label, identity, id2), b"payload-%d" % identity))
    assert (tmp_path / "packed.rec").read_bytes() == (DATA / "packed.rec").read_bytes()


@settings(deadline=None)
@given(
    labels=st.one_of(
        st.floats(width=32, allow_nan=False),
        st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=5),
    ),
    identity=st.integers(0, 2**64 - 1),
    payload=st.binary(max_size=40),
)
def test_round_trip(labels, identity, payload):
    header, back = recordio.unpack(recordio.pack(IRHeader(0, labels, identity, 1), payload))
    assert np.array_equal(np.asarray(header.label, np.float32), np.asarray(labels, np.float32))
    assert (header.id, header.id2, back) == (identity, 1, payload)


def test_short_records_are_refused():
    with pytest.raises(FileFormatError, match="expected at least 24 bytes of header, got 3"):
        recordio.unpack(b"abc")
    whole = recordio.pack(IRHeader(0, [1.0, 2.0, 3.0], 4, 0), b"")
    with pytest.raises(FileFormatError, match="record 4: expected 36 bytes for 3 labels, got 35"):
        recordio.unpack(whole[:-1])


def test_headers_that_do_not_fit_are_refused():
    with pytest.raises(ArgumentError, match="got -1, 0"):
        recordio.pack(IRHeader(0, 1.0, -1, 0), b"")
    with pytest.raises(ArgumentError, match=r"one axis, got shape \(1, 2\)"):
        recordio.pack(IRHeader(0, [[1, 2]], 0, 0), b"")
