# SPDX-License-Identifier: Apache-2.0
import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from mx_core.errors import FileError, FileFormatError, MissingFileError
from mx_core.files import atomic_group, atomic_write, naming, read_bytes


def test_replaces_the_file_and_keeps_its_permissions(tmp_path: Path) -> None:
    target = tmp_path / "a.bin"
    target.write_bytes(b"old")
    target.chmod(0o640)
    with atomic_write(target) as file:
        file.write(b"new")
        assert target.read_bytes() == b"old"
    assert target.read_bytes() == b"new"
    assert target.stat().st_mode & 0o777 == 0o640
    assert os.listdir(tmp_path) == ["a.bin"]


def test_new_files_have_the_permissions_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    with atomic_write(tmp_path / "a.txt", "w", encoding="utf-8") as file:
        file.write("é")
    assert (tmp_path / "a.txt").stat().st_mode == (tmp_path / "plain").stat().st_mode
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "é"


def test_a_failure_leaves_everything_as_it_was(tmp_path: Path) -> None:
    target = tmp_path / "a.bin"
    target.write_bytes(b"old")
    with pytest.raises(ZeroDivisionError), atomic_write(target) as file:
        file.write(b"half")
        raise ZeroDivisionError
    assert target.read_bytes() == b"old" and os.listdir(tmp_path) == ["a.bin"]


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), atomic_write(tmp_path / "no" / "a.bin"):
        pass


KILLED = """
import os, signal, sys
from mx_core.files import atomic_write
with atomic_write(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_left_goes_with_the_next_save(tmp_path: Path) -> None:
    target = tmp_path / "weights.bin"
    subprocess.run([sys.executable, "-c", KILLED, str(target)], check=False, timeout=60)
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".weights.bin.")
    foreign = tmp_path / f".weights.bin.{'0' * 24}.partial"  # of another machine: locks may not be seen
    others = [".weights.bin.mine", ".weights.bin.b.abcdefgh.partial", ".weights.abcdefgh.partial"]
    for name in [*others, foreign.name]:
        (tmp_path / name).write_bytes(b"kept")
    with atomic_write(tmp_path / "another.bin") as file:
        file.write(b"1")
    assert not left.exists() and foreign.exists()
    os.utime(foreign, (0, 0))
    with atomic_write(target) as file:
        file.write(b"2")
    expected = sorted([*others, "another.bin", "weights.bin"])
    assert sorted(p.name for p in tmp_path.iterdir()) == expected


def test_a_draft_is_neither_foreseeable_nor_open_to_more_than_its_target(tmp_path: Path) -> None:
    target = tmp_path / "a.bin"
    target.write_bytes(b"old")
    target.chmod(0o600)
    seen = set()
    for _ in range(3):
        with atomic_write(target):
            (draft,) = set(tmp_path.iterdir()) - {target}
            seen.add(draft.name)
            assert draft.stat().st_mode & 0o777 == 0o600
    assert len(seen) == 3


def test_the_process_mask_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "umask", lambda mask: pytest.fail("other threads make files meanwhile"))
    with atomic_write(tmp_path / "a.bin") as file:
        file.write(b"1")


def test_a_link_stays_and_its_target_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("folder/real")
    (tmp_path / "dangling").symlink_to("folder/new")
    for name, real in (("link", "real"), ("dangling", "new")):
        with atomic_write(tmp_path / name) as file:
            file.write(b"new")
        assert (tmp_path / name).is_symlink()
        assert (tmp_path / "folder" / real).read_bytes() == b"new"


def test_devices_are_written_through(tmp_path: Path) -> None:
    (tmp_path / "null").symlink_to("/dev/null")
    for path in (tmp_path / "null", Path("/dev/null")):
        with atomic_write(path) as file:
            file.write(b"1")
    assert Path("/dev/null").is_char_device() and (tmp_path / "null").is_symlink()


def test_a_fifo_is_written_through(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(bytes(read_bytes(fifo))))
    reader.start()
    with atomic_write(fifo) as file:
        file.write(b"1" * 100_000)
    reader.join(30)
    assert got == [b"1" * 100_000] and fifo.is_fifo()


def test_a_pipe_behind_standard_output_is_written_through() -> None:
    program = "from mx_core.files import atomic_write\nwith atomic_write('/dev/stdout') as f: f.write(b'1')"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, timeout=60)
    assert done.stdout == b"1"


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError), atomic_write(tmp_path):
        pass


def test_concurrent_saves_to_one_name_succeed(tmp_path: Path) -> None:
    target = tmp_path / "a.bin"
    failures: list[BaseException] = []

    def work(digit: int) -> None:
        try:
            for _ in range(40):
                with atomic_write(target) as file:
                    file.write(b"%d" % digit * 1000)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(digit,)) for digit in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and os.listdir(tmp_path) == ["a.bin"]
    assert len(target.read_bytes()) == 1000 and len(set(target.read_bytes())) == 1


def test_a_long_name_and_one_with_odd_characters(tmp_path: Path) -> None:
    for name in ("é" * 127, "a" * 255, "new\nline", "b[*]?"):
        with atomic_write(tmp_path / name) as file:
            file.write(b"1")
        assert (tmp_path / name).read_bytes() == b"1"


FULL = """
import resource, signal, sys
from mx_core.files import atomic_write
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
with atomic_write(sys.argv[1]) as file:
    file.write(b"1" * 200_000)
