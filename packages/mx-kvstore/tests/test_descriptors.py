# SPDX-License-Identifier: Apache-2.0
"""Files of processes by their descriptors."""

from __future__ import annotations

import os

from mx_kvstore.descriptors import opened


def test_a_file_is_opened_by_the_descriptor_of_its_process() -> None:
    theirs = os.memfd_create("test")
    os.write(theirs, b"known")
    mine = opened(os.getpid(), theirs, os.O_RDONLY, lambda file: os.pread(file, 5, 0) == b"known")
    assert mine not in (-1, theirs)
    assert os.fstat(mine).st_ino == os.fstat(theirs).st_ino
    assert not os.get_inheritable(mine)
    os.close(mine)
    os.close(theirs)


def test_another_file_and_none_are_told() -> None:
    def fails(file: int) -> bool:
        raise OSError(file)

    theirs = os.memfd_create("test")
    before = len(os.listdir("/proc/self/fd"))
    assert opened(os.getpid(), theirs, os.O_RDONLY, lambda file: False) == -1
    assert opened(os.getpid(), theirs, os.O_RDONLY, fails) == -1
    assert len(os.listdir("/proc/self/fd")) == before
    os.close(theirs)
    assert opened(os.getpid(), theirs, os.O_RDONLY, lambda file: True) == -1
    assert opened(0, 0, os.O_RDONLY, lambda file: True) == -1
