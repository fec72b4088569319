# SPDX-License-Identifier: Apache-2.0
"""Each distribution tested with nothing installed but what it declares.

A few environments serve all distributions one after the other. Before each, every package that it does not declare
is taken out of the environment, so that it sees what it would see in a fresh one.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from .distributions import ROOT, closure, distributions
from .wheels import Builder

KEPT = ("pip", "setuptools")  # what a fresh environment has

# Prints what is installed in addition to what the requirements in argv need.
_SURPLUS = """
import sys
from importlib.metadata import distributions
from pip._vendor.packaging.requirements import Requirement
from pip._vendor.packaging.utils import canonicalize_name
installed = {canonicalize_name(d.name): d for d in distributions()}
todo = [Requirement(line) for line in sys.argv[1:]]
needed = set()
for wanted in todo:
    name = canonicalize_name(wanted.name)
    needed.add(name)
    for line in installed[name].requires or () if name in installed else ():
        required = Requirement(line)
        applies = [required.marker is None or required.marker.evaluate({"extra": e}) for e in ("", *wanted.extras)]
        if any(applies) and str(required) not in map(str, todo):
            todo.append(required)
print(*sorted(set(installed) - needed))
"""


class Environment:
    """A virtual environment that takes the content which is asked for.

    Parameters
    ----------
    folder : Path
        Where it is; made if it does not exist.
    """

    def __init__(self, folder: Path) -> None:
        self.python = str(folder / "bin" / "python")
        if not Path(self.python).exists():
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)

    def contain(self, foreign: Sequence[str], wheels: Sequence[Path]) -> None:
        """Has what `foreign` needs and the wheels installed, and nothing else.

        Raises
        ------
        CalledProcessError
            Something cannot be installed, or what is installed does not fit together.
        """
        pip = (self.python, "-m", "pip")
        surplus = subprocess.check_output([self.python, "-c", _SURPLUS, *KEPT, *foreign], text=True).split()
        if surplus:
            subprocess.run([*pip, "uninstall", "-q", "-y", *surplus], check=True)
        subprocess.run([*pip, "install", "-q", *foreign], check=True)
        offline = ("install", "-q", "--no-deps", "--no-index")
        subprocess.run([*pip, *offline, *map(str, wheels)], check=True)
        subprocess.run([*pip, "check"], check=True, stdout=subprocess.DEVNULL)


def run(
    names: Sequence[str],
    folder: Path,
    builder: Builder,
    marks: str,
    lanes: int = 2,
    log: Callable[[str], object] = print,
) -> list[str]:
    """Tests distributions, so many at a time, and shows what each run printed.

    Parameters
    ----------
    names : sequence of str
        Which distributions; none means all.
    folder : Path
        For the environments.
    builder : Builder
        Of the wheels.
    marks : str
        Of the tests to run.
    lanes : int
        How many run at once, each in an environment of its own.

    Returns
    -------
    list of str
        Names of those that failed.
    """
    names = names or list(reversed(distributions()))  # those that stand on others have the most to test
    builder.wheels(closure(names)[0])
    free: SimpleQueue[Environment] = SimpleQueue()
    for lane in range(lanes):
        free.put(Environment(folder / f"lane-{lane}"))

    def test(name: str) -> bool:
        own, foreign = closure([name], ("test",))
        wheels = builder.wheels(own)
        environment = free.get()
        try:
            environment.contain(foreign, wheels)
            tests = distributions()[name].folder.relative_to(ROOT) / "tests"
            command = [environment.python, "-m", "pytest", "-q", "-m", marks, str(tests)]
            done = subprocess.run(
                command,
                cwd=ROOT,
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                check=False,
            )
        finally:
            free.put(environment)
        log(f"---- {name}\n{done.stdout}")
        return done.returncode == 0

    with ThreadPoolExecutor(lanes) as pool:
        return [name for name, passed in zip(names, pool.map(test, names), strict=True) if not passed]
