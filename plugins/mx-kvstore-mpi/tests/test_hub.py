# SPDX-License-Identifier: Apache-2.0
"""The hub with peers of all kinds: those that belong to it, strangers, and those that go."""

from __future__ import annotations

import contextlib
import errno
import json
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from mx_core.errors import MXNetError
from mx_kvstore_mpi import _native, membership
from mx_kvstore_mpi.errors import PeerLostError, PeerTimeoutError, ProtocolError
from mx_kvstore_mpi.faults import Fault
from mx_kvstore_mpi.hub import Hub
from mx_kvstore_mpi.job import Job
from mx_kvstore_mpi.membership import Membership
from mx_kvstore_mpi.pmi import Meeting
from mx_kvstore_mpi.protocol import LIMIT, Channel, accept, connect
from mx_kvstore_mpi.settings import Place


@pytest.fixture
def hub() -> Iterator[Hub]:
    made = Hub(Job(2, 1, "test"), "secret", silence=2.0)
    made.serve()
    yield made
    made.close()


def members(hub: Hub, *roles: str) -> list[Membership]:
    """Joins, all at once."""
    found: dict[int, Membership] = {}

    def join(role: str) -> None:
        member = Membership(Place(hub.address, "secret", role), 10.0)
        found[member.number] = member

    threads = [threading.Thread(target=join, args=(role,)) for role in roles]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20.0)
    return [found[number] for number in sorted(found)]


def until(condition: object, timeout: float = 8.0) -> None:
    limit = time.monotonic() + timeout
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < limit, "it did not come"
        time.sleep(0.01)


def test_members_get_numbers_and_hear_who_is_lost(hub: Hub) -> None:
    joined = members(hub, "worker", "server", "worker")
    assert [member.number for member in joined] == [0, 1, 2]
    assert joined[0].job == hub.job and joined[0].hosts == 1
    joined[1].say("waits for something")
    until(lambda: "worker 1 waits for something" in joined[0].statuses())
    joined[2].close()  # as a killed process's is
    for member in joined[:2]:
        until(lambda member=member: member.fault.error is not None)
        with pytest.raises(PeerLostError, match=r"server 0 \(process \d+ on .*\) has ended \(generation 1\)"):
            member.fault.check()
        assert not member.leave(5.0)
    for member in joined:
        member.close()


def test_all_leave_together(hub: Hub) -> None:
    joined = members(hub, "worker", "worker", "server")
    answers: list[bool] = []
    threads = [threading.Thread(target=lambda m=m: answers.append(m.leave(10.0))) for m in joined]
    threads[0].start()
    until(lambda: joined[0].number in joined[1].left)
    assert not answers
    for thread in threads[1:]:
        thread.start()
    for thread in threads:
        thread.join(10.0)
    assert answers == [True] * 3 and not hub.losses
    for member in joined:
        member.close()
    assert hub.wait(5.0)


def test_silence_is_a_loss(hub: Hub) -> None:
    joined = members(hub, "worker", "worker", "server")
    joined[1]._stopped = True  # it says nothing more, and its connection stays
    _native.signs_end(joined[1]._signs)
    until(lambda: joined[0].fault.error is not None)
    with pytest.raises(PeerLostError, match="worker 1 .* has given no sign of life for 2 s"):
        joined[0].fault.check()
    for member in joined:
        member.close()


@pytest.mark.parametrize(
    ("status", "reasons"),
    [(None, 1), ("has ended with exit status 0", 1), ("has ended with exit status 1", 0)],
)
def test_a_loss_that_no_exit_status_tells_is_a_reason(status: str | None, reasons: int) -> None:
    hub = Hub(Job(2, 1, "test"), "secret", explain=lambda number: status)
    hub.serve()
    joined = members(hub, "worker", "worker", "server")
    for count in (1, 2):
        joined[count - 1].close()  # the second one ends because of the first one
        until(lambda count=count: len(hub.losses) == count)
    assert hub.reasons == hub.losses[:reasons]
    joined[2].close()
    hub.close()


def test_a_hub_that_takes_nothing_has_not_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system says once that it gave a connection up: here to who sends, and to who reads only that it ended."""
    monkeypatch.setattr(membership, "SILENCE", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        channels: list[Channel] = []

        def serve() -> None:
            channel = accept(listener.accept()[0], "secret")
            channel.receive()
            channel.send({"start": 0, "workers": 1, "servers": 0, "job": "test", "generation": 1, "hosts": 1})
            while (channel.receive() or {}).get("status") != "computes":
                pass
            channels.append(channel)

        threading.Thread(target=serve).start()
        member = Membership(Place(listener.getsockname(), "secret", "worker"), 10.0)
        until(lambda: channels)
        receive = member._channel.receive

        def late() -> dict[str, object] | None:
            time.sleep(1.0)
            return receive()

        monkeypatch.setattr(member._channel, "receive", late)
        with pytest.raises(OSError, match="timed out"):
            while True:
                member._send({"status": "x" * 1000})
        channels[0].close()
        until(lambda: member.fault.error is not None)
        assert "connection to the launcher of the job broke: " in str(member.fault.error)
        assert "timed out" in str(member.fault.error)
        member.close()


def test_a_hub_that_ends_is_told_as_one(hub: Hub) -> None:
    joined = members(hub, "worker", "worker", "server")
    hub.close()
    for member in joined:
        until(lambda member=member: member.fault.error is not None)
        assert "the launcher of the job has ended" in str(member.fault.error)
        member.close()


def test_what_a_process_waited_for_until_its_deadline_is_a_reason(hub: Hub) -> None:
    joined = members(hub, "worker", "worker", "server")
    joined[1].give_up("[KVStore] waited 3 s: the push of key 'a'")
    until(lambda: hub.reasons)
    assert hub.reasons == ["worker 1: waited 3 s: the push of key 'a'"]
    assert joined[0].fault.error is None and not hub.losses, "the others need not end"
    for member in joined:
        member.close()


HOLDS_THE_GIL = """
import ctypes, sys
from mx_kvstore_mpi.membership import Membership
from mx_kvstore_mpi.settings import Place

