# SPDX-License-Identifier: Apache-2.0
"""Records what the scripts in `tests/scripts/programs` print under Apache MXNet 1.9.1. Runs under Python 3.8.

python scripts.py             runs them anew
python scripts.py --check     compares with what is recorded, and changes nothing
"""

import os
import subprocess
import sys
import tempfile

from common import write_or_check

TESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, os.pardir)
#: how lines begin that MXNet prints by itself, where mx writes to the log
OWN_LINES = ("WARNING: discarded ", "learning rate from ``lr_scheduler`` has been overwritten")
PROGRAMS = os.path.join(TESTS, "scripts", "programs")


def printed(name):
    """The lines that a script prints in an empty folder."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, os.path.join(os.path.abspath(PROGRAMS), name)]
        run = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if run.returncode:
        sys.exit("%s: %s" % (name, run.stderr.decode()))
    return [line for line in run.stdout.decode().splitlines() if not line.startswith(OWN_LINES)]


def main():
    names = sorted(name for name in os.listdir(PROGRAMS) if name.endswith(".py"))
    found = {name[:-3]: printed(name) for name in names}
    write_or_check(os.path.join(TESTS, "oracle", "scripts", "printed.json"), found, 0)


if __name__ == "__main__":
    main()
