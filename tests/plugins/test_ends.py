# SPDX-License-Identifier: Apache-2.0
"""`mx plugins check` ends, and says so, where the plug-in keeps a process from ending or ends it otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from testkit import fresh
from testkit.bad_plugins import install, operators

pytestmark = pytest.mark.long

KEEPING = {
    "a_thread": "import threading, time\nthreading.Thread(target=lambda: time.sleep(1000)).start()\n",
    "a_hook": "import time\ndef mx_shutdown():\n    time.sleep(1000)\n",
}


@pytest.mark.parametrize("name", KEEPING)
def test_what_keeps_the_process_is_told(name: str, tmp_path: Path) -> None:
    install(tmp_path, operators("Own") + KEEPING[name])
    done = fresh.mx("plugins", "check", "aaa", "--limit", "4", PYTHONPATH=str(tmp_path), MX_STRICT_PLUGINS="")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "ok      operators 'acme_own': the gradient is that of the reference" in done.stdout
    said = "FAILED  plug-in 'aaa': its process ends\n        no end within 4 s, which --limit sets, after all checks"
    assert said in done.stdout


def test_another_status_at_the_end_is_told(tmp_path: Path) -> None:
    install(tmp_path, operators("Own") + "import atexit, os\natexit.register(lambda: os._exit(7))\n")
    done = fresh.mx("plugins", "check", "aaa", PYTHONPATH=str(tmp_path), MX_STRICT_PLUGINS="")
    assert done.returncode == 1, done.stdout + done.stderr
    assert (
        "plug-in 'aaa': its process ends\n        the process ended with status 7 after all checks"
        in done.stdout
    )
