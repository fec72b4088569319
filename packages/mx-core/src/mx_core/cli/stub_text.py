# SPDX-License-Identifier: Apache-2.0
"""Type stubs of modules whose functions are made from operators: what editors and type checkers see.

Such functions are generated when they are first used, so no source has them. The stub of a module
is what its source defines, and a function per operator that it offers now.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import sysconfig
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from mx_core.operator.declaration import Operator
from mx_core.operator.params import FieldInfo

_HEAD = (
    "# Written by `mx stubs` from the operators that are installed.",
    "from collections.abc import Callable, Mapping, Sequence",
    "from typing import Any, Literal",
)
#: Python's types as they are accepted; MXNet's text forms are for files
_ACCEPTED = {int: "int", float: "float", bool: "bool", str: "str"}


def site_packages() -> Path:
    """Where stubs are found by every tool that uses this Python."""
    return Path(sysconfig.get_path("purelib"))


def write(target: Path, modules: Mapping[str, str]) -> list[Path]:
    """Writes partial stub packages (PEP 561) of modules, and of those inside them, into a folder.

    Parameters
    ----------
    modules : name of a module -> `"module:Class"` of the arrays its functions take

    Returns
    -------
    list of Path
        The stubs.
    """
    written = []
    for name, array in modules.items():
        module = importlib.import_module(name)
        inner = [info.name for info in pkgutil.iter_modules(getattr(module, "__path__", ()), f"{name}.")]
        for each in (name, *inner):
            top, *rest = each.split(".")
            path = (target / f"{top}-stubs").joinpath(*rest)
            package = not rest or (each == name and inner)
            path = path / "__init__.pyi" if package else path.with_suffix(".pyi")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text(importlib.import_module(each), array))
            (target / f"{top}-stubs" / "py.typed").write_text("partial\n")
            written.append(path)
    return written


def text(module: ModuleType, array: str) -> str:
    """The stub of a module."""
    home, _, kind = array.partition(":")
    lines = [*_HEAD, f"from {home} import {kind}", ""]
    lines += own(inspect.getsource(module))
    known = set(vars(module)) - set(_generated(module))
    for name in sorted(dir(module)):
        if name in known or not name.isidentifier() or name.startswith("__"):
            continue
        value = getattr(module, name)
        op = getattr(value, "__wrapped_operator__", None)
        if op is not None:
            lines += function(name, op, kind)
        elif isinstance(value, ModuleType):
            lines.append(f"from {value.__name__.rpartition('.')[0]} import {name} as {name}")
    return "\n".join(lines) + "\n"


def _generated(module: ModuleType) -> list[str]:
    """Names of operator functions that have been asked for already."""
    return [name for name, value in vars(module).items() if hasattr(value, "__wrapped_operator__")]


def own(source: str) -> list[str]:
    """What the source of a module defines: imports, functions without their bodies, other names."""
    lines: list[str] = []
    for statement in _statements(ast.parse(source).body):
        match statement:
            case ast.ImportFrom(module="__future__"):
                pass
            case ast.Import() | ast.ImportFrom():
                lines.append(ast.unparse(statement))
            case ast.FunctionDef(name=name) if not name.startswith("__"):
                statement.body = [ast.Expr(ast.Constant(...))]
                lines.append(ast.unparse(statement))
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Name(id=value)):
                lines.append(f"{name} = {value}")
    return lines


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements of a module, those for type checkers included."""
    for statement in body:
        if isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.unparse(statement.test):
            yield from _statements(statement.body)
        else:
            yield statement


def function(name: str, op: Operator, array: str) -> list[str]:
    """The stub of an operator's function; `array` is the class of its inputs."""
    infos = {info.name: info for info in op.Param.fields()}
    parts: list[str] = []
    for parameter in op.signature().parameters.values():
        match parameter.kind:
            case inspect.Parameter.VAR_POSITIONAL:
                parts.append(f"*{parameter.name}: {array} | Sequence[{array}]")
            case inspect.Parameter.VAR_KEYWORD if array == "Symbol":
                parts.append("attr: Mapping[str, str] | None = ...")
            case inspect.Parameter.VAR_KEYWORD:
                pass  # what is not declared is an error
            case _ if parameter.name in infos:
                parts.append(f"{parameter.name}: {_annotation(infos[parameter.name])}")
            case _ if parameter.name == "name":
                parts.append("name: str | None = ...")
            case _ if parameter.name == "out":
                parts.append(f"out: {array} | Sequence[{array}] | None = ...")
            case _:
                parts.append(f"{parameter.name}: {array} | None = ...")
    first = (inspect.getdoc(type(op)) or "").split("\n")[0].replace("\\", "\\\\").replace('"', "'")
    return [
        f"def {name}({', '.join(parts)}) -> {_result(op, array)}:",
        f'    """{first or op.name}"""',
    ]


def _annotation(info: FieldInfo) -> str:
    """What a parameter accepts, and its default."""
    if info.choices:
        accepted = f"Literal[{', '.join(map(repr, info.choices))}]"
    else:
        alternatives = typing.get_args(info.annotation)
        optional = type(None) in alternatives
        kind: Any = alternatives[0] if optional else info.annotation
        if typing.get_origin(kind) is tuple:
            inner = _ACCEPTED.get(typing.get_args(kind)[0], "Any")
            accepted = f"Sequence[{inner}] | {inner}"
        else:
            accepted = _ACCEPTED.get(kind, "Any")
        if info.name == "dtype":
            accepted += " | type | Any"
        accepted += " | None" if optional else ""
    plain = isinstance(info.default, (bool, int, str)) and not info.required
    return f"{accepted} = {repr(info.default) if plain else '...'}"


def _result(op: Operator, array: str) -> str:
    """One array, a list where there are always several, anything where parameters decide."""
    if array == "Symbol":
        return array
    kind = type(op)
    decided = kind.outputs is Operator.outputs
    decided = decided and kind.num_visible_outputs is Operator.num_visible_outputs
    if not decided:
        return "Any"
    return {0: "None", 1: array}.get(len(op.results), f"list[{array}]")
