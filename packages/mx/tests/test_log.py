# SPDX-License-Identifier: Apache-2.0
import logging
import re
import sys
from pathlib import Path

import pytest

import mx


@pytest.mark.parametrize(
    ("level", "letter", "colour"),
    [(10, "D", 34), (20, "I", 32), (30, "W", 31), (40, "E", 31), (50, "C", 31), (35, "U", 31)],
)
def test_lines_begin_with_level_time_process_and_place(level: int, letter: str, colour: int) -> None:
    logger = mx.log.get_logger(f"lines of {level}", level=mx.log.DEBUG)
    (handler,) = logger.handlers
    record = logging.LogRecord("name", level, "/a/b/f.py", 7, "message %d", (3,), None, "function")
    head = rf"\x1b\[{colour}m{letter}\d{{4}} \d\d:\d\d:\d\d \d+ /a/b/f.py:function:7\]\x1b\[0m message 3"
    assert re.fullmatch(head, handler.format(record))


def test_a_logger_is_made_once() -> None:
    logger = mx.log.get_logger("made once", level=mx.log.INFO)
    assert mx.log.get_logger("made once", level=mx.log.ERROR) is logger
    assert (logger.level, len(logger.handlers)) == (mx.log.INFO, 1)
    assert isinstance(logger.handlers[0], logging.StreamHandler)
    assert logger.handlers[0].stream is sys.stderr


def test_files_get_messages_without_head(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("before\n")
    logger = mx.log.get_logger(f"file {path}", path, level=mx.log.DEBUG)
    logger.debug("one")
    logger.error("two")
    assert path.read_text() == "before\none\ntwo\n"


def test_the_root_logger_stays_as_it_is() -> None:
    before = list(logging.getLogger().handlers)
    assert mx.log.get_logger() is logging.getLogger()
    assert logging.getLogger().handlers == before


def test_the_former_name_warns() -> None:
    with pytest.warns(DeprecationWarning, match="use log.get_logger"):
        assert mx.log.getLogger("former") is logging.getLogger("former")