member = Membership(Place(("127.0.0.1", int(sys.argv[1])), "secret"), 20.0)
ctypes.PyDLL(None).sleep(3)
assert member.leave(10.0), member.fault.error
member.close()
"""


def test_a_program_that_holds_the_gil_lives() -> None:
    hub = Hub(Job(1), "secret", silence=1.5)
    hub.serve()
    command = [sys.executable, "-c", HOLDS_THE_GIL, str(hub.address[1])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and not hub.losses, (hub.losses, done.stderr)
    hub.close()


def test_a_stranger_is_refused(hub: Hub) -> None:
    with pytest.raises(ProtocolError, match="MX_KV_TOKEN is not the job's token"):
        connect(hub.address, "guess")
    with pytest.raises(
        ProtocolError, match="refuses this process: the job has 1 servers; there is no server 3"
    ):
        Membership(Place(hub.address, "secret", "server", 3), 5.0)
    with socket.create_connection(hub.address) as silent:  # one that says nothing keeps nobody waiting
        joined = members(hub, "worker", "worker", "server")
        assert len(joined) == 3 and silent
        with pytest.raises(ProtocolError, match="the job has 2 workers, and all of them are there"):
            Membership(Place(hub.address, "secret", "worker"), 5.0)
    for member in joined:
        member.close()


@pytest.mark.filterwarnings("error")  # also of threads that an exception ends
@pytest.mark.parametrize(
    "data",
    [
        b"[1]",
        b"{",
        b"\xff\xfe",
        b"x" * (LIMIT + 1),
        b'{"challenge": 5, "proof": 5}',
        '{"challenge": "x", "proof": "é"}'.encode(),
        b'{"challenge": "\\ud800", "proof": "\\ud800"}',
        b"[" * 65_000,
        b"9" * 60_000,
    ],
    ids=range(9),
)
def test_nonsense_ends_the_connection(hub: Hub, data: bytes) -> None:
    with socket.create_connection(hub.address, timeout=5.0) as stranger:
        size = struct.unpack(">I", stranger.recv(4))[0]
        assert "challenge" in json.loads(stranger.recv(size))
        stranger.sendall(struct.pack(">I", len(data)) + data[:LIMIT])
        try:
            assert stranger.recv(100) == b""
        except ConnectionResetError:
            pass


@pytest.mark.parametrize("proof", ["é", "\ud800", "0" * 64])
def test_a_hub_that_is_none_is_refused(proof: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as fake:

        def answer() -> None:
            sock, _ = fake.accept()
            with sock:
                for message in ({"challenge": proof}, {"proof": proof}):
                    data = json.dumps(message).encode()
                    sock.sendall(struct.pack(">I", len(data)) + data)
                sock.recv(1000)

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(ProtocolError, match="does not know the job's token"):
            connect(fake.getsockname(), "secret")
        thread.join(5.0)


def test_waits_for_the_hub_and_the_others_end(hub: Hub) -> None:
    with pytest.raises(PeerTimeoutError, match="not all processes of the job came to the hub in time"):
        Membership(Place(hub.address, "secret", "worker"), 0.3)
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = closed.getsockname()
    with pytest.raises(PeerTimeoutError, match=f"no hub of the job at 127.0.0.1:{address[1]} within 0.3 s"):
        Membership(Place(address, "secret", "worker"), 0.3)


def test_failures_are_kept_and_belong_to_a_generation() -> None:
    fault = Fault(3)
    heard: list[MXNetError] = []
    fault.listen(heard.append)
    assert not fault.set(PeerLostError("of the start before"), 2) and fault.error is None
    assert fault.set(PeerLostError("first"), 3) and not fault.set(PeerLostError("second"))
    fault.listen(heard.append)
    assert [str(error) for error in heard] == ["first", "first"]
    for _ in range(2):
        with pytest.raises(PeerLostError, match="first") as caught:
            fault.check()
        assert caught.value not in heard  # each has a traceback of its own


def test_processes_meet_by_pmi() -> None:
    meeting = Meeting("kvs", [0, 0, 1])
    pairs = [socket.socketpair() for _ in range(3)]
    threads = [threading.Thread(target=meeting.serve, args=(theirs,)) for _, theirs in pairs]
    for thread in threads:
        thread.start()
    files = [ours.makefile("rw") for ours, _ in pairs]

    def ask(rank: int, line: str) -> str:
        files[rank].write(line + "\n")
        files[rank].flush()
        return files[rank].readline().strip()

    assert ask(0, "cmd=init pmi_version=1 pmi_subversion=1").endswith("rc=0 pmi_version=1 pmi_subversion=1")
    assert ask(1, "cmd=get kvsname=kvs key=PMI_process_mapping").endswith("value=(vector,(0,1,2),(1,1,1))")
    assert ask(1, "cmd=put kvsname=kvs key=card value=a#b$c") == "cmd=put_result rc=0 msg=success"
    assert ask(2, "cmd=get kvsname=kvs key=card").endswith("value=a#b$c")
    assert "rc=-1" in ask(2, "cmd=get kvsname=kvs key=other") and "rc=-1" in ask(2, "cmd=spawn")
    for file in files[:2]:
        file.write("cmd=barrier_in\n")
        file.flush()
    assert ask(2, "cmd=barrier_in") == "cmd=barrier_out rc=0"
    assert [file.readline() for file in files[:2]] == ["cmd=barrier_out rc=0\n"] * 2
    files[0].write("cmd=barrier_in\n")
    files[0].flush()
    meeting.give_up()  # a process is lost: nobody waits for it
    assert files[0].readline() == ""
    for file, (ours, _) in zip(files, pairs, strict=True):
        file.close()
        ours.close()
    for thread in threads:
        thread.join(5.0)


def test_one_that_has_said_so_may_go_without_being_lost(hub: Hub) -> None:
    joined = members(hub, "worker", "worker", "server")
    assert not joined[1].leave(0.1)
    joined[1].close()
    time.sleep(0.3)
    assert not hub.losses and joined[0].fault.error is None
    joined[2].close()  # this one has not
    until(lambda: joined[0].fault.error is not None)
    assert len(hub.losses) == 1 and "server 0" in hub.losses[0]
    for member in joined:
        member.close()


@pytest.mark.parametrize("first", ["join", "end"])
def test_an_end_before_joining_is_told_to_workers_that_have_joined(hub: Hub, first: str) -> None:
    if first == "end":
        hub.absent(1, "has ended with exit status 0 before it joined the job")
        assert not hub.losses  # perhaps nobody wants a store
    errors: list[MXNetError] = []

    def join(role: str) -> None:
        try:
            Membership(Place(hub.address, "secret", role), 20.0)
        except MXNetError as error:
            errors.append(error)

    threads = [threading.Thread(target=join, args=(role,)) for role in ("server", "worker")]
    for thread in threads:
        thread.start()
    if first == "join":
        until(lambda: len(hub._members) == 2)
        hub.absent(1, "has ended with exit status 0 before it joined the job")
    for thread in threads:
        thread.join(8.0)
    assert len(errors) == 2, errors
    for error in errors:
        assert isinstance(error, PeerLostError)
        assert "worker 1 has ended with exit status 0 before it joined the job" in str(error)


def test_the_hub_accepts_again_after_too_many_open_files(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    accept = hub._listener.accept
    failing = iter([OSError(errno.EMFILE, "Too many open files"), OSError(errno.ECONNABORTED, "aborted")])

    class Listener:
        def accept(self) -> object:
            for error in failing:
                raise error
            return accept()

        def __getattr__(self, name: str) -> object:
            return getattr(real, name)

    real = hub._listener
    monkeypatch.setattr(hub, "_listener", Listener())
    with socket.create_connection(hub.address):  # ends the accept that waits already
        until(lambda: next(failing, None) is None)
        connect(hub.address, "secret", timeout=5.0).close()


def test_strangers_that_say_nothing_end_the_oldest_of_them(hub: Hub) -> None:
    with contextlib.ExitStack() as stack:
        strangers = [stack.enter_context(socket.create_connection(hub.address, 8.0)) for _ in range(72)]
        for stranger in strangers[:2]:
            data = stranger.recv(1000)
            while data:  # until the hub ends the connection
                data = stranger.recv(1000)
        connect(hub.address, "secret", timeout=8.0).close()


def test_statuses_of_a_large_job_are_cut(hub: Hub) -> None:
    many = Hub(Job(80), "secret", silence=5.0)
    many.serve()
    channels = [connect(many.address, "secret") for _ in range(80)]
    for channel in channels:
        channel.send({"kind": "member", "role": "worker", "rank": None, "pid": 1, "host": "a"})
    for channel in channels:
        channel.send({"status": "waits: the push of key '" + "\u00e9" * 150 + "'"})
        message = channel.receive()
        assert message is not None and "start" in message
    until(lambda: all("waits" in member.status for member in many._members.values()))
    channels[0].send({"ask": True})
    answer = channels[0].receive()
    assert answer is not None and 20 < len(answer["statuses"]) < 79
    assert answer["statuses"][-1] == f"{80 - len(answer['statuses'])} more"
    channels[0].close()
    until(lambda: len(many.losses) == 1)
    for channel in channels:
        channel.close()
    many.close()
