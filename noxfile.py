# SPDX-License-Identifier: Apache-2.0
"""Everything the project can do with itself: `nox -l` lists the sessions; `tools/` has what they share."""

from __future__ import annotations

import sys
from pathlib import Path

import nox

ROOT = Path(__file__).parent
sys.path.insert(0, str(ROOT))  # nox does not tell Python where this file is

from tools import baselines, benchmarks, native_tests
from tools.distributions import closure, distributions
from tools.sessions import (
    CUDNN,
    DEFAULT,
    DOCS_TOOLS,
    LONG,
    TEST_TOOLS,
    builder,
    check_types,
    develop,
    install,
    pytest,
    run_isolated,
    run_python,
)

ALL = ["mx", "mx-operators-cuda", "mx-example-operators", "mx-mxnet", "mx-kvstore-mpi"]

nox.options.default_venv_backend = "venv"
nox.options.sessions = ["lint", "types", "tests"]


@nox.session(venv_backend="none")
def dev(session: nox.Session) -> None:
    """Editable install of everything into .venv, in dependency order."""
    develop(session, ROOT / ".venv")


@nox.session
def tests(session: nox.Session) -> None:
    """The tests of all packages, installed from wheels, but those that take longer; arguments go to pytest."""
    install(session, ALL, "test", more=TEST_TOOLS)
    pytest(session)


@nox.session
def long(session: nox.Session) -> None:
    """Tests that take a second or more each: whole jobs, attacks at any moment, kernels compiled for a fake GPU."""
    install(session, ALL, "test", more=TEST_TOOLS)
    pytest(session, marks=LONG)


for version in ("3.12", "3.13"):
    nox.session(tests, name=f"tests-{version}", python=version)


@nox.session
def lowest(session: nox.Session) -> None:
    """All tests but slow ones with the lowest versions that the packages declare of what they depend on."""
    install(session, ALL, "test", more=TEST_TOOLS, pin=True)
    pytest(session, marks="not slow and not gpu")


@nox.session
def nightly(session: nox.Session) -> None:
    """The slow tests, two files at a time, the long ones of each package alone, then C++ tests, instrumented
    extensions, and the search for seeded bugs."""
    install(session, ALL, "test", more=TEST_TOOLS)
    pytest(session, "-n", "2", "--dist", "loadfile", marks="slow")
    run_isolated(session, LONG)
    for harness in ("cpp", "sanitize", "threads", "addresses", "seeded"):
        session.notify(harness, ())


@nox.session
def seeded(session: nox.Session) -> None:
    """Each bug of `tests/seeded.toml`, or those with some words in their names, must be found within a minute."""
    run_python(session, ALL, "-m", "tools.seeded", *session.posargs)


@nox.session
def mutation(session: nox.Session) -> None:
    """Mutants of every package, or those named, and which survive; `-- mx-io mx-train --seed 7 --count 20`."""
    run_python(session, ALL, "-m", "tools.mutation", *session.posargs)


@nox.session
def fuzz(session: nox.Session) -> None:
    """Random operator calls in guarded processes, a tenth under AddressSanitizer; `-- 100000 --seed 7`."""
    script = ("tests/fuzz/fuzz_operators.py", "--sanitize", ".nox/sanitized-parts")
    run_python(session, ALL, *script, *(session.posargs or ["1000000"]))


@nox.session
def files(session: nox.Session) -> None:
    """Damaged files of every format in guarded processes; `-- 100000 --seed 7`."""
    run_python(session, ALL, "tests/fuzz/fuzz_files.py", *(session.posargs or ["1000000"]))


@nox.session(venv_backend="none")
def isolated(session: nox.Session) -> None:
    """Each package, or those named, installed with only what it declares; its own tests run."""
    run_isolated(session, DEFAULT)


@nox.session(venv_backend="none")
def cpp(session: nox.Session) -> None:
    """C++ tests of all packages, or those named."""
    native_tests.run(session.posargs, "plain", builder(session).tools)


