# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C at each place of a save where Python looks for signals: nothing is left behind, and it is Ctrl-C that is raised.

A trace function raises KeyboardInterrupt at the n-th of these places in the code of drafts and files: after a call, at
the beginning of a function, and at the end of a loop's round.
"""

from __future__ import annotations

import dis
import functools
import gc
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

from mx_core import certain, drafts, files
from mx_core.files import atomic_group, atomic_write

_TRACED = {module.__file__ for module in (certain, drafts, files)}


@functools.cache
def _places(code: CodeType) -> frozenset[int]:
    """Offsets of instructions before which the interpreter looks for signals."""
    found, last = set(), ""
    for instruction in dis.get_instructions(code):
        if last.startswith(("CALL", "JUMP_BACKWARD", "RESUME")):
            found.add(instruction.offset)
        last = "" if instruction.opname in ("CACHE", "PRECALL") else instruction.opname
    return frozenset(found)


class Interrupt:
    """Raises KeyboardInterrupt at the n-th place of the main thread.

    Threads: one at a time.
    """

    def __init__(self, number: int) -> None:
        self.left = number

    def __call__(self, frame: FrameType, event: str, value: Any) -> Any:
        if frame.f_code.co_filename not in _TRACED:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode" and frame.f_lasti in _places(frame.f_code):
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self


def _interrupted(action: Callable[[], None], number: int) -> BaseException | None:
    """What an action raises that is interrupted at a place; None when it has fewer."""
    interrupt = Interrupt(number)
    sys._getframe().f_trace_opcodes = True  # CPython 3.12 gives them if a frame wanted them before
    sys.settrace(interrupt)
    try:
        action()
    except BaseException as error:
        sys.settrace(None)
        return error.with_traceback(None)
    finally:
        sys.settrace(None)
    assert interrupt.left > 0, "the interrupt was swallowed"
    return None


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def _settled(folder: Path, descriptors: int) -> None:
    """Waits for calls that an interrupt has left alone."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        left = [name for name in os.listdir(folder) if name.endswith(".partial")]
        if not left and _descriptors() == descriptors:
            return
        time.sleep(0.001)


def _save(folder: Path) -> None:
    with atomic_write(folder / "a.rec") as file:
        file.write(b"new")


def _save_text(folder: Path) -> None:
    with atomic_write(folder / "a.rec", "w", encoding="utf-8") as file:
        file.write("new")


def _save_group(folder: Path) -> None:
    with atomic_group(folder / "a.rec", folder / "a.idx") as (records, index):
        records.write_bytes(b"new")
        index.write_bytes(b"new")


@pytest.mark.timeout(120)
@pytest.mark.parametrize("save", [_save, _save_text, _save_group])
def test_ctrl_c_anywhere_in_a_save_leaves_nothing_behind(
    save: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda handle: None)  # hundreds of them take long
    (tmp_path / "a.rec").write_bytes(b"old")
    save(tmp_path)  # what is made once is made
    expected = [{"a.rec"}, {"a.rec", "a.idx"}]
    gc.collect()  # files of earlier tests, which would be closed meanwhile
    before = _descriptors()
    number = 0
    while True:
        number += 1
        (tmp_path / "a.rec").write_bytes(b"old")
        error = _interrupted(lambda: save(tmp_path), number)
        if error is None:
            break
        _settled(tmp_path, before)
        assert type(error) is KeyboardInterrupt, (number, error)
        assert set(os.listdir(tmp_path)) in expected, (number, os.listdir(tmp_path))
        assert (tmp_path / "a.rec").read_bytes() in (b"old", b"new")
        assert _descriptors() == before, number
    assert number > 50
