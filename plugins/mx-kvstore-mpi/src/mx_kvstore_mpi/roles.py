# SPDX-License-Identifier: Apache-2.0
"""Schedulers and servers that MXNet's launcher starts as copies of the training program.

There every process runs the same program, and DMLC_ROLE says what it is. One that is no worker serves as soon as it
asks for a distributed store, and ends when the job does.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from typing import NoReturn

from mx_core import lifecycle
from mx_core.errors import MXNetError
from mx_kvstore_mpi import server, settings, tokens
from mx_kvstore_mpi.errors import PeerTimeoutError
from mx_kvstore_mpi.hub import Hub
from mx_kvstore_mpi.job import Job
from mx_kvstore_mpi.protocol import new_token
from mx_kvstore_mpi.settings import Place


def end_as(place: Place) -> NoReturn:
    """Serves as a scheduler or server, and ends the process. Blocks until the job has ended."""
    try:
        status = _schedule(place) if place.role == "scheduler" else server.serve(place)
    except MXNetError as error:
        print(f"mx: {error}", file=sys.stderr)
        status = 1
    lifecycle.shutdown()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(status)  # not sys.exit: the program would go on in its handlers as if it were a worker


def _schedule(place: Place) -> int:
    """Has the hub of the job; the exit status."""
    assert place.hub is not None
    token = place.token or new_token()
    job = Job(place.workers, place.servers, name=f"{socket.gethostname()[:20]}_{place.hub[1]}_{os.getpid()}")
    try:
        hub = Hub(job, token, place.hub)
    except OSError as error:  # such as another job's scheduler at this port, whose secret is there
        raise MXNetError(
            f"[KVStore] the scheduler cannot listen at {place.hub[0]}:{place.hub[1]}: {error.strerror or error}; set "
            "DMLC_PS_ROOT_URI to an address of this machine and DMLC_PS_ROOT_PORT to a free port"
        ) from error
    path = None if place.token else tokens.leave(place.hub[1], token)
    try:
        hub.serve()
        end = time.monotonic() + settings.timeout()
        while not hub.begun:
            if time.monotonic() > end:
                raise PeerTimeoutError("[KVStore] not all processes of the job came to the scheduler in time")
            time.sleep(0.05)
        hub.wait()
        hub.close()
    finally:
        if path is not None:
            path.unlink(missing_ok=True)
    if hub.losses:
        for text in dict.fromkeys((*hub.reasons, *hub.losses)):  # several processes may have told the same
            print(f"mx: {text.removeprefix('[KVStore] ')}", file=sys.stderr)
    return 1 if hub.losses else 0
