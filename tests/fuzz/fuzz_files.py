# SPDX-License-Identifier: Apache-2.0
"""Reads damaged files; whatever is in them, it must be a result or an MXNetError, soon and in little memory.

python tests/fuzz/fuzz_files.py 48500            # files, in two worker processes
python tests/fuzz/fuzz_files.py --show 1234      # one file again, in this process
"""

from __future__ import annotations

import functools
import os
import sys
import tempfile
import time
import warnings
from pathlib import Path

import damaged_files
import workers
from workers import Outcome, detail_of, resident

RESIDENT = 64 << 20  # bytes, beside twice the file
#: one file is read within a second; workers share processors with others
LONGEST = float(os.environ.get("MX_FUZZ_LONGEST", "5"))  # seconds


def judge(number: int, name: str, contents: bytes, folder: Path) -> Outcome:
    """Reads one file and says what came of it."""
    import mx
    from mx_core.errors import MXNetError

    path = folder / f"damaged{damaged_files.FORMATS[name].suffix}"
    path.write_bytes(contents)
    kind, detail = "result", ""
    before, started = resident(), time.process_time()
    for step in (lambda: damaged_files.FORMATS[name].read(path), mx.nd.waitall):
        try:
            step()
        except MXNetError as error:
            if kind == "result":
                kind, detail = "refused", f"{type(error).__name__}: {error}"
        except Exception as error:
            kind, detail = "foreign", detail_of(error)
    seconds, grown = time.process_time() - started, resident() - before
    if grown > RESIDENT + 2 * len(contents):
        kind, detail = "memory", f"{grown >> 20} MiB for {len(contents)} bytes; {detail}"
    if seconds > LONGEST:
        kind, detail = "hang", f"{seconds:.1f} s; {detail}"
    return Outcome(number, kind, name, detail[:600])


def work(seed: int, numbers: range) -> None:
    """Reads, and reports each file as one line on standard output."""
    with tempfile.TemporaryDirectory(prefix="mx-damaged-") as folder:
        for name in damaged_files.NAMES:  # what is allocated once is not the first file's
            path = Path(folder) / f"whole{damaged_files.FORMATS[name].suffix}"
            path.write_bytes(damaged_files.seeds(name)[0])
            damaged_files.FORMATS[name].read(path)

        def read(number: int) -> Outcome:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return judge(number, *damaged_files.make(seed, number), Path(folder))

        turns = damaged_files.TURNS
        workers.work(numbers, lambda number: turns[number % len(turns)], read)


def show(seed: int, number: int) -> None:
    """Reads one file, and leaves it where it says."""
    name, contents = damaged_files.make(seed, number)
    path = Path(tempfile.mkdtemp()) / f"damaged{damaged_files.FORMATS[name].suffix}"
    path.write_bytes(contents)
    print(name, path)
    damaged_files.FORMATS[name].read(path)


#: the outcomes of damaged files: `fuzz(seed, files, ...)`
fuzz = functools.partial(workers.fuzz, __file__)

if __name__ == "__main__":
    sys.exit(workers.command_line(__file__, __doc__, work, show))
