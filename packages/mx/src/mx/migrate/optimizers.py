# SPDX-License-Identifier: Apache-2.0
"""Arguments of optimizers that a program writes out, wherever it gives them."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from typing import Any

import mx
from mx_core.errors import ArgumentError
from mx_train.optimizer.arguments import arguments_of, unknown_arguments


def of_call(here: Any, call: ast.Call) -> Iterator[str]:
    """What is to be said of a call of something of MXNet: an optimizer, `create`, or a Trainer."""
    keywords = [each.arg for each in call.keywords if each.arg is not None]
    if inspect.isclass(here) and issubclass(here, mx.optimizer.Optimizer):
        yield from _of_arguments(here, keywords)
    elif here is mx.optimizer.create and call.args:
        yield from _of_name(call.args[0], [each for each in keywords if each != "name"])
    elif here is mx.gluon.Trainer:
        given = _given(call, 1, "optimizer"), _given(call, 2, "optimizer_params")
        yield from _of_name(given[0], _keys(given[1]))


def of_method(call: ast.Call) -> Iterator[str]:
    """The same of any call with `optimizer_params`, such as of `fit` and `init_optimizer`."""
    if arguments := _keys(_given(call, -1, "optimizer_params")):
        yield from _of_name(_given(call, -1, "optimizer") or ast.Constant("sgd"), arguments)


def _given(call: ast.Call, place: int, name: str) -> ast.expr | None:
    """An argument by its place, none if that is negative, or by its name."""
    if 0 <= place < len(call.args) and not any(isinstance(each, ast.Starred) for each in call.args):
        return call.args[place]
    return next((each.value for each in call.keywords if each.arg == name), None)


def _keys(value: ast.expr | None) -> list[str]:
    """The names in `{"wd": 1}`, `dict(wd=1)` or `(("wd", 1),)`."""
    match value:
        case ast.Dict(keys=keys):
            found: list[ast.expr | None] = list(keys)
        case ast.Call(func=ast.Name(id="dict"), keywords=keywords):
            return [each.arg for each in keywords if each.arg is not None]
        case ast.Tuple(elts=pairs) | ast.List(elts=pairs):
            found = [pair.elts[0] for pair in pairs if isinstance(pair, ast.Tuple) and pair.elts]
        case _:
            return []
    return [each.value for each in found if isinstance(each, ast.Constant) and isinstance(each.value, str)]


def _of_name(name: ast.expr | None, arguments: list[str]) -> Iterator[str]:
    if not isinstance(name, ast.Constant) or not isinstance(name.value, str):
        return
    try:
        kind = mx.optimizer.Optimizer.opt_registry.find(name.value)
    except ArgumentError as error:
        yield str(error)
        return
    if inspect.isclass(kind):
        yield from _of_arguments(kind, arguments)


def _of_arguments(kind: type, arguments: list[str]) -> Iterator[str]:
    known = arguments_of(kind)
    unknown = sorted(name for name in arguments if name not in known)
    if unknown:
        yield f"{kind.__name__}: {unknown_arguments(kind, unknown)}"
