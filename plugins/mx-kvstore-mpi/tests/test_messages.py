# SPDX-License-Identifier: Apache-2.0
"""Messages between workers and servers: what is sent is what is received, and what is none is refused."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded_peers import Inbox, Recorder

from mx_kvstore.storage import CSR, DEFAULT, ROW_SPARSE
from mx_kvstore_mpi.errors import ProtocolError
from mx_kvstore_mpi.messages import HEAD, VALUES, Command, Head, encoded, encoded_value, receive, send, values

_WHOLE = st.integers(0, 2**62)
_HEADS = st.builds(
    Head, st.sampled_from(Command), _WHOLE, st.integers(-(2**31), 2**31 - 1), _WHOLE, _WHOLE,
    st.sampled_from((DEFAULT, ROW_SPARSE, CSR)), _WHOLE,
)  # fmt: skip
_TEXTS = st.none() | st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=3)


_MESSAGES = st.tuples(_HEADS, _TEXTS, st.binary(max_size=80), st.lists(st.integers(0, 2**62), max_size=9))


@given(messages=st.lists(_MESSAGES, min_size=1, max_size=4), small=st.integers(0, 90))
def test_what_is_sent_is_received(messages: list[Any], small: int) -> None:
    worker, server = Recorder(), Inbox()
    asked = []

    def room(found: Head, said: Any) -> Any:
        asked.append((found, said))
        return np.empty(found.data + 3, np.uint8)

    with patch("mx_kvstore_mpi.messages._SMALL", small):
        send(worker, 2, HEAD, [
            encoded(head, text, np.frombuffer(data, np.uint8), np.array(rows, np.int64))
            for head, text, data, rows in messages
        ])  # fmt: skip
        server.put(0, worker.sent)
        found = list(receive(server, 0, len(worker.sent[0][1]), room))
    assert server.empty and asked == [(got.head, got.text) for got in found]
    for got, (head, text, data, rows) in zip(found, messages, strict=True):
        sizes = {"text": got.head.text, "indices": 8 * len(rows), "data": len(data)}
        assert got.head == head._replace(**sizes) and got.text == text
        assert got.data.tobytes() == data and got.indices.tolist() == rows


@given(st.lists(st.tuples(_WHOLE, st.binary(max_size=30)), min_size=1, max_size=5))
def test_small_values_are_received_as_they_are_sent(answers: list[tuple[int, bytes]]) -> None:
    worker = Recorder()
    worker.send_values(
        *(encoded_value(number, np.frombuffer(data, np.uint8), True) for number, data in answers)
    )
    found = values(worker, *worker.there(VALUES))
    assert [(number, data.tobytes()) for number, data in found] == answers


def test_a_packet_that_ends_within_a_message_is_refused() -> None:
    worker, server = Recorder(), Inbox()
    send(worker, 2, HEAD, [encoded(Head(Command.PUSH), None, np.ones(20, np.uint8))])
    for size in (79, 80, 88):
        server.put(0, [(HEAD, worker.sent[0][1][:size])])
        with pytest.raises(ProtocolError, match="rank 0 sent a message that is none"):
            list(receive(server, 0, size, lambda head, text: np.empty(head.data, np.uint8)))


@pytest.mark.parametrize(
    "numbers",
    [
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        [99, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        [2, -1, 0, 0, 0, 0, 0, 0, 0, 0],
        [2, 0, 0, -1, 0, 0, 0, 0, 0, 0],
        [2, 0, 0, 0, 0, 3, 0, 0, 0, 0],  # a storage type that is none
        [2, 0, 0, 0, 0, -1, 0, 0, 0, 0],
        [2, 0, 0, 0, 0, 0, 0, 1 << 25, 0, 0],
        [2, 0, 0, 0, 0, 0, 0, 0, 4, 0],  # half an index
        [2, 0, 0, 0, 0, 0, 0, 0, 0, -8],
        [2, 0, 0, 0, 0, 0, -1, 0, 0, 0],
        [2, 0, 0, 0],
    ],
)
def test_what_is_no_head_is_refused(numbers: list[int]) -> None:
    with pytest.raises(ProtocolError, match="rank 5 sent a message that is none"):
        Head.decoded(np.array(numbers, np.int64).view(np.uint8), 0, 5)
