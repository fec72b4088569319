# SPDX-License-Identifier: Apache-2.0
"""What `mx launch` tells the processes, and what it answers to wrong arguments."""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mx_core.errors import SettingError
from mx_kvstore_mpi import settings
from mx_kvstore_mpi.errors import NoJobError
from mx_kvstore_mpi.job import Job
from mx_kvstore_mpi.launch import Plan, _hosts, command_of, launch, variables

MX = (sys.executable, "-m", "mx_core.cli")


def test_processes_know_their_place_by_mx_and_by_mxnet(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = Plan(Job(2, 1), ["python", "train.py"], environment={"A": "b"}, deadline=2.5)
    told = variables(plan, 2, ("127.0.0.1", 7777), "secret")
    assert told["DMLC_ROLE"] == "server" and told["DMLC_SERVER_ID"] == "0" and told["A"] == "b"
    assert told["DMLC_NUM_WORKER"] == "2" and told["DMLC_NUM_SERVER"] == "1"
    assert (told["DMLC_PS_ROOT_URI"], told["DMLC_PS_ROOT_PORT"]) == ("127.0.0.1", "7777")
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    assert settings.place() == settings.Place(("127.0.0.1", 7777), "secret", "server", 0)
    assert settings.timeout() == 2.5
    for name in told:
        if name.startswith("MX_KV_"):
            monkeypatch.delenv(name)
    assert settings.place() == settings.Place(("127.0.0.1", 7777), "", "server", None, 2, 1)


def test_without_a_launcher_there_is_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("MX_KV", "DMLC_", "PMI", "OMPI")):
            monkeypatch.delenv(name)
    with pytest.raises(NoJobError, match="mx launch -n 2 python train.py"):
        settings.place()


@pytest.mark.parametrize("name", ["MX_KV_HUB", "PMI_RANK", "DMLC_ROLE"])
def test_a_variable_that_is_empty_is_not_set(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    for each in ("MX_KV_HUB", *settings._DMLC, *settings._MPI):
        monkeypatch.delenv(each, raising=False)
    monkeypatch.setenv(name, "")
    with pytest.raises(NoJobError, match="mx launch -n 2 python train.py"):
        settings.place()


def test_what_mxnet_s_launcher_has_not_set_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MX_KV_HUB", *settings._DMLC, *settings._MPI):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DMLC_NUM_WORKER", "")
    monkeypatch.setenv("DMLC_ROLE", "worker")
    monkeypatch.setenv("DMLC_PS_ROOT_URI", "127.0.0.1")
    with pytest.raises(SettingError, match="missing: DMLC_PS_ROOT_PORT, DMLC_NUM_WORKER, DMLC_NUM_SERVER$"):
        settings.place()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MX_KV_HUB", "nowhere"),
        ("MX_KV_ROLE", "boss"),
        ("MX_KV_RANK", "1.5"),
        ("MX_KV_RANK", "x"),
        ("MX_KV_RANK", "inf"),
    ],
)
def test_wrong_variables_are_named(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv("MX_KV_HUB", "127.0.0.1:1")
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingError, match=rf"\[{name}\] expected .*{value}"):
        settings.place()


def test_other_machines_get_the_secret_by_their_input(tmp_path: Path) -> None:
    plan = Plan(Job(3), ["python", "train it.py"], hosts=["one", "two"])
    told = variables(plan, 2, ("10.0.0.1", 7777), "the secret")
    words, environment, given = command_of(plan, 2, told)
    assert words[0] == "ssh" and "one" in words
    assert "secret" not in shlex.join(words) and "MX_KV_TOKEN" not in environment
    script = given.decode().replace(
        "exec python 'train it.py'", "exec sh -c 'echo \"$MX_KV_TOKEN $MX_KV_RANK\"; cat'"
    )
    done = subprocess.run(["sh", "-s"], input=script, capture_output=True, text=True, check=True)
    assert done.stdout == "the secret 2\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-n", "1", "--deadlin", "4", "true"], "No such option '--deadlin'. Did you mean '--deadline'?"),
        (["-n", "0", "true"], "0 is not in the range"),
        (["-n", "1"], "Missing argument"),
        (["true"], "Missing option '-n'"),
        (["-n", "1", "--launcher", "ssh", "true"], "needs machines"),
        (["-n", "1", "--launcher", "local", "-H", "a", "true"], "starts everything here"),
        (["-n", "1", "-H", "-oProxyCommand=x", "true"], "expected names of machines"),
        (["-n", "1", "--env", "A", "true"], "expected NAME=VALUE"),
        (
            ["-n", "1", "-H", "no-such-host.invalid", "true"],
            "'no-such-host.invalid' is neither a file nor the name of a machine that is known here",
        ),
    ],
)
def test_wrong_arguments_are_refused(words: list[str], message: str) -> None:
    done = CliRunner().invoke(launch, words)
    assert done.exit_code == 2 and message in done.output, done.output


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "# none\n\n",
            "the file '{}' names no machine; expected names of machines, separated by commas, or a file",
        ),
        (b"\xff\xfe\x00", "the file '{}' cannot be read: "),
        (
            None,
            "'{}' is a folder; expected names of machines, separated by commas, or a file with one a line",
        ),
    ],
)
def test_what_is_no_file_of_machines_is_told(tmp_path: Path, text: str | bytes | None, words: str) -> None:
    path = tmp_path if text is None else tmp_path / "hosts"
    if text is not None:
        path.write_bytes(text.encode() if isinstance(text, str) else text)
    done = CliRunner().invoke(launch, ["-n", "1", "-H", str(path), "true"])
    assert done.exit_code == 2, done.output
    assert words.format(path) in " ".join(done.output.split()), done.output


