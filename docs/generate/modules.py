# SPDX-License-Identifier: Apache-2.0
"""One page per package: its public modules with their documentation."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from pathlib import Path

from generate.interface import covered

#: package -> beginnings of the names of modules that are for readers of the source, not for users
INTERNAL = {
    "mx_core": ("build_info", "cli", "commands", "discovery", "lifecycle", "loading", "environment"),
    "mx_engine": ("lifecycle", "settings"),
    "mx_gluon": (
        "block.files", "block.monitoring", "block.scope", "block.structure", "block.summary", "block.tracing",
        "nn.extents", "parameter.filling", "parameter.loading", "parameter.shapes",
        "probability.distributions.divergences", "probability.distributions.several_outcomes",
        "probability.distributions.stacking", "probability.distributions.two_outcomes", "probability.values",
        "trainer.updates",
    ),
    "mx_io": ("arrays", "lookup", "packing", "pixels", "workers"),
    "mx_kvstore": ("keys", "reduction"),
    "mx_ndarray": ("exchange", "functions", "indexing", "invocation", "methods", "operator_functions", "views"),
    "mx_operators": ("",),
    "mx_operators_cpu": ("",),
    "mx_operators_cuda": ("",),
    "mx_symbol": (
        "command", "graph.infer", "graph.node", "graph.text", "memory.check", "memory.consecutive", "memory.schedule",
        "passes.", "runtime.bind", "runtime.program", "serialization", "symbol.arithmetic",
        "symbol.compose", "symbol.creation", "symbol.fluent", "symbol.functions", "symbol.inference",
        "symbol.namespaces", "symbol.symbol", "symbol.variable",
    ),
}  # fmt: skip
ALWAYS_INTERNAL = ("plugin", "_")


def names(package: str) -> list[str]:
    """Public modules of a package, itself first."""
    module = importlib.import_module(package)
    hidden = INTERNAL.get(package, ())
    found = [package]
    for info in pkgutil.walk_packages(module.__path__, f"{package}."):
        parts = info.name.split(".")[1:]
        if not any(part.startswith(ALWAYS_INTERNAL) for part in parts) and not ".".join(parts).startswith(
            hidden or "\0"
        ):
            found.append(info.name)
    return found


def section(module: str, elsewhere: Mapping[str, str]) -> list[str]:
    """The documentation of a module without what is documented under a name of `mx`."""
    lines = [f"``{module}``", "-" * (len(module) + 4), "", f".. automodule:: {module}"]
    moved = {
        place.rpartition(".")[2]: name
        for place, name in elsewhere.items()
        if place.rpartition(".")[0] == module
    }
    if moved:
        lines.append(f"   :exclude-members: {', '.join(moved)}")
        listed = ", ".join(f":py:obj:`{name}`" for name in moved.values())
        lines += ["", f"Documented under the names of ``mx``: {listed}."]
    return [*lines, ""]


def write(target: Path, root: Path) -> None:
    """`index.rst` and a page per package that has modules for users."""
    packages = [
        p.parent.name for p in sorted(root.glob("packages/*/pyproject.toml")) if p.parent.name != "mx"
    ]
    elsewhere = covered()
    for name in packages:
        lines = [name, "=" * len(name), ""]
        for module in names(name.replace("-", "_")):
            lines += section(module, elsewhere)
        (target / f"{name}.rst").write_text("\n".join(lines))
    index = [
        "Modules by package",
        "==================",
        "",
        "For programs that use a package without `mx`.",
        "",
    ]
    index += [".. toctree::", "   :maxdepth: 1", ""]
    (target / "index.rst").write_text("\n".join(index + [f"   {name}" for name in packages]) + "\n")
