# SPDX-License-Identifier: Apache-2.0
"""The Python interface under the names that programs use: a page per module of `mx`."""

from __future__ import annotations

import inspect
import re
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import mx
from generate import naming
from mx_core import operators

#: modules of `mx` under the name that most programs use
NAMESPACES = (
    "autograd", "base", "callback", "checkpoint", "context", "contrib.amp", "contrib.autograd", "contrib.io",
    "contrib.svrg_optimization.svrg_module", "contrib.tensorboard", "contrib.text.embedding",
    "contrib.text.utils", "contrib.text.vocab", "engine", "executor", "gluon.block",
    "gluon.contrib.estimator", "gluon.contrib.nn", "gluon.data", "gluon.data.vision",
    "gluon.data.vision.transforms", "gluon.loss", "gluon.model_zoo.model_store", "gluon.model_zoo.vision",
    "gluon.nn", "gluon.parameter", "gluon.probability", "gluon.probability.constraint", "gluon.rnn",
    "gluon.trainer", "gluon.utils", "image", "init", "io", "kv",
    "libinfo", "log", "lr_scheduler", "metric", "mod", "model", "mon", "name", "nd", "operator", "opt",
    "profiler", "random", "recordio", "registry", "rnn", "runtime", "sym", "test_utils", "util", "viz",
)  # fmt: skip
#: names of `mx` itself that are documented nowhere else
TOP = ("AttrScope", "MXNetError", "waitall")
#: names of `mx` itself -> module that documents them
ELSEWHERE = {
    "Context": "context", "cpu": "context", "gpu": "context", "cpu_pinned": "context", "cpu_shared": "context",
    "current_context": "context", "num_gpus": "context", "NDArray": "nd", "Symbol": "sym", "is_np_shape": "util",
    "np_shape": "util", "set_np_shape": "util", "use_np_shape": "util",
}  # fmt: skip
#: modules that offer what others define
COLLECTIONS = ("mx.operator", "mx_io.io", "mx_ndarray.nd", "mx_symbol.sym")


def members(name: str) -> dict[str, Any]:
    """Classes and functions that `mx.NAME` offers; those generated from operators have pages of their own."""
    module = getattr_path(name)
    stated = vars(module).get("__all__", ())  # not those that are made for `import *`
    public = [*stated, *dir(module)]
    found = {key: getattr(module, key) for key in dict.fromkeys(public) if not key.startswith("_")}
    pages = operator_names() if name in ("nd", "sym") else frozenset()
    return {
        key: value
        for key, value in sorted(found.items())
        if (key in stated or _own(value, module)) and key not in pages
    }


@cache
def operator_names() -> frozenset[str]:
    """Names that the pages of operators document."""
    return frozenset(naming.shown(operators.get(name)) for name in operators.names())


def getattr_path(name: str) -> ModuleType:
    """The module that `mx.NAME` gives."""
    place: Any = mx
    for part in name.split("."):
        place = getattr(place, part)
    return place  # type: ignore[no-any-return]


def _own(value: Any, module: ModuleType) -> bool:
    if not (inspect.isclass(value) or inspect.isroutine(value)) or hasattr(value, "__wrapped_operator__"):
        return False
    home = getattr(value, "__module__", None) or ""
    return home.startswith("mx_" if module.__name__ in COLLECTIONS else module.__name__)


def covered() -> dict[str, str]:
    """Place of definition -> name in `mx`, of everything that has an entry here."""
    return {
        f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', key)}": f"mx.{name}.{key}"
        for name in NAMESPACES
        for key, value in members(name).items()
    }


def entry(path: str, value: Any) -> list[str]:
    """The directive that documents one class or function."""
    if inspect.isclass(value):
        return [f".. autoclass:: {path}", "   :members:", ""]
    if inspect.isroutine(value):
        return [f".. autofunction:: {path}", ""]
    return [f".. autodata:: {path}", ""]


def page(name: str) -> str:
    """The page of `mx.NAME`."""
    title = f"mx.{name}"
    summary = (inspect.getdoc(getattr_path(name)) or "").strip().split("\n\n")[0]
    lines = [title, "=" * len(title), "", summary, ""]
    if name in ("nd", "sym"):
        lines += ["Functions of operators are listed under :doc:`../operators/index`.", ""]
    for key, value in members(name).items():
        lines += entry(f"mx.{name}.{key}", value)
    return "\n".join(lines)


def write(target: Path, root: Path) -> None:
    """`index.rst`, a page per module, and one for the names of `mx` itself."""
    top = ["mx", "==", "", "Names of the package itself.", ""]
    for name in TOP:
        top += entry(f"mx.{name}", getattr(mx, name))
    top += [f"* ``mx.{name}``: see :doc:`{module}`" for name, module in ELSEWHERE.items()]
    (target / "mx.rst").write_text("\n".join(top))
    for name in NAMESPACES:
        (target / f"{name}.rst").write_text(page(name))
    index = ["Python interface", "================", "", "Public names as programs use them.", ""]
    rows = [f"* :doc:`mx.{name} <{name}>`: {first_line(name)}" for name in NAMESPACES]
    tree = ["", ".. toctree::", "   :hidden:", "", "   mx", *(f"   {name}" for name in NAMESPACES)]
    (target / "index.rst").write_text(
        "\n".join([*index, "* :doc:`mx`: contexts, arrays, symbols", *rows, *tree, ""])
    )


def first_line(name: str) -> str:
    """What a module says of itself in one line, without its name, which stands before it."""
    text = (inspect.getdoc(getattr_path(name)) or "").strip().split("\n")[0].rstrip(".")
    bare = re.sub(rf"^(The namespace )?`mx\.{re.escape(name)}`: ", "", text)
    return bare[:1].upper() + bare[1:]