@nox.session(venv_backend="none")
def sanitize(session: nox.Session) -> None:
    """C++ tests under the thread sanitizer, then the address and undefined-behaviour ones."""
    for kind, flags in (("thread", "thread"), ("address", "address,undefined")):
        native_tests.run(session.posargs, kind, builder(session).tools, f"-DMX_SANITIZE={flags}")


@nox.session
def threads(session: nox.Session) -> None:
    """The programs of `tests/threads` on extensions built with the thread sanitizer."""
    run_python(session, ALL, "tests/threads/sanitize.py", ".nox/threads-parts", *session.posargs)


@nox.session(python="3.13t")
def without_gil(session: nox.Session) -> None:
    """The programs of `tests/threads` under a CPython without the GIL: a `python3.13t` on the path."""
    install(session, ["mx"], more=("pytest>=8", "pytest-timeout>=2.3"))
    session.run("python", "-m", "pytest", "tests/threads", *session.posargs)


@nox.session
def addresses(session: nox.Session) -> None:
    """Python tests of the engine, memory and arrays, or those named, under AddressSanitizer."""
    run_python(session, ALL, "tests/fuzz/sanitized.py", ".nox/sanitized-parts", *session.posargs)


@nox.session
def cudnn(session: nox.Session) -> None:
    """cuDNN plans its layers for a GPU that is described; 1.5 GB from the package index."""
    install(session, ALL, "test", more=(*TEST_TOOLS, *CUDNN))
    session.run("python", "-m", "pytest", "-q", "-s", "tests/cudnn/plans.py", *session.posargs)
    session.run("python", "-m", "pytest", "-q", "-s", "tests/cudnn/compiled_plans.py", *session.posargs)
    session.run("python", "-m", "pytest", "-q", "-s", "tests/cudnn/recurrent_layers.py", *session.posargs)
    session.run("python", "-m", "pytest", "-q", "-s", "tests/cudnn/attributes.py", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Style and formatting."""
    session.install("-q", "ruff>=0.9")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session
def types(session: nox.Session) -> None:
    """mypy --strict over every package's src and benchmarks, and tools."""
    check_types(session)


@nox.session
def train(session: nox.Session) -> None:
    """Trains a convolutional network on handwritten digits through every package."""
    install(session, ["mx"], "plot", more=("scikit-learn>=1.5",))
    session.run("python", "docs/guides/digits/train.py", *session.posargs)


@nox.session
def examples(session: nox.Session) -> None:
    """The programs of `docs/examples`, or those named: each trains in a minute and asserts what it reaches."""
    install(session, ["mx"], more=("scikit-learn>=1.5",))
    for name in session.posargs or sorted(path.stem for path in (ROOT / "docs" / "examples").glob("*.py")):
        session.run("python", f"docs/examples/{name}.py")


@nox.session
def bench(session: nox.Session) -> None:
    """Benchmarks against other systems: `-- engine io`; `--limit 60` stops each after a minute, not after its own."""
    given = benchmarks.arguments(session.posargs)
    install(session, ALL, "test", more=TEST_TOOLS)
    python = f"{session.bin}/python"
    env = baselines.install(python, ROOT / ".nox", session.warn)
    if failed := benchmarks.run_all(python, benchmarks.scripts(given.wanted), given.limit, env):
        session.error(f"did not end well: {', '.join(failed)}")


@nox.session(venv_backend="none")
def wheels(session: nox.Session) -> None:
    """Wheels and source archives in dist/: everything, or some packages and what they need."""
    builder(session).collect(closure(session.posargs or distributions())[0], ROOT / "dist")


@nox.session
def docs(session: nox.Session) -> None:
    """The documentation as HTML in docs/_build."""
    install(session, ALL, more=DOCS_TOOLS)
    session.run("python", "-m", "sphinx", "-W", "-q", "-j", "auto", "-b", "html", "docs", "docs/_build/html")
