# SPDX-License-Identifier: Apache-2.0
"""The native library in its process: one OpenMP runtime, fork, threads."""

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import mx_operators_cpu

LIB = Path(mx_operators_cpu.__file__).parent / "lib"

CONVOLUTION = """
    import sys
    import numpy as np, layer_plans
    from mx_core import operators
    op = operators.get("Convolution")
    p = op.Param.parse({"kernel": (3, 3), "num_filter": 64, "pad": (1, 1), "no_bias": True})
    x, w = np.ones((2, 32, 56, 56), "f4"), np.ones((64, 32, 3, 3), "f4")
    y = np.zeros((2, 64, 56, 56), "f4")
    plan = layer_plans.prepare(op, p, [x, w], [y])
    def run():
        y[:] = 0
        layer_plans.run(plan, [x, w], [y], threads=2)
        assert y[1, 5, 7, 9] == 288, y[1, 5, 7, 9]
"""


def _python(code: str, *arguments: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(Path(__file__).parent), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parent)} | environment,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_one_openmp_runtime_beside_somebody_elses(tmp_path: Path) -> None:
    shutil.copy(LIB / "fallback" / "libgomp.so.1", tmp_path / "libgomp-other.so.1")
    code = """
        import ctypes, sys
        ctypes.CDLL(sys.argv[2])
        from mx_operators_cpu.library import native
        maps = {line.split()[-1] for line in open("/proc/self/maps") if "libgomp" in line}
        print(*maps)
    """
    assert _python(code, str(tmp_path / "libgomp-other.so.1")).split() == [
        str(tmp_path / "libgomp-other.so.1")
    ]


@pytest.mark.parametrize("mine", [{}, {"GOMP_SPINCOUNT": "7"}, {"OMP_WAIT_POLICY": "passive"}])
def test_the_environment_is_left_alone(mine: dict[str, str]) -> None:
    code = """
        import os
        before = dict(os.environ)
        from mx_operators_cpu.library import native
        assert os.environ == before
    """
    _python(code, **mine)


def test_teams_wait_alike_when_there_are_several() -> None:
    """Under libgomp's default policy members spin 100 rounds as soon as there are more teams than one."""
    done = subprocess.run(
        [sys.executable, "-c", "from mx_operators_cpu.library import native"],
        env={**os.environ, "OMP_DISPLAY_ENV": "VERBOSE"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "OMP_WAIT_POLICY = 'ACTIVE'" in done.stderr
    assert "GOMP_SPINCOUNT = '2000'" in done.stderr


def test_threads_follow_the_environment() -> None:
    code = "from mx_operators_cpu.library import native; print(native.threads())"
    assert _python(code, OMP_NUM_THREADS="3").strip() == "3"


def test_a_forked_child_computes_on_the_thread_that_forked() -> None:
    code = """
    import os
    run()
    child = os.fork()
    if child == 0:
        run()
        run()
        os._exit(7)
    run()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    """
    _python(CONVOLUTION + code)


def test_idle_teams_do_not_spin() -> None:
    code = """
    import resource, time
    run()
    def used():
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return usage.ru_utime + usage.ru_stime
    before = used()
    time.sleep(0.5)
    print(used() - before)
    """
    assert float(_python(CONVOLUTION + code)) < 0.05


def test_a_plan_restores_the_callers_team() -> None:
    code = """
    from mx_operators_cpu.library import native
    before = native.threads()
    layer_plans.run(plan, [x, w], [y], threads=1)
    assert native.threads() == before
    """
    _python(CONVOLUTION + code, OMP_NUM_THREADS="2")
