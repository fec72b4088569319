# SPDX-License-Identifier: Apache-2.0
"""Everything the project can do with itself: `nox -l` lists the sessions."""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import tomllib
from pathlib import Path

import nox
from nox.command import CommandFailed

ROOT = Path(__file__).parent
WHEELS = ROOT / ".nox" / "built-wheels"  # not a session's name: nox empties those
BUILD_TOOLS = (
    "setuptools>=77", "wheel", "pybind11>=3.0", "onednn-cpu-gomp==2023.2.0",
    "onednn-devel-cpu-gomp==2023.2.0",
)  # fmt: skip
TEST_TOOLS = (
    "pytest>=8", "pytest-xdist>=3.6", "pytest-timeout>=2.3", "hypothesis>=6.100", "pip", *BUILD_TOOLS,
    "scikit-learn>=1.5", "matplotlib>=3.9", "psutil", "mypy>=1.14", "safetensors>=0.4",
)  # fmt: skip

nox.options.default_venv_backend = "venv"
nox.options.sessions = ["lint", "types", "tests"]


# ---- distributions ----------------------------------------------------------------------------


def metadata(folder: Path) -> dict[str, object]:
    """The [project] table of a distribution."""
    project: dict[str, object] = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    return project


def distributions() -> dict[str, Path]:
    """Name and folder of every distribution, in dependency order."""
    folders = {f.parent.name: f.parent for f in sorted(ROOT.glob("p*s/*/pyproject.toml"))}
    ordered: dict[str, Path] = {}

    def visit(name: str) -> None:
        if name in ordered:
            return
        for requirement in requirements(folders[name]):
            if base(requirement) in folders:
                visit(base(requirement))
        ordered[name] = folders[name]

    for name in folders:
        visit(name)
    return ordered


def base(requirement: str) -> str:
    """Name of a requirement without version and extras."""
    return re.split(r"[\s\[<>=~!;]", requirement, maxsplit=1)[0]


def requirements(folder: Path, extras: tuple[str, ...] = ()) -> list[str]:
    """What a distribution declares that it needs."""
    project = metadata(folder)
    optional = project.get("optional-dependencies", {})
    more = [r for extra in extras for r in optional.get(extra, [])]  # type: ignore[attr-defined]
    return [*project.get("dependencies", []), *more]  # type: ignore[misc]


def extras_of(requirement: str) -> tuple[str, ...]:
    """`("plot",)` of `mx-train[plot]~=0.1.0`."""
    match = re.match(r"[^\[;]*\[([^\]]*)\]", requirement)
    return tuple(extra.strip() for extra in match[1].split(",")) if match else ()


def closure(names: list[str], extras: tuple[str, ...] = ()) -> tuple[list[str], list[str]]:
    """Own distributions (in dependency order) and foreign requirements of some distributions."""
    folders = distributions()
    todo = [(name, extras) for name in names]
    seen = set(todo)
    foreign: set[str] = set()
    for name, wanted in todo:
        for requirement in requirements(folders[name], wanted):
            if base(requirement) not in folders:
                foreign.add(requirement)
                continue
            needed = (base(requirement), extras_of(requirement))
            if needed not in seen:
                seen.add(needed)
                todo.append(needed)
    own = {name for name, _ in seen}
    return [name for name in folders if name in own], sorted(foreign)


# ---- wheels -------------------------------------------------------------------------------------


def fingerprint(name: str) -> str:
    """Changes when anything that goes into a wheel changes."""
    folder = distributions()[name]
    files = [p for p in folder.rglob("*") if p.is_file() and "tests" not in p.relative_to(folder).parts]
    if (folder / "setup.py").exists():
        core = ROOT / "packages" / "mx-core" / "src" / "mx_core"
        files += [*(core / "include").rglob("*.h*"), *core.glob("build*.py")]
    digest = hashlib.sha256(f"{sys.version_info[:2]}".encode())
    for path in sorted(set(files)):
        parts = path.relative_to(ROOT).parts
        if (
            path.suffix in (".pyc", ".so")
            or ".so." in path.name
            or "build" in parts
            or "egg-info" in str(path)
        ):
            continue
        digest.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def wheel(session: nox.Session, name: str) -> Path:
    """The wheel of a distribution, built unless an equal one exists."""
    target = WHEELS / f"{name}-{fingerprint(name)}"
    found = list(target.glob("*.whl"))
    if found:
        return found[0]
    for old in WHEELS.glob(f"{name}-{'[0-9a-f]' * 16}"):
        shutil.rmtree(old)
    source = Path(session.create_tmp()) / "source" / name
    shutil.rmtree(source, ignore_errors=True)
    ignored = shutil.ignore_patterns("*.so", "*.so.*", "build", "*.egg-info", "__pycache__", "tests")
    shutil.copytree(distributions()[name], source, ignore=ignored)
    session.run(
        "python", "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(target),
        str(source), env={"MAKEFLAGS": "-j2"},
    )  # fmt: skip
    shutil.rmtree(source)
    return next(target.glob("*.whl"))


