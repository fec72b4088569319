# SPDX-License-Identifier: Apache-2.0
"""The names of MXNet that a program uses, found by reading it; nothing of it runs."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

#: packages whose names count
_PACKAGES = ("mxnet", "mx")
#: built-in names that no module of MXNet has
_BUILTIN = frozenset(dir(builtins)) - {"abs", "all", "any", "max", "min", "pow", "round", "slice", "sum"}
_VARIABLE = re.compile(r"MXNET_[A-Z0-9_]+")


class Use(NamedTuple):
    """A name at a place.

    Attributes
    ----------
    line : from 1
    name : below `mx`, such as `mx.nd.zeros`; `MXNET_…` for an environment variable
    call : the call of which it is the function, if it is
    """

    line: int
    name: str
    call: ast.Call | None = None


class Method(NamedTuple):
    """An attribute of something whose type the text does not tell, and the call of it, if it is called."""

    line: int
    name: str
    call: ast.Call | None = None


class Program(NamedTuple):
    """What was found in one program."""

    uses: list[Use]
    methods: list[Method]
    stars: list[str]  # modules all of whose names are imported


def read(source: str, filename: str = "<program>") -> Program:
    """The names in a program, by line.

    Raises
    ------
    SyntaxError  it is no Python, or that of Python 2
    """
    reader = _Reader()
    reader.visit(ast.parse(source, filename))
    return Program(sorted(reader.uses, key=lambda use: use.line), reader.methods, reader.stars)


class _Scope(dict[str, str | None]):
    """Name -> what of MXNet it stands for; None for anything else."""


class _Reader(ast.NodeVisitor):
    """Follows imports, and assignments of names of MXNet to others, in the order of the text."""

    def __init__(self) -> None:
        self.uses: list[Use] = []
        self.methods: list[Method] = []
        self.stars: list[str] = []
        self._scopes = [_Scope()]

    # ---- what names stand for ----

    def _meaning(self, node: ast.AST) -> str | None:
        """The name of MXNet that a chain of attributes stands for."""
        if isinstance(node, ast.Attribute):
            above = self._meaning(node.value)
            return None if above is None else f"{above}.{node.attr}"
        if isinstance(node, ast.Name):
            for scope in reversed(self._scopes):
                if node.id in scope:
                    return scope[node.id]
        return None

    def _bind(self, name: str, meaning: str | None) -> None:
        self._scopes[-1][name] = meaning

    def visit_Import(self, node: ast.Import) -> None:
        """`import mxnet as mx`, `import mxnet.ndarray`."""
        for alias in node.names:
            top, _, rest = alias.name.partition(".")
            if top not in _PACKAGES:
                self._bind(alias.asname or top, None)
                continue
            name = f"mx.{rest}" if rest else "mx"
            self._bind(alias.asname or top, name if alias.asname else "mx")
            if rest:
                self.uses.append(Use(node.lineno, name))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """`from mxnet.gluon import nn`."""
        top, _, rest = (node.module or "").partition(".")
        if node.level or top not in _PACKAGES:
            for alias in node.names:
                self._bind(alias.asname or alias.name, None)
            return
        above = f"mx.{rest}" if rest else "mx"
        for alias in node.names:
            if alias.name == "*":
                self.stars.append(above)
                if rest:
                    self.uses.append(Use(node.lineno, above))
                continue
            name = f"{above}.{alias.name}"
            self._bind(alias.asname or alias.name, name)
            self.uses.append(Use(node.lineno, name))

    def visit_Assign(self, node: ast.Assign) -> None:
        """`nn = mx.gluon.nn` gives a name of MXNet another one; other values hide it."""
        self.visit(node.value)
        meaning = self._meaning(node.value)
        for target in node.targets:
            for name in _bound(target):
                self._bind(name, meaning if isinstance(target, ast.Name) else None)
            self.visit(target)

    # ---- uses ----

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """A chain of attributes, as long as it is."""
        name = self._meaning(node)
        if name is not None:
            self.uses.append(Use(node.lineno, name))
            return
        self.methods.append(Method(node.end_lineno or node.lineno, node.attr))
        self.visit(node.value)

    def visit_Name(self, node: ast.Name) -> None:
        """A name by itself may come from `from mxnet import *`."""
        known = any(node.id in scope for scope in self._scopes)
        if isinstance(node.ctx, ast.Load) and not known and node.id not in _BUILTIN and self.stars:
            self.uses += [Use(node.lineno, f"{module}.{node.id}?") for module in self.stars]

    def visit_Call(self, node: ast.Call) -> None:
        """A call of such a name, with its arguments; `getattr(mx.nd, "zeros")` is one of the name, too."""
        name = self._meaning(node.func)
        if name is not None:
            self.uses.append(Use(node.lineno, name, node))
        elif isinstance(node.func, ast.Attribute):
            self.methods.append(Method(node.func.end_lineno or node.lineno, node.func.attr, node))
            self.visit(node.func.value)
        else:
            self.visit(node.func)
        match node:
            case ast.Call(func=ast.Name(id="getattr"), args=[owner, ast.Constant(value=str(attribute)), *_]):
                if above := self._meaning(owner):
                    self.uses.append(Use(node.lineno, f"{above}.{attribute}"))
        for argument in (*node.args, *node.keywords):
            self.visit(argument)

    def visit_Constant(self, node: ast.Constant) -> None:
        """The name of an environment variable."""
        if isinstance(node.value, str) and _VARIABLE.fullmatch(node.value):
            self.uses.append(Use(node.lineno, node.value))

    # ---- scopes ----

    def _within(self, node: ast.AST, hidden: Sequence[str], parts: Iterator[ast.AST]) -> None:
        self._scopes.append(_Scope(dict.fromkeys(hidden)))
        for part in parts:
            self.visit(part)
        self._scopes.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Parameters hide names outside; defaults and decorators do not see them."""
        for part in (*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults)):
            self.visit(part)
        self._bind(node.name, None)
        self._within(node, _parameters(node.args), iter(node.body))

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        """As a function."""
        self._within(node, _parameters(node.args), iter([node.body]))

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """What is assigned in the body is seen there only."""
        for part in (*node.decorator_list, *node.bases, *node.keywords):
            self.visit(part)
        self._bind(node.name, None)
        self._within(node, (), iter(node.body))

    def visit_For(self, node: ast.For) -> None:
        """The variable of a loop hides what had its name."""
        self.visit(node.iter)
        for name in _bound(node.target):
            self._bind(name, None)
        for part in (*node.body, *node.orelse):
            self.visit(part)


def _bound(target: ast.AST) -> list[str]:
    """The names that an assignment binds."""
    if isinstance(target, (ast.Attribute, ast.Subscript)):
        return []
    return [node.id for node in ast.walk(target) if isinstance(node, ast.Name)]


def _parameters(arguments: ast.arguments) -> list[str]:
    every = (
        *arguments.posonlyargs,
        *arguments.args,
        *arguments.kwonlyargs,
        arguments.vararg,
        arguments.kwarg,
    )
    return [each.arg for each in every if each is not None]