def test_a_file_of_machines_may_say_more_of_each(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text("# ours\none slots=4\n\ntwo\tslots=2  # the old one\n  three\n")
    assert _hosts(None, None, str(path)) == ("one", "two", "three")  # type: ignore[arg-type]
    assert _hosts(None, None, "one, two") == ("one", "two")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("words", "told", "expected"),
    [
        (["-s", "1"], {}, "1000000"),
        (["-s", "1", "--p3"], {}, "40000"),
        (["-s", "1", "--p3"], {"MXNET_KVSTORE_SLICE_THRESHOLD": "77"}, "77"),
    ],
)
def test_p3_has_small_slices(start: Any, words: list[str], told: dict[str, str], expected: str) -> None:
    program = "from mx_kvstore_mpi import settings\nprint('slices of', settings.slice_threshold())"
    job = start(program, 1, *words, **told)
    assert job.wait_for(r"slices of (\d+)") == [expected], job.text


def test_lines_have_names_and_the_first_bad_status_is_returned(start: Any) -> None:
    program = "import os, sys; print('line', os.environ['MX_KV_RANK']); sys.exit(3 * int(os.environ['DMLC_WORKER_ID']))"
    job = start(program, 2, "--env", "X=y")
    assert job.wait() == 3, job.text
    assert {"[worker 0] line 0\n", "[worker 1] line 1\n"} <= set(job.lines)
    assert "worker 1" in job.text and "has ended with exit status 3" in job.text


@pytest.mark.long
def test_ctrl_c_at_any_moment_of_the_start_ends_all(start: Any) -> None:
    """Also in the launcher's imports, in whose callbacks Python lets no error out."""
    program = "import time; print('begun', flush=True); time.sleep(300)"
    since = time.monotonic()
    job = start(program, 1)
    job.wait_for("begun")
    taken = time.monotonic() - since
    moments = 40
    for moment in range(moments + 1):
        if moment:
            job = start(program, 1)
            time.sleep(taken * moment / moments)
        job.process.send_signal(signal.SIGINT)
        # One that comes before the first line of mx is Python's, which says when it loses it.
        if not ends_within(job, 15.0):
            assert "Exception ignored in" in job.text, (moment, job.text)
            job.process.send_signal(signal.SIGINT)
        status = job.wait()
        early = (
            "KeyboardInterrupt" in job.text or "Aborted!" in job.text
        )  # before or between what takes the signal
        assert status in (-signal.SIGINT, 128 + signal.SIGINT) or early, (moment, job.text)


def ends_within(job: Any, seconds: float) -> bool:
    try:
        job.process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


@pytest.mark.long
@pytest.mark.parametrize("servers", ["0", "1"])
def test_the_program_that_ended_first_is_named(start: Any, servers: str) -> None:
    """It waits for the others, which fail when they miss it, and so its status comes after theirs."""
    program = """
import sys
import mx
store = mx.kv.create("dist_sync")
store.init("w", mx.nd.zeros((4,)))
store.barrier()
if store.rank == 1:
    sys.exit(7)
out = mx.nd.zeros((4,))
store.pushpull("w", mx.nd.ones((4,)), out=out)
out.wait_to_read()
"""
    job = start(program, 2, "-s", servers)
    assert job.wait() == 7, job.text
    (told,) = job.wait_for(r"mx launch: (.*)")
    made = (
        " after 0 pushes of key 'w', and worker 0 waits: push 1"
        if int(servers)
        else ", and worker 0 waits: .*"
    )
    lost = rf"worker 1 \(process \d+ on .*\) has ended with exit status 7{made}"
    assert re.fullmatch(lost, told), told
    job.wait_for(rf"\[worker 0\] .*PeerLostError: \[KVStore\] {lost} \(generation 1\)")
    assert job.text.count("Traceback") == 1, "the error has itself as context"