def build(session: nox.Session, names: list[str]) -> list[Path]:
    """Wheels of some distributions; leaves build tools and mx-core in the environment."""
    if any(not list((WHEELS / f"{n}-{fingerprint(n)}").glob("*.whl")) for n in names):
        session.install("-q", *BUILD_TOOLS)
        session.install("-q", "pluggy", "click")
        core = wheel(session, "mx-core")
        session.install("-q", "--no-deps", "--no-index", "--force-reinstall", str(core))
    return [wheel(session, name) for name in names]


def install(session: nox.Session, names: list[str], *extras: str) -> None:
    """Installs distributions from wheels built here; never asks an index for our own names."""
    own, foreign = closure(names, extras)
    wheels = build(session, own)
    session.install("-q", *foreign)
    session.install("-q", "--no-deps", "--no-index", "--force-reinstall", *map(str, wheels))


ALL = ["mx", "mx-operators-cuda", "mx-example-operators"]


# ---- sessions -----------------------------------------------------------------------------------


@nox.session(venv_backend="none")
def dev(session: nox.Session) -> None:
    """Editable install of everything into .venv, in dependency order."""
    python = ROOT / ".venv" / "bin" / "python"
    if not python.exists():
        session.run(sys.executable, "-m", "venv", ".venv", external=True)
    pip = (str(python), "-m", "pip", "install", "-q")
    foreign = closure(list(distributions()), ("test",))[1]
    session.run(*pip, *TEST_TOOLS, "ruff", "mypy", *foreign, external=True)
    for folder in distributions().values():
        session.run(*pip, "--no-deps", "--no-build-isolation", "-e", str(folder), external=True)
    session.log("ready: . .venv/bin/activate")


@nox.session
def tests(session: nox.Session) -> None:
    """All tests of all packages, installed from wheels. Arguments go to pytest."""
    install(session, ALL, "test")
    session.install("-q", *TEST_TOOLS)
    parallel = [] if any(a.startswith("-n") for a in session.posargs) else ["-n", "2"]
    chosen = session.posargs or ["-m", "not slow and not gpu"]
    session.run("python", "-m", "pytest", *parallel, *chosen, env={"MX_STRICT_PLUGINS": "1"})


@nox.session
def fuzz(session: nox.Session) -> None:
    """Random operator calls in guarded processes, a tenth under AddressSanitizer; `-- 100000 --seed 7`."""
    install(session, ALL, "test")
    session.install("-q", *BUILD_TOOLS)
    script = ("tests/fuzz/fuzz_operators.py", "--sanitize", str(ROOT / ".nox" / "sanitized-parts"))
    session.run("python", *script, *(session.posargs or ["1000000"]))


@nox.session
def nightly(session: nox.Session) -> None:
    """The slow tests, two files at a time."""
    install(session, ALL, "test")
    session.install("-q", *TEST_TOOLS)
    session.run("python", "-m", "pytest", "-m", "slow", "-n", "2", "--dist", "loadfile", *session.posargs)


@nox.session(python=False)
def isolated(session: nox.Session) -> None:
    """Each package installed alone with its declared dependencies, its own tests run."""
    for name in session.posargs or list(distributions()):
        session.notify(f"alone(name='{name}')")


@nox.session(tags=["isolated"])
@nox.parametrize("name", list(distributions()))
def alone(session: nox.Session, name: str) -> None:
    """One package with only its declared dependencies and its `test` extra."""
    own, foreign = closure([name], ("test",))
    wheels = build(session, own)
    session.run("python", "-m", "pip", "uninstall", "-q", "-y", *distributions(), *map(base, BUILD_TOOLS[1:]))
    session.install("-q", "pip", *foreign)
    session.install("-q", "--no-deps", "--no-index", "--force-reinstall", *map(str, wheels))
    session.run("python", "-m", "pip", "check")
    folder = distributions()[name].relative_to(ROOT) / "tests"
    session.run("python", "-m", "pytest", "-q", "-m", "not slow and not gpu", str(folder))


