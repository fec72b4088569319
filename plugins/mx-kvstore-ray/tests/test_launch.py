# SPDX-License-Identifier: Apache-2.0
"""Jobs from their start to their end: what they print, where they listen, and that nothing of them stays."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from click.testing import CliRunner

pytest.importorskip("mx_kvstore_ray", reason="mx-kvstore-ray is not installed")

from mx_core.errors import SettingError
from mx_kvstore.processes import Stops
from mx_kvstore_ray import cluster, settings
from mx_kvstore_ray.cluster import _OWN
from mx_kvstore_ray.errors import NoJobError
from mx_kvstore_ray.launch import launch
from mx_kvstore_ray.parts import Part, parts
from mx_kvstore_ray.settings import Place

README = Path(__file__).parents[1] / "README.md"


def test_the_example_of_the_readme(start: Any) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.S)
    (program,) = re.findall(r'program = """\n(.*?)"""', block, re.S)
    (promised,) = re.findall(r"^print\(.*\)  # (.+)$", block, re.M)
    job = start(program, 2, "-s", "1")
    assert job.wait() == 0, job.text
    assert promised in job.text
    assert job.text.count("[3. 3. 3.]") == 2
    job.check_nothing_is_left()


def test_the_launcher_needs_no_numpy_until_it_starts_servers() -> None:
    """Also of jobs of other engines, whose command asks for the options of this one."""
    program = "import sys, mx_kvstore_ray.launch; assert not {'numpy', 'mx_ndarray'} & set(sys.modules), sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


LOOP = """
import os, subprocess, time
import mx
store = mx.kv.create("dist_sync")
store.init("w", mx.nd.zeros((400_000,)))
out = mx.nd.zeros((400_000,))
child = subprocess.Popen(["sleep", "300"])
print("pids", os.getpid(), child.pid, flush=True)
while True:
    store.pushpull("w", mx.nd.ones((400_000,)), out=out)
    out.wait_to_read()