"""


def test_a_full_disk_names_the_file(tmp_path: Path) -> None:
    target = tmp_path / "weights.bin"
    command = [sys.executable, "-c", FULL, str(target)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert f"FileError: [Errno 27] File too large: '{target}'" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_group_is_replaced_together(tmp_path: Path) -> None:
    records, index = tmp_path / "a.rec", tmp_path / "a.idx"
    for text in (b"1", b"2"):
        with atomic_group(records, index) as drafts:
            for draft in drafts:
                draft.write_bytes(text)
        assert records.read_bytes() == index.read_bytes() == text
    with pytest.raises(ZeroDivisionError), atomic_group(records, index) as drafts:
        drafts[0].write_bytes(b"3")
        raise ZeroDivisionError
    assert records.read_bytes() == index.read_bytes() == b"2"
    assert sorted(os.listdir(tmp_path)) == ["a.idx", "a.rec"]


KILLED_IN_GROUP = """
import os, sys
from mx_core.files import atomic_group
calls, left = ("replace", "unlink", "fsync"), int(sys.argv[1])
def counted(function):
    def call(*arguments, **options):
        global left
        if left == 0:
            os._exit(9)
        left -= 1
        return function(*arguments, **options)
    return call
with atomic_group("a.rec", "a.idx") as drafts:
    for draft in drafts:
        draft.write_bytes(b"new")
    for name in calls:
        setattr(os, name, counted(getattr(os, name)))
"""


def test_a_group_is_never_a_mixture_whenever_it_is_killed(tmp_path: Path) -> None:
    seen = set()
    for step in range(30):
        for name in ("a.rec", "a.idx"):
            (tmp_path / name).write_bytes(b"old")
        command = [sys.executable, "-c", KILLED_IN_GROUP, str(step)]
        ended = subprocess.run(command, check=False, cwd=tmp_path, timeout=60).returncode
        there = tmp_path / "a.idx"
        index = there.read_bytes() if there.exists() else None
        seen.add(((tmp_path / "a.rec").read_bytes(), index))
        if ended == 0:
            break
    assert ended == 0
    assert seen == {(b"old", b"old"), (b"old", None), (b"new", None), (b"new", b"new")}
    assert sorted(os.listdir(tmp_path)) == ["a.idx", "a.rec"]  # the last one removed the drafts of the killed


INTERRUPTED = """
import os, signal, sys, threading, time
from mx_core.files import atomic_write, read_bytes
data = bytes(400 << 20)
def interrupt():
    global sent
    sent = time.monotonic()
    os.kill(os.getpid(), signal.SIGINT)
def late(action, delay):
    timer = threading.Timer(delay, interrupt)
    timer.start()
    try:
        action()
        timer.cancel()  # a fast disk was done before
        timer.join()
    except KeyboardInterrupt:
        return time.monotonic() - sent
    return 0.0
def save():
    with atomic_write("a.bin") as file:
        file.write(data)
times = [late(save, 0.02), late(save, 0.1), late(save, 0.3)]
with open("b.bin", "wb") as file:
    file.write(data)
times += [late(lambda: read_bytes("b.bin"), 0.02), late(lambda: read_bytes("b.bin"), 0.06)]
print(max(times))
time.sleep(0.5)
print(os.listdir())
"""


@pytest.mark.slow
def test_ctrl_c_does_not_wait_for_a_large_file(tmp_path: Path) -> None:
    command = [sys.executable, "-c", INTERRUPTED]
    done = subprocess.run(command, check=True, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    longest, left = done.stdout.splitlines()
    assert float(longest) < 0.2 and left in ("['b.bin']", "['a.bin', 'b.bin']", "['b.bin', 'a.bin']")


def test_a_slow_save_is_not_disturbed_by_another_one(tmp_path: Path) -> None:
    target = tmp_path / "weights.bin"
    with atomic_write(target) as slow:
        slow.write(b"slow")
        slow.flush()
        os.utime(slow.fileno(), (0, 0))
        with atomic_write(target) as quick:
            quick.write(b"quick")
        assert target.read_bytes() == b"quick"
    assert target.read_bytes() == b"slow"
    assert [p.name for p in tmp_path.iterdir()] == ["weights.bin"]


def test_an_error_with_words_of_its_own_keeps_them():
    for error in (MissingFileError("nothing is fetched"), FileError("neither"), FileFormatError("no header")):
        with pytest.raises(type(error)) as caught, naming("/some/file"):
            raise error
        assert caught.value is error


@pytest.mark.parametrize(
    ("number", "kind"),
    [(errno.EPIPE, BrokenPipeError), (errno.EEXIST, FileExistsError), (errno.ENOENT, FileNotFoundError)],
)
def test_errors_of_the_system_are_of_their_kind(number, kind):
    with pytest.raises(FileError, match="/some/file") as caught, naming("/some/file"):
        raise OSError(number, "told", "/some/.draft")
    assert isinstance(caught.value, kind)


def test_a_pipe_that_nobody_reads(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(BrokenPipeError, match="fifo") as caught, atomic_write(fifo) as file:
        os.close(reader)
        file.write(b"lost")
    assert isinstance(caught.value, FileError)