def native_tests(session: nox.Session, kind: str, *options: str) -> None:
    """Builds and runs tests/cpp of every package that has them."""
    for name, folder in distributions().items():
        source = folder / "tests" / "cpp"
        if not (source / "CMakeLists.txt").exists() or (session.posargs and name not in session.posargs):
            continue
        out = ROOT / ".nox" / "cpp" / f"{name}-{kind}"
        include = ROOT / "packages" / "mx-core" / "src" / "mx_core" / "include"
        session.run(
            "cmake", "-S", str(source), "-B", str(out), "-G", "Ninja", f"-DMX_CORE_INCLUDE={include}",
            f"-DPython_EXECUTABLE={sys.executable}", *options, external=True,
        )  # fmt: skip
        session.run("cmake", "--build", str(out), external=True)
        session.run("ctest", "--test-dir", str(out), "--output-on-failure", "--timeout", "300", external=True)


@nox.session(venv_backend="none")
def cpp(session: nox.Session) -> None:
    """C++ tests."""
    native_tests(session, "plain", "-DCMAKE_BUILD_TYPE=RelWithDebInfo")


@nox.session(venv_backend="none")
def sanitize(session: nox.Session) -> None:
    """C++ tests under the thread sanitizer, then under the address and undefined-behaviour ones."""
    for kind, flag in (("thread", "thread"), ("address", "address,undefined")):
        native_tests(session, kind, f"-DMX_SANITIZE={flag}", "-DCMAKE_BUILD_TYPE=RelWithDebInfo")


@nox.session
def lint(session: nox.Session) -> None:
    """Style and formatting."""
    session.install("-q", "ruff>=0.9")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session
def types(session: nox.Session) -> None:
    """mypy --strict over every package's src."""
    session.install("-q", "mypy>=1.14", "types-setuptools", "types-tqdm", *closure(list(distributions()))[1])
    roots = [folder / "src" for folder in distributions().values()]
    env = {"MYPYPATH": ":".join(map(str, roots))}
    for root in roots:
        package = next(p.name for p in root.iterdir() if (p / "__init__.py").exists())
        session.run("mypy", "--explicit-package-bases", "-p", package, env=env)


@nox.session
def train(session: nox.Session) -> None:
    """Trains a convolutional network on handwritten digits through every package."""
    install(session, ["mx"], "plot")
    session.install("-q", "scikit-learn>=1.5")
    session.run("python", "docs/guides/digits/train.py", *session.posargs)


def benchmark_scripts(wanted: list[str]) -> dict[str, Path]:
    """Benchmarks by `package/script`, all or those of some packages (`engine`) or names (`bench_push`)."""
    found = {}
    for name, folder in distributions().items():
        short = name.removeprefix("mx-")
        for script in sorted((folder / "benchmarks").glob("bench_*.py")):
            if not wanted or {name, short, script.stem, script.stem.removeprefix("bench_")} & set(wanted):
                found[f"{short}/{script.stem.removeprefix('bench_')}"] = script
    return found


# Those of a kind come from one index or not at all. Only a PyTorch without CUDA is a baseline for the CPU.
BASELINES = {
    "PyTorch": ("torch==2.13.0+cpu" if sys.platform == "linux" else "torch==2.13.0",),
    "JAX": ("jax",),
    "ONNX Runtime and OpenVINO": ("onnx", "onnxruntime", "openvino"),
    "oneTBB": ("tbb-devel",),
}


def install_baselines(session: nox.Session) -> list[str]:
    """Installs what we are measured against; a line for each that pip does not get."""
    missing = []
    for name, packages in BASELINES.items():
        with contextlib.suppress(CommandFailed):
            session.install("-q", *packages, silent=True)
            session.log(f"baseline: {name}")
            continue
        missing.append(f"missing as a baseline: {name}")
    return missing


