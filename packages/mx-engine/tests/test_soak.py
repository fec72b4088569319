# SPDX-License-Identifier: Apache-2.0
"""Long runs from Python and of the C++ programs; the short ones run by default."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import mx_core
import mx_engine

CPP = Path(__file__).parent / "cpp"
INCLUDE = Path(mx_core.__file__).parent / "include"


def resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / (1 << 20)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    "pushes",
    [
        pytest.param(100_000, marks=pytest.mark.timeout(120)),
        pytest.param(10_000_000, marks=[pytest.mark.slow, pytest.mark.timeout(1200)]),
    ],
)
def test_memory_stays_flat(pushes: int) -> None:
    engine = mx_engine.create(workers=2)
    variables = [engine.new_variable() for _ in range(20)]
    count, before = 0, 0.0

    def add() -> None:
        nonlocal count
        count += 1

    def fail() -> None:
        raise ValueError("soak")

    for i in range(pushes):
        a, b = variables[i % 20], variables[(i * 7 + 3) % 20]
        engine.push(fail if i % 1000 == 0 else add, reads=(a,) if a is not b else (), writes=(b,))
        if i % 11 == 0:
            engine.delete_variable(a)
            variables[i % 20] = engine.new_variable()
        if i % 1000 == 999:
            with pytest.raises(ValueError, match="soak"):
                engine.wait_for_all()
        if i == pushes // 5:
            before = resident_mib()
    assert resident_mib() - before < 20
    assert 0 < count < pushes


@pytest.mark.timeout(300)
def test_an_exception_at_every_position_of_a_graph() -> None:
    engine = mx_engine.create(workers=2)
    steps, width = 200, 7
    for failing in range(0, steps, 3):
        variables = [engine.new_variable() for _ in range(width)]
        bad: set[int] = set()
        ran: list[int] = []
        expected = []
        for i in range(steps):
            reads = {(i * 3 + 1) % width, (i * i) % width}
            write = (i * 5) % width
            if bad & {*reads, write}:
                bad.add(write)
            elif i == failing:
                bad.add(write)
            else:
                expected.append(i)
            body = (lambda: 1 // 0) if i == failing else (lambda i=i: ran.append(i))
            engine.push(body, reads=[variables[r] for r in reads - {write}], writes=[variables[write]])
        engine.drain(60)
        assert sorted(ran) == expected
        assert {v for v in range(width) if engine.variable_failure(variables[v]) is not None} == bad
        with pytest.raises(ZeroDivisionError):
            engine.wait_for_all()


@pytest.mark.timeout(120)
def test_engines_come_and_go() -> None:
    ran = []
    for i in range(300):
        engine = mx_engine.create("ThreadedEngine" if i % 2 else "ThreadedEnginePerDevice", workers=1 + i % 3)
        variable = engine.new_variable()
        for _ in range(3):
            engine.push(lambda: ran.append(1), writes=(variable,))
            if i % 5 == 0:
                engine.stop()
    del engine, variable
    assert len(ran) == 900


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The C++ tests, built."""
    if shutil.which("cmake") is None:
        pytest.skip("needs cmake")
    out = tmp_path_factory.mktemp("cpp")
    options = [f"-DMX_CORE_INCLUDE={INCLUDE}", "-DCMAKE_BUILD_TYPE=RelWithDebInfo"]
    subprocess.run(["cmake", "-S", CPP, "-B", out, *options], check=True, capture_output=True)
    subprocess.run(["cmake", "--build", out, "-j2"], check=True, capture_output=True)
    return out


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("program", "settings"),
    [
        ("test_random_programs", {"MX_TEST_PROGRAMS": "5000"}),
        ("test_soak", {"MX_TEST_PUSHES": "10000000", "MX_TEST_CYCLES": "5000"}),
    ],
)
def test_native_programs_run_long(programs: Path, program: str, settings: dict[str, str]) -> None:
    done = subprocess.run(
        [programs / program], env={**os.environ, **settings}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
