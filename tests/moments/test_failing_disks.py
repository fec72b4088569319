# SPDX-License-Identifier: Apache-2.0
"""One call that writes, flushes or renames fails: an error that names the file, and the old file or the new one.

A call that a signal interrupts, or that writes a part, changes nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from testkit.fresh import run
from testkit.writers import WRITERS, WRITING

pytestmark = pytest.mark.long

#: stands before the C library's calls: after `allowed` of them on regular files one does what `mode` says
FAILING = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/types.h>
enum { kError, kInterrupted, kPart };
static atomic_long left = -1, seen;
static atomic_int on, what;
void disk_begin(long allowed, int mode) { seen = 0, left = allowed, what = mode, on = 1; }
long disk_end(void) { on = 0; return seen; }
static int regular(int file) { struct stat found; return fstat(file, &found) == 0 && S_ISREG(found.st_mode); }
static int hits(void) { ++seen; return atomic_fetch_sub(&left, 1) == 0; }
#define REAL(name) __typeof__(&name) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)
#define FAIL(code) return errno = (code), -1
ssize_t write(int file, const void* data, size_t bytes) {
  REAL(write);
  if (!on || !regular(file) || !hits()) return real(file, data, bytes);
  if (what == kPart) return real(file, data, bytes / 2 + bytes % 2);
  FAIL(what == kInterrupted ? EINTR : EIO);
}
int fsync(int file) {
  REAL(fsync);
  if (!on || what != kError || !hits()) return real(file);
  FAIL(EIO);
}
int rename(const char* from, const char* to) {
  REAL(rename);
  if (!on || what != kError || !hits()) return real(from, to);
  FAIL(EIO);
}
"""

PROGRAM = (
    WRITING
    + """
import ctypes, json
disk = ctypes.CDLL(os.environ["LD_PRELOAD"])
def attempt(allowed, mode):
    disk.disk_begin(ctypes.c_long(allowed), mode)
    try:
        write(kind, 2)
        return None
    except (OSError, mx.MXNetError) as error:
        return error
    finally:
        calls.append(disk.disk_end())
calls = []
write(kind, 2)
after = left()
tried = {}
for mode, name in enumerate(("error", "interrupted", "part")):
    assert attempt(-1, mode) is None
    n = calls[-1]
    most = int(sys.argv[2])
    positions = sorted({round(i * (n - 1) / max(most - 1, 1)) for i in range(min(n, most))})
    tried[name] = len(positions)
    for position in positions:
        write(kind, 1)
        old = left()
        error = attempt(position, mode)
        found = left()
        if mode == 0:
            assert error is not None and named(error), (position, n, error)
            assert as_they_come or kind == "profile" or set(found) == set(names)
            for file in names:
                assert as_they_come or kind == "profile" or found[file] in (old[file], after[file]), (position, n, file)
        else:
            assert error is None, (name, position, error)
            assert kind == "profile" or found == after, (name, position)
write(kind, 3)
print(json.dumps(tried))
"""
)


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("failing")
    (folder / "failing.c").write_text(FAILING)
    command = ["gcc", "-shared", "-fPIC", "-O1", "failing.c", "-o", "failing.so", "-ldl"]
    subprocess.run(command, cwd=folder, check=True, timeout=60)
    return folder / "failing.so"


@pytest.mark.parametrize("most", [4, pytest.param(200, marks=pytest.mark.slow)])
@pytest.mark.parametrize("writer", WRITERS)
def test_one_call_fails(
    writer: str, most: int, failing: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run(PROGRAM, writer, most, timeout=250, LD_PRELOAD=os.fspath(failing))
    assert done.returncode == 0, done.stderr[-3000:]
    assert min(json.loads(done.stdout).values()) > 0, done.stdout