"""


def listening(pids: set[int]) -> list[str]:
    """Addresses, in hexadecimal, at which processes listen."""
    inodes = set()
    for pid in pids:
        for descriptor in Path(f"/proc/{pid}/fd").glob("*"):
            try:
                inodes |= set(re.findall(r"socket:\[(\d+)\]", os.readlink(descriptor)))
            except OSError:
                continue
    found = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                found.append(fields[1].partition(":")[0])
    return found


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_nothing_listens_beyond_this_machine_and_ctrl_c_ends_all(start: Any) -> None:
    job = start(LOOP, 2)
    job.wait_for(r"pids (\d+ \d+)", 2)
    found = listening(job.pids())
    assert len(found) > 2
    loopback = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}
    assert set(found) <= loopback, found
    workers = {int(pid) for pair in re.findall(r"pids (\d+) \d+", job.text) for pid in pair.split()}
    levels = {os.getpriority(os.PRIO_PROCESS, pid) for pid in {*job.servers(), *workers}}
    assert len(levels) == 1, "a server has less of the processor than workers"
    job.process.send_signal(signal.SIGINT)
    assert job.wait() == 128 + signal.SIGINT, job.text
    assert "stopped by SIGINT" in job.text
    job.check_nothing_is_left()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_nothing_outlives_a_launcher_that_is_killed(start: Any) -> None:
    job = start(LOOP, 2)
    job.wait_for(r"pids (\d+ \d+)", 2)
    job.process.kill()
    job.wait()
    job.check_nothing_is_left()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_exit_status_is_that_of_the_first_that_failed(start: Any) -> None:
    program = "import sys, mx; store = mx.kv.create('dist_sync'); store.barrier(); sys.exit(3 * store.rank)"
    job = start(program, 2, "--grace", "5")
    assert job.wait() == 3, job.text
    assert re.search(r"mx launch: worker 1 \(process \d+\) has ended with exit status 3", job.text)
    job.check_nothing_is_left()


class Broken:
    """A Ray that does not start."""

    @staticmethod
    def init(**told: Any) -> None:
        raise Exception("The current node timed out during startup.")


@pytest.mark.parametrize("where", ["here", "there", "nowhere"])
def test_a_ray_that_does_not_start_is_told_and_leaves_no_files(
    where: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    address = f"127.0.0.1:{listener.getsockname()[1]}"
    if where == "nowhere":
        listener.close()
    monkeypatch.setitem(sys.modules, "ray", Broken)
    monkeypatch.setattr(tempfile, "mkdtemp", lambda prefix, dir: made(dir or tmp_path))
    for name in ("RAY_AUTH_TOKEN_PATH", *_OWN):
        monkeypatch.setenv(name, "")  # the launcher sets them
    folders: list[Path] = []

    def made(parent: str | Path) -> str:
        folders.append(tmp_path / f"{len(folders)}-{Path(parent).name}")
        folders[-1].mkdir()
        return str(folders[-1])

    words = () if where == "here" else ("--address", address)
    done = CliRunner().invoke(launch, ["-n", "1", *words, "true"])
    listener.close()
    said = {
        "here": "Ray did not start on this machine: Exception: The current node timed out",
        "there": f"Ray cannot be reached at {address}: Exception: ",
        "nowhere": f"Ray cannot be reached at {address}: ConnectionRefusedError: ",
    }
    assert done.exit_code == 1 and f"mx launch: {said[where]}" in done.output, done.output
    begin = f"connecting to Ray at {address}" if words else "starting Ray"
    assert done.output.startswith(f"mx launch: {begin}…\n"), done.output
    assert folders and not any(folder.exists() for folder in folders)


class Slow:
    """A Ray that starts when it is asked for the third time, with the same token: its library reads it once."""

    tokens: ClassVar[list[str]] = []
    starts: ClassVar[list[str]] = []

    @classmethod
    def init(cls, **told: Any) -> None:
        cls.starts.append(told["_temp_dir"])
        cls.tokens.append(Path(os.environ["RAY_AUTH_TOKEN_PATH"]).read_text())
        if len(cls.starts) < 3:
            raise Exception("The current node timed out during startup.")

    @staticmethod
    def get_runtime_context() -> Any:
        return SimpleNamespace(gcs_address="127.0.0.1:1")

    @staticmethod
    def shutdown() -> None: ...


def test_a_start_that_a_slow_machine_makes_fail_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", Slow)
    monkeypatch.setattr(cluster, "_SLOW", 0.0)
    for name in ("RAY_AUTH_TOKEN_PATH", *_OWN):
        monkeypatch.setenv(name, "")
    found = cluster.Cluster(None, "job", 1, None, Stops())
    assert len(set(Slow.starts)) == 3 and len(set(Slow.tokens)) == 1
    assert [os.path.exists(folder) for folder in Slow.starts] == [False, False, True]
    assert found.address == "127.0.0.1:1"
    found.close()
    assert not os.path.exists(Slow.starts[2]) and not os.path.exists(found.folder)


class Gone(Exception):
    """What Ray raises when an actor cannot be made."""


class Empty(Slow):
    """A Ray whose actors cannot be made."""

    exceptions = SimpleNamespace(
        RayActorError=Gone,
        ObjectLostError=Gone,
        WorkerCrashedError=Gone,
        NodeDiedError=Gone,
        GetTimeoutError=TimeoutError,
    )

    @staticmethod
    def init(**told: Any) -> None: ...

    @staticmethod
    def remote(actor: type) -> Any:
        handle = SimpleNamespace(answer=SimpleNamespace(remote=lambda *what: "answer"))
        return SimpleNamespace(options=lambda **told: SimpleNamespace(remote=lambda *what: handle))

    @staticmethod
    def wait(answers: list[str], timeout: float) -> tuple[list[str], list[str]]:
        return answers, []

    @staticmethod
    def get(answer: str) -> None:
        raise Gone(
            "The actor died because of an error raised in its creation task, ray::server-0\n  File x\nOSError: full\n"
        )


def test_a_server_that_does_not_start_is_told_with_its_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", Empty)
    for name in ("RAY_AUTH_TOKEN_PATH", *_OWN):
        monkeypatch.setenv(name, "")
    done = CliRunner().invoke(launch, ["-n", "1", "true"])
    assert done.exit_code == 1 and "mx launch: server 0 does not start: OSError: full\n" in done.output, (
        done.output
    )


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("train.py", "it may not be executed; for Python it is: python {}"),
        ("train.sh", "it may not be executed"),
        ("nowhere.sh", "there is no such command"),
    ],
)
def test_what_cannot_be_started_is_told_before_ray_starts(tmp_path: Path, name: str, what: str) -> None:
    program = tmp_path / name
    if name.startswith("train"):
        program.write_text("")
    done = CliRunner().invoke(launch, ["-n", "1", str(program), "--epochs", "3"])
    said = f"mx launch: cannot start {program} --epochs 3: {what.format(program)}\n"
    assert done.exit_code == 127 and done.output == said


@pytest.mark.parametrize("address", ["somewhere", "host:port", ":6379"])
def test_addresses_have_a_host_and_a_port(address: str) -> None:
    done = CliRunner().invoke(launch, ["-n", "1", "--address", address, "true"])
    assert done.exit_code == 2 and f"expected host:port, got {address!r}" in done.output, done.output


class Ended:
    """A Ray that gets SIGTERM while it starts, for which it has set a handler of its own."""

    @staticmethod
    def init(**told: Any) -> None:
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(number))
        signal.raise_signal(signal.SIGTERM)  # to this thread, whatever others there are
        time.sleep(10.0)


def test_a_termination_while_ray_starts_is_told_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", Ended)
    for name in ("RAY_AUTH_TOKEN_PATH", *_OWN):
        monkeypatch.setenv(name, "")
    before = signal.getsignal(signal.SIGTERM)
    done = CliRunner().invoke(launch, ["-n", "1", "true"])
    assert done.exit_code == 128 + signal.SIGTERM and "stopped by SIGTERM" in done.output, done.output
    assert signal.getsignal(signal.SIGTERM) is before


class Interrupted:
    """A Ray whose native code makes an error of its own of what a handler raises."""

    @staticmethod
    def init(**told: Any) -> None:
        try:
            signal.raise_signal(signal.SIGINT)
            time.sleep(10.0)
        except BaseException as error:
            raise SystemError("returned a result with an exception set") from error


def test_ctrl_c_inside_native_code_of_ray_is_told_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", Interrupted)
    for name in ("RAY_AUTH_TOKEN_PATH", *_OWN):
        monkeypatch.setenv(name, "")
    before = signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # who runs the tests may have it ignored
    try:
        done = CliRunner().invoke(launch, ["-n", "1", "true"])
    finally:
        signal.signal(signal.SIGINT, before)
    assert done.exit_code == 128 + signal.SIGINT and "stopped by SIGINT" in done.output, done.output


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seconds", [1.0, 3.0])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_ray_starts_ends_all(start: Any, seconds: float, number: signal.Signals) -> None:
    job = start(LOOP, 2)
    limit = time.monotonic() + 60.0
    while not job.pids() - {job.process.pid} and time.monotonic() < limit:
        time.sleep(0.05)
    time.sleep(seconds)
    job.see_folders()
    job.process.send_signal(number)
    assert job.wait() == 128 + number, job.text
    assert f"stopped by {number.name}" in job.text and "pids" not in job.text
    job.check_nothing_is_left()


# ---- settings ----


def test_every_variable_that_is_read_is_stated() -> None:
    read: set[str] = set()
    for path in Path(settings.__file__).parent.glob("*.py"):
        read |= set(re.findall(r'"(MX(?:NET)?_[A-Z0-9_]*[A-Z0-9])"', path.read_text()))
    assert read - {"MX_PLUGIN", "MX_HOOK_API", "MX_KVSTORE_ENGINE"} == set(settings.VARIABLES)


def test_a_place_is_told_by_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MX_KV_RAY_ADDRESS", raising=False)
    with pytest.raises(NoJobError, match="mx launch -n 2 -s 1 --engine ray"):
        settings.place()
    place = Place("127.0.0.1:1", "job", 1, 2, 3, 4)
    for name, value in place.variables().items():
        monkeypatch.setenv(name, value)
    assert settings.place() == place
    monkeypatch.setenv("MX_KV_RAY_RANK", "3")
    with pytest.raises(SettingError, match="MX_KV_RAY_RANK.*less than MX_KV_RAY_WORKERS 3, got 3"):
        settings.place()
    monkeypatch.setenv("MX_KV_RAY_RANK", "1.5")
    with pytest.raises(SettingError, match="whole number, got '1.5'"):
        settings.place()


def test_a_policy_is_one_of_three(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MX_KVSTORE_RAY_ON_LOSS", raising=False)
    assert settings.on_loss() == "stop"
    monkeypatch.setenv("MX_KVSTORE_RAY_ON_LOSS", "Restart")
    assert settings.on_loss() == "restart"
    monkeypatch.setenv("MX_KVSTORE_RAY_ON_LOSS", "panic")
    with pytest.raises(SettingError, match="stop, continue, restart, got 'panic'"):
        settings.on_loss()


def test_parts_of_values() -> None:
    assert parts(5, 999, 4, 1000) == [Part(5 * 9973 % 4, 0, 999)]
    assert parts(5, 10**9, 1, 1000) == [Part(0, 0, 10**9)]
    for size in (1000, 1001, 1003, 123457):
        found = parts(0, size, 3, 1000)
        assert [part.server for part in found] == [0, 1, 2]
        assert found[0].begin == 0 and found[-1].end == size
        assert all(one.end == other.begin for one, other in zip(found, found[1:]))
        assert (
            max(part.end - part.begin for part in found) - min(part.end - part.begin for part in found) <= 1
        )
