# SPDX-License-Identifier: Apache-2.0
"""A network between two hosts, which are namespaces of this machine: it is cut, and both sides say so."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

#: seconds in which both sides must know
LIMIT = 15.0

#: an ssh that starts the process in the namespace of the second host, or here
SSH = """#!/bin/sh
while [ "$1" = -o ]; do shift 2; done
case "$1" in
*.2) exec ip netns exec {space} unshare --uts sh -c 'hostname "$0" && exec sh -s' "$1" ;;
*) exec unshare --uts sh -c 'hostname "$0" && exec sh -s' "$1" ;;
esac
"""

LOOP = """
import os, time
import mx
store = mx.kv.create("dist_sync")
store.init("a", mx.nd.zeros((200_000,)))
out = mx.nd.zeros((200_000,))
print("pid", os.getpid(), "of", store.rank, flush=True)
try:
    while True:
        store.pushpull("a", mx.nd.ones((200_000,)), out=out)
        out.wait_to_read()
        time.sleep(PAUSE)
except mx.MXNetError as error:
    with open(f"{__file__}.{store.rank}", "w") as file:
        file.write(f"{time.time()} {type(error).__name__} {error}")
    raise
"""


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture
def link() -> Iterator[tuple[str, str]]:
    """The namespace of the second host, and the name of the link on both sides."""
    space, link = f"mxkv{os.getpid()}", f"mxkv{os.getpid() % 10_000}"
    try:
        ip("netns", "add", space)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"namespaces of networks cannot be made here: {error}")
    try:
        ip("link", "add", link, "type", "veth", "peer", "name", link, "netns", space)
        ip("addr", "add", "10.77.0.1/24", "dev", link)
        ip("link", "set", link, "up")
        for words in (
            ("addr", "add", "10.77.0.2/24", "dev", link),
            ("link", "set", link, "up"),
            ("link", "set", "lo", "up"),
        ):
            ip("-n", space, *words)
        yield space, link
    finally:
        pids = subprocess.run(["ip", "netns", "pids", space], capture_output=True, text=True).stdout.split()
        for pid in pids:
            os.kill(int(pid), 9)
        subprocess.run(["ip", "link", "del", link], capture_output=True)
        ip("netns", "del", space)


@pytest.mark.slow
@pytest.mark.parametrize("pause", [0.0, 0.5])
def test_a_cut_network_is_told_on_both_sides(
    start: Any, link: tuple[str, str], tmp_path: Path, pause: float
) -> None:
    space, name = link
    ssh = tmp_path / "bin" / "ssh"
    ssh.parent.mkdir()
    ssh.write_text(SSH.format(space=space))
    ssh.chmod(0o755)
    told = {"PATH": f"{ssh.parent}:{os.environ['PATH']}"}
    options = ("-H", "10.77.0.1,10.77.0.2", "--env", f"UCX_NET_DEVICES={name}")
    job = start(f"PAUSE = {pause}\n{LOOP}", 2, *options, **told)
    job.wait_for(r"pid (\d+) of (\d)", 2)
    time.sleep(1.0)
    ip("link", "set", name, "down")
    cut = time.time()
    assert job.wait(60) != 0, job.text
    for rank, words in (
        (0, "worker 1 .* no sign of life"),
        (1, "launcher of the job broke: .*timed out|lost|broke"),
    ):
        file = tmp_path / f"program0.py.{rank}"
        limit = cut + 2 * LIMIT
        while not file.exists() and time.time() < limit:
            time.sleep(0.1)
        at, kind, message = file.read_text().split(" ", 2)
        assert float(at) - cut < LIMIT, message
        assert kind == "PeerLostError" and re.search(words, message), message
