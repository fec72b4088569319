# SPDX-License-Identifier: Apache-2.0
"""Memory between processes: contents, names, and that nothing outlives those who use it."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mx_core import context
from mx_core.errors import ArgumentError, MXNetError, NoKernelError, OutOfMemoryError
from mx_core.testing import SharedStorageContract, StorageContract
from mx_storage import Block, StorageManager, managers, shared


class TestShared(StorageContract):
    context = context.cpu_shared()

    def make_storage(self) -> Any:
        return managers.shared()


class TestSharing(SharedStorageContract):
    def make_storage(self) -> Any:
        return managers.shared()


@pytest.fixture
def manager() -> StorageManager:
    return StorageManager("test", pool="shared")


def numbers(block: Block) -> Any:
    return np.frombuffer(block, np.int32)


def test_both_sides_see_what_either_writes(manager):
    block = manager.alloc(40)
    other = shared.attach(manager, str(shared.name_of(manager, block)))
    numbers(block)[:] = range(10)
    assert numbers(other)[:10].tolist() == list(range(10))
    numbers(other)[3] = -1
    assert numbers(block)[3] == -1
    assert manager.stats().bytes_in_use == 40 + other.nbytes


CHILD = """
import sys
import numpy as np
from mx_storage import StorageManager, shared

manager = StorageManager("child", pool="shared")
if sys.argv[1] == "read":
    block = shared.attach(manager, sys.argv[2])
    view = np.frombuffer(block, np.int32)
    print(view[:3].tolist())
    view[0] = 77
else:
    block = manager.alloc(4096)
    np.frombuffer(block, np.int32)[:] = 5
    print(shared.name_of(manager, block), flush=True)
    sys.stdin.read()
"""


def test_another_process_attaches_by_name(manager):
    block = manager.alloc(4096)
    numbers(block)[:3] = 1, 2, 3
    name = str(shared.name_of(manager, block))
    run = subprocess.run(
        [sys.executable, "-c", CHILD, "read", name], capture_output=True, text=True, timeout=60, check=False
    )
    assert (run.returncode, run.stdout.strip()) == (0, "[1, 2, 3]"), run.stderr
    assert numbers(block)[0] == 77


def holders(inode: int) -> int:
    """Descriptors and mappings of a segment in all processes of this user."""
    found = 0
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ends, or is not ours
            mapped = (line.split(maxsplit=5) for line in (process / "maps").read_text().splitlines())
            found += sum(int(words[4]) == inode and "memfd:mx_storage" in words[-1] for words in mapped)
            for descriptor in (process / "fd").iterdir():
                with contextlib.suppress(OSError):
                    found += (
                        "memfd:mx_storage" in os.readlink(descriptor) and os.stat(descriptor).st_ino == inode
                    )
    return found


def test_memory_outlives_the_process_that_made_it_and_leaves_nothing_behind(manager):
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD, "make"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    name = process.stdout.readline().strip()
    block = shared.attach(manager, name)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert numbers(block)[:3].tolist() == [5, 5, 5]
    with pytest.raises(MXNetError, match="cannot be attached: No such file"):
        shared.attach(manager, name)
    inode = shared.SegmentName.parse(name).inode
    assert holders(inode) > 0
    del block
    assert holders(inode) == 0


def test_a_name_whose_descriptor_is_something_else_now_is_refused(manager):
    block = manager.alloc(100)
    name = shared.name_of(manager, block)
    block.free()
    again = manager.alloc(100)  # takes the descriptor's number
    assert shared.name_of(manager, again).fd == name.fd
    with pytest.raises(MXNetError, match="has freed it"):
        shared.attach(manager, name)


def test_a_forked_child_shares_what_there_was(manager):
    block = manager.alloc(4)
    child = os.fork()
    if child == 0:
        numbers(block)[0] = 9
        os._exit(0)
    os.waitpid(child, 0)
    assert numbers(block)[0] == 9


@pytest.mark.parametrize("name", ["", "1:2:3", "a:b:c:d", "1:2:3:-4", "../etc/passwd"])
def test_a_name_has_one_form(manager, name):
    with pytest.raises(ArgumentError, match="expected a name 'pid:fd:inode:bytes'"):
        shared.attach(manager, name)


def test_what_could_shrink_under_a_reader_is_no_segment(manager, tmp_path):
    with open(tmp_path / "file", "w+b") as file:
        file.truncate(4096)
        with pytest.raises(ArgumentError, match="expected memory shared by a storage manager"):
            manager.attach(file.fileno(), 4096)


def test_a_segment_cannot_be_cut_off(manager):
    block = manager.alloc(4096)
    with pytest.raises(PermissionError):
        os.truncate(manager.segment(block.address).fd, 0)


def test_more_than_a_segment_has_is_refused(manager):
    block = manager.alloc(100)
    with pytest.raises(ArgumentError, match="at least 5000 bytes, got one of 4096"):
        manager.attach(manager.segment(block.address).fd, 5000)
    assert manager.stats().bytes_in_use == 100


def test_other_memory_has_no_name(manager):
    with pytest.raises(ArgumentError, match="not shared between processes"):
        manager.segment(0x1000)
    plain = StorageManager("plain")
    assert plain.shared_capsule is None
    assert plain.sharing_capsule is not None
    assert StorageManager("naive", pool="naive").sharing_capsule is None
    with pytest.raises(NoKernelError, match="has no memory shared"):
        plain.segment(0x1000)
    with pytest.raises(ArgumentError, match="expected cpu_shared"):
        manager.alloc(1, context.cpu())


def test_a_manager_of_other_memory_is_named(manager):
    plain = StorageManager("plain")
    block = plain.alloc(100)
    other = r"storage manager 'plain' has no memory shared between processes; expected one made with pool='shared'"
    with pytest.raises(ArgumentError, match=other):
        shared.name_of(plain, block)
    with pytest.raises(ArgumentError, match=other):
        shared.attach(plain, "1:2:3:4")
    with pytest.raises(ArgumentError, match="not shared between processes"):
        shared.name_of(manager, block)


def test_running_out_of_descriptors_is_said(manager):
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    held = []
    last = max(map(int, os.listdir("/proc/self/fd")))  # other tests may have left some open
    resource.setrlimit(resource.RLIMIT_NOFILE, (last + 32, limits[1]))
    try:
        with pytest.raises(OutOfMemoryError, match="no file descriptor is left"):
            for _ in range(last + 32):
                held.append(manager.alloc(100))
        held.pop().free()
        manager.alloc(100)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert manager.stats().bytes_in_use == 100 * len(held)
