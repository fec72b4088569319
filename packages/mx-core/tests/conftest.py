# SPDX-License-Identifier: Apache-2.0
"""Plug-ins that exist only for a test: distributions with metadata and a module, on sys.path."""

import importlib
import sys
import textwrap
import warnings
from pathlib import Path

import click.testing  # noqa: F401  loaded before site-packages leaves sys.path
import ml_dtypes  # noqa: F401
import numpy  # noqa: F401
import packaging.requirements  # noqa: F401
import pytest

import mx_core.cli
import mx_core.testing.plugin
from mx_core import lifecycle, operators, plugins, services
from mx_core.plugins import loaded
from mx_core.services import chosen


class Site:
    """A directory of fake distributions."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.modules: list[str] = []

    def add(
        self,
        name: str,
        source: str,
        *,
        distribution: str | None = None,
        version: str = "0.1.0",
        requires: tuple[str, ...] = (),
        group: str = "mx.plugins.v1",
        folder: str = ".",
    ) -> None:
        """A distribution with one plug-in `name`, whose module has the given source."""
        distribution = distribution or f"mx-{name}"
        module = f"fake_{distribution}_{name}".replace("-", "_")
        home = self.path / folder
        home.mkdir(exist_ok=True)
        (home / f"{module}.py").write_text(textwrap.dedent(source))
        info = home / f"{distribution.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        lines = ["Metadata-Version: 2.1", f"Name: {distribution}", f"Version: {version}"]
        lines += [f"Requires-Dist: {requirement}" for requirement in requires]
        (info / "METADATA").write_text("\n".join(lines) + "\n")
        (info / "entry_points.txt").write_text(f"[{group}]\n{name} = {module}\n")
        self.modules.append(module)
        importlib.invalidate_caches()
        forget()


def forget() -> None:
    plugins.reset()
    services.reset()
    operators.reset()


def _has_distributions(entry: str) -> bool:
    found = Path(entry or ".")
    return found.is_dir() and any(p.suffix in (".dist-info", ".egg-info") for p in found.iterdir())


@pytest.fixture
def real_plugins():
    """What this process had loaded before is put aside, not shut down, and comes back afterwards."""
    kept = loaded._state, dict(chosen._made), operators._table, lifecycle._current
    lifecycle._current = None
    yield
    loaded._state, made, operators._table, lifecycle._current = kept
    chosen._made.clear()
    chosen._made.update(made)


@pytest.fixture
def site(tmp_path, monkeypatch, real_plugins):
    """No plug-in is installed but those added to it."""
    for name in ("MX_DISABLE_PLUGINS", "MX_STRICT_PLUGINS", "MX_ENGINE_TYPE", "MXNET_ENGINE_TYPE"):
        monkeypatch.delenv(name, raising=False)
    rest = [entry for entry in sys.path if not _has_distributions(entry)]
    monkeypatch.setattr(sys, "path", [str(tmp_path), *rest])
    importlib.invalidate_caches()
    forget()
    made = Site(tmp_path)
    yield made
    monkeypatch.undo()
    importlib.invalidate_caches()
    for module in made.modules:
        sys.modules.pop(module, None)
    lifecycle.shutdown()
    forget()


@pytest.fixture
def quiet():
    """For tests that look at states and not at warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mx_core.PluginWarning)
        yield


ENGINE = """
    import mx_core

    class Engine:
        capsule = object()

        def __init__(self, name):
            self.name = name
            self.attached = []

        def attach_device(self, capsule):
            self.attached.append(capsule)

    @mx_core.hookimpl
    def mx_register_engines(registry):
        registry.add({name!r}, lambda: Engine({name!r}), priority={priority})
"""


@pytest.fixture
def engine_source():
    """Source of a plug-in with one engine."""
    return lambda name, priority=0: ENGINE.format(name=name, priority=priority)