@pytest.mark.long
@pytest.mark.parametrize("servers", ["0", "1"])
def test_what_does_not_match_is_told_to_all_and_last(start: Any, servers: str) -> None:
    program = """
import mx
store = mx.kv.create("dist_sync")
store.init("w", mx.nd.zeros((4 + store.rank,)))
out = mx.nd.zeros((4 + store.rank,))
store.pushpull("w", out, out=out)
out.wait_to_read()
"""
    job = start(program, 2, "-s", servers)
    assert job.wait() == 1, job.text
    words = r".*worker 0.*key 'w'.*shape \(4,\).*worker 1.*key 'w'.*shape \(5,\)"
    for worker in (0, 1):
        job.wait_for(rf"\[worker {worker}\] .*ProtocolError: \[KVStore\]{words}")
    job.wait_for(f"mx launch:{words}")
    assert "never observed" not in job.text


def test_an_ignored_hangup_stays_ignored(start: Any) -> None:
    """As `nohup` has it."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        job = start("import sys, time; print('begun'); time.sleep(1.5); print('finished')", 1)
    finally:
        signal.signal(signal.SIGHUP, before)
    job.wait_for("begun")
    job.process.send_signal(signal.SIGHUP)
    assert job.wait() == 0, job.text
    job.wait_for("finished", 1, 1.0)


def test_a_program_that_is_not_there_is_told() -> None:
    done = subprocess.run(
        [*MX, "launch", "-n", "1", "/no/such program"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 127 and "Traceback" not in done.stderr, done.stderr
    assert done.stderr.startswith("mx launch: cannot start '/no/such program': ")
    assert "for Python" not in done.stderr


@pytest.mark.parametrize("path", ["train.py", "./train.py"])
def test_a_file_for_python_is_told_how_it_starts(path: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    words = [*MX, "launch", "-n", "1", path, "--epochs", "3"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 127
    assert done.stderr.rstrip().endswith(
        f"; it is a file for Python: mx launch … python {path} --epochs 3"
    ), done.stderr


@pytest.mark.long
def test_mxnet_s_launcher_starts_jobs_too(start: Any, tmp_path: Path) -> None:
    """Every process runs the program, and DMLC_ROLE says what it is."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    told = {"DMLC_PS_ROOT_URI": "127.0.0.1", "DMLC_PS_ROOT_PORT": str(port), "DMLC_NUM_WORKER": "2",
            "DMLC_NUM_SERVER": "1", "XDG_RUNTIME_DIR": str(tmp_path)}  # fmt: skip
    program = """
import mx
store = mx.kv.create("dist_sync")
store.init(3, mx.nd.zeros((2,)))
store.set_optimizer(mx.optimizer.create("test"))
out = mx.nd.zeros((2,))
store.pushpull(3, mx.nd.ones((2,)) * (store.rank + 1), out=out)
assert (out.asnumpy() == 3).all(), out
print("worker", store.rank, "has the sum")
"""
    roles = ("worker", "server", "worker", "scheduler")
    jobs = [start(program, 1, runner=("env",), **told, DMLC_ROLE=role) for role in roles]
    for job, role in zip(jobs, roles, strict=True):
        assert job.wait() == 0, (role, job.text)
        assert ("has the sum" in job.text) == (role == "worker")
    assert not list(tmp_path.glob("mx-kvstore-*/*")), "the secret is left behind"


