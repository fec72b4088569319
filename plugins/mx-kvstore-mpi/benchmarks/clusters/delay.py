# SPDX-License-Identifier: Apache-2.0
"""A long and bad way between two network devices of this machine, for kernels without netem: through a process.

`python delay.py ONE OTHER SECONDS LOSS` carries what comes at one device to the other, in both directions, each packet
after so many seconds, in its order, but for a share of them, from 0 to 1, which is lost: at random, the same in every
run. It ends with the process that started it.
"""

from __future__ import annotations

import contextlib
import os
import random
import select
import socket
import sys
import time
from collections import deque

#: all protocols, in network order
_ALL = socket.ntohs(0x0003)
#: packets that are taken from a device before those that are due are sent; bytes that may wait in the kernel
_BURST, _ROOM = 64, 1 << 24


def _opened(device: str) -> socket.socket:
    found = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, _ALL)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _ROOM)
    found.bind((device, 0))
    found.setblocking(False)
    return found


def carry(one: str, other: str, seconds: float, loss: float) -> None:
    """Carries packets until the process's parent has ended. Needs root."""
    chance = random.Random(1)
    ends = [_opened(one), _opened(other)]
    parent = os.getppid()
    line: deque[tuple[float, socket.socket, bytes]] = deque()
    while os.getppid() == parent:
        wait = max(0.0, line[0][0] - time.monotonic()) if line else 1.0
        ready, _, _ = select.select(ends, [], [], wait)
        for end in ready:
            with contextlib.suppress(OSError):  # there is nothing more, or the device is down
                for _ in range(_BURST):
                    data, where = end.recvfrom(1 << 16)
                    if where[2] != socket.PACKET_OUTGOING and chance.random() >= loss:
                        line.append((time.monotonic() + seconds, ends[end is ends[0]], data))
        while line and line[0][0] <= time.monotonic():
            _, end, data = line.popleft()
            with contextlib.suppress(OSError):  # a packet is lost, as networks lose them
                end.send(data)


if __name__ == "__main__":
    carry(sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4]))
