# SPDX-License-Identifier: Apache-2.0
"""Messages between workers and servers: what is sent is what is received, and what is none is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded_peers import Inbox, Recorder

from mx_kvstore.storage import CSR, DEFAULT, ROW_SPARSE
from mx_kvstore_mpi.errors import ProtocolError
from mx_kvstore_mpi.messages import Command, Head, receive, send

_WHOLE = st.integers(0, 2**62)
_HEADS = st.builds(
    Head, st.sampled_from(Command), _WHOLE, st.integers(-(2**31), 2**31 - 1), _WHOLE, _WHOLE,
    st.sampled_from((DEFAULT, ROW_SPARSE, CSR)),
)  # fmt: skip
_TEXTS = st.none() | st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=3)


@given(
    head=_HEADS, text=_TEXTS, data=st.binary(max_size=80), rows=st.lists(st.integers(0, 2**62), max_size=9)
)
def test_what_is_sent_is_received(head: Head, text: Any, data: bytes, rows: list[int]) -> None:
    worker, server = Recorder(), Inbox()
    indices = np.array(rows, np.int64)
    send(worker, 2, head, text, np.frombuffer(data, np.uint8), indices)
    server.put(0, worker.sent)
    asked = []

    def room(found: Head, said: Any) -> Any:
        asked.append((found, said))
        return np.empty(found.data + 3, np.uint8)

    got = receive(server, 0, room)
    assert server.empty and asked == [(got.head, got.text)]
    sizes = {"text": got.head.text, "indices": 8 * len(rows), "data": len(data)}
    assert got.head == head._replace(**sizes) and got.text == text
    assert got.data.tobytes() == data and got.indices.tolist() == rows


@pytest.mark.parametrize(
    "numbers",
    [
        [0, 0, 0, 0, 0, 0, 0, 0, 0],
        [99, 0, 0, 0, 0, 0, 0, 0, 0],
        [2, -1, 0, 0, 0, 0, 0, 0, 0],
        [2, 0, 0, -1, 0, 0, 0, 0, 0],
        [2, 0, 0, 0, 0, 3, 0, 0, 0],  # a storage type that is none
        [2, 0, 0, 0, 0, -1, 0, 0, 0],
        [2, 0, 0, 0, 0, 0, 1 << 25, 0, 0],
        [2, 0, 0, 0, 0, 0, 0, 4, 0],  # half an index
        [2, 0, 0, 0, 0, 0, 0, 0, -8],
        [2, 0, 0, 0],
    ],
)
def test_what_is_no_head_is_refused(numbers: list[int]) -> None:
    with pytest.raises(ProtocolError, match="rank 5 sent a message that is none"):
        Head.decoded(np.array(numbers, np.int64), 5)