def mxnet_python(session: nox.Session) -> str:
    """A Python with MXNet 1.9.1, made in .nox where there is a python3.8 to make it with; else empty."""
    given = os.environ.get("MX_BENCH_MXNET_PYTHON")
    if given:
        return given
    python = ROOT / ".nox" / "mxnet-1.9.1" / "bin" / "python"
    if not python.exists():
        old = shutil.which("python3.8")
        if not old or subprocess.call([old, "-c", ""], stderr=subprocess.DEVNULL):
            return ""
        session.run(old, "-m", "venv", "--clear", str(python.parents[1]), external=True)
        mxnet = ("mxnet==1.9.1", "numpy<1.24")
        session.run(str(python), "-m", "pip", "install", "-q", *mxnet, external=True)
    return str(python)


def run_benchmark(python: str, script: Path, limit: float, env: dict[str, str]) -> tuple[str, list[str]]:
    """Runs a script, showing what it prints; `ok`, `failed` or `time limit`, and the lines."""
    process = subprocess.Popen(
        [python, "-u", str(script)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        errors="replace", cwd=ROOT, start_new_session=True, env={**os.environ, **env},
    )  # fmt: skip
    late = threading.Event()

    def stop() -> None:
        if process.poll() is None:
            late.set()
            os.killpg(process.pid, signal.SIGKILL)  # its children too, who hold the pipe

    timer = threading.Timer(limit, stop)
    timer.start()
    lines = []
    try:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line.rstrip())
        code = process.wait()
    except BaseException:
        stop()
        raise
    finally:
        timer.cancel()
    return ("time limit" if late.is_set() else "failed" if code else "ok"), lines


def ratio_lines(lines: list[str]) -> list[str]:
    """What a benchmark concludes: lines with a ratio, or the table below a heading with one; else the end."""
    found = []
    table = False
    for line in lines:
        named = re.search(r"\bratios?\b(\W*\d)?", line.lower())
        if named:
            table = named[1] is None
            found.append(line)
        elif table and re.search(r"\d", line):
            found.append(line)
        else:
            table = table and bool(line.strip())
    return found or lines[-8:]


@nox.session
def bench(session: nox.Session) -> None:
    """Benchmarks beside foreign baselines; `nox -s bench -- engine io` runs those of some packages.

    `--limit 60` stops each script after a minute instead of five.
    """
    parser = argparse.ArgumentParser(prog="nox -s bench --")
    parser.add_argument("wanted", nargs="*")
    parser.add_argument("--limit", type=float, default=300.0)
    given = parser.parse_args(session.posargs)
    scripts = benchmark_scripts(given.wanted)
    for word in given.wanted:
        if not benchmark_scripts([word]):
            session.error(f"no benchmark matches {word!r}; there are: {', '.join(benchmark_scripts([]))}")
    install(session, ALL, "test")
    notes = install_baselines(session)
    env = {"MX_BENCH_MXNET_PYTHON": mxnet} if (mxnet := mxnet_python(session)) else {}
    if not env:
        notes.append("MXNet 1.9.1 is missing as a baseline: it needs a python3.8, or MX_BENCH_MXNET_PYTHON")
    results = {}
    for name, script in scripts.items():
        session.log(name)
        results[name] = run_benchmark(f"{session.bin}/python", script, given.limit, env)
    print()
    for name, (status, lines) in results.items():
        print(f"{name:32} {status}")
        for line in ratio_lines(lines):
            print(f"    {line}")
    failed = [name for name, (status, _) in results.items() if status != "ok"]
    for note in notes:
        session.warn(note)
    if failed:
        session.error(f"{len(failed)} of {len(results)} benchmarks did not end well: {', '.join(failed)}")


@nox.session
def wheels(session: nox.Session) -> None:
    """Wheels of everything, or of some packages and what they need, in dist/, with their sizes."""
    target = ROOT / "dist"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    names = closure(session.posargs)[0] if session.posargs else list(distributions())
    for path in build(session, names):
        shutil.copy(path, target)
        session.log(f"{path.stat().st_size / 1e6:7.2f} MB  {path.name}")


@nox.session
def docs(session: nox.Session) -> None:
    """The documentation as HTML in docs/_build."""
    install(session, ALL)
    session.install("-q", "sphinx>=8", "myst-parser>=4", "pydata-sphinx-theme>=0.16", "setuptools>=77")
    session.run("python", "-m", "sphinx", "-W", "-q", "-j", "auto", "-b", "html", "docs", "docs/_build/html")