@pytest.mark.slow
def test_a_second_scheduler_leaves_the_first_one_alone(start: Any, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    told = {"DMLC_PS_ROOT_URI": "127.0.0.1", "DMLC_PS_ROOT_PORT": str(port), "DMLC_NUM_WORKER": "1",
            "DMLC_NUM_SERVER": "0", "XDG_RUNTIME_DIR": str(tmp_path)}  # fmt: skip
    program = "import mx; print('rank', mx.kv.create('dist_sync').rank)"
    first = start(program, 1, runner=("env",), **told, DMLC_ROLE="scheduler")
    limit = time.monotonic() + 40.0
    while not list(tmp_path.glob("mx-kvstore-*/*")) and time.monotonic() < limit:
        time.sleep(0.02)
    second = start(program, 1, runner=("env",), **told, DMLC_ROLE="scheduler")
    assert second.wait(40) == 1 and "Traceback" not in second.text, second.text
    assert f"mx: [KVStore] the scheduler cannot listen at 127.0.0.1:{port}: " in second.text
    worker = start(program, 1, runner=("env",), **told, DMLC_ROLE="worker")
    assert worker.wait(40) == 0 and first.wait(40) == 0, (worker.text, first.text)


@pytest.mark.long
def test_checks_of_the_plug_in_find_nothing_wrong() -> None:
    """What needs a launcher is told as not checked."""
    done = subprocess.run([*MX, "plugins", "check", "kvstore_mpi"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    for name in ("dist_sync@mpi", "dist_async@mpi"):
        assert f"ok      kvstores '{name}': make can be imported" in done.stdout
        assert f"not checked  kvstores '{name}': contract of stores" in done.stdout


#: an ssh that starts the process here, as if this were another machine: with a name of its own where that is allowed
SSH = """#!/bin/sh
while [ "$1" = -o ]; do shift 2; done
exec unshare --uts sh -c 'hostname "$0" && exec sh -s' "$1"
"""


@pytest.mark.long
def test_processes_on_several_hosts(start: Any, tmp_path: Path) -> None:
    if subprocess.run(["unshare", "--uts", "true"], capture_output=True).returncode != 0:
        pytest.skip("names of hosts need the right to make namespaces")
    ssh = tmp_path / "bin" / "ssh"
    ssh.parent.mkdir()
    ssh.write_text(SSH)
    ssh.chmod(0o755)
    program = """
import socket
import mx
store = mx.kv.create("dist_sync")
store.init(["a", "b"], [mx.nd.zeros((3,)), mx.nd.zeros((300_000,))])
outs = [mx.nd.zeros((3,)), mx.nd.zeros((300_000,))]
store.pushpull(["a", "b"], [out + store.rank + 1 for out in outs], out=outs)
assert all((out.asnumpy() == 6).all() for out in outs), outs
print("worker", store.rank, "on", socket.gethostname(), "of", store._world.membership.hosts, "hosts has the sums")
"""
    job = start(program, 3, "-H", "127.0.0.1,127.0.0.2", PATH=f"{ssh.parent}:{os.environ['PATH']}")
    assert job.wait() == 0, job.text
    found = job.wait_for(r"worker (\d) on ([\d.]+) of 2 hosts has the sums", 3)
    assert set(found) == {("0", "127.0.0.1"), ("1", "127.0.0.2"), ("2", "127.0.0.1")}


PARTS = """
import os
import struct
import numpy as np
import mx

store = mx.kv.create("dist_sync")
rank, workers, count, name = store.rank, store.num_workers, 23, f"{__file__}.{os.environ['MX_KV_RANK']}"
with open(f"{name}-images", "wb") as images, open(f"{name}-labels", "wb") as labels:
    images.write(struct.pack(">4i", 2051, count, 4, 4) + bytes(16 * count))
    labels.write(struct.pack(">2i", 2049, count) + bytes(range(count)))
record = mx.recordio.MXIndexedRecordIO(f"{name}.idx", f"{name}.rec", "w")
for number in range(count):
    head = mx.recordio.IRHeader(0, float(number), number, 0)
    record.write_idx(number, mx.recordio.pack_img(head, np.zeros((4, 4, 3), "uint8"), img_fmt=".png"))
record.close()

part = {"num_parts": workers, "part_index": rank, "batch_size": 1}
iterators = {
    "MNISTIter": mx.io.MNISTIter(image=f"{name}-images", label=f"{name}-labels", shuffle=False, **part),
    "ImageRecordIter": mx.io.ImageRecordIter(
        path_imgrec=f"{name}.rec", path_imgidx=f"{name}.idx", data_shape=(3, 4, 4), **part
    ),
}
for kind, iterator in iterators.items():
    found = np.zeros(count, "float32")
    for batch in iterator:
        found[int(batch.label[0].asscalar())] += 1
    total = mx.nd.zeros((count,))
    store.init(kind, total)
    store.pushpull(kind, mx.nd.array(found), out=total)
    assert (total.asnumpy() == 1).all(), (kind, total)
    assert count // workers <= found.sum() <= count // workers + 1, (kind, found)
print("every example once")
"""


@pytest.mark.long
def test_iterators_take_their_part_by_rank(start: Any) -> None:
    job = start(PARTS, 3)
    assert job.wait() == 0, job.text
    job.wait_for("every example once", 3)
