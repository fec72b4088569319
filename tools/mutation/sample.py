# SPDX-License-Identifier: Apache-2.0
"""Mutants of Python sources, drawn by a seed from the operators of cosmic-ray."""

from __future__ import annotations

import ast
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import cosmic_ray.plugins
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code

from .mutant import Mutant

#: need arguments, or swap what is the same for almost every value
_LEFT_OUT = ("VariableReplacer", "VariableInserter", "_Is_Eq", "_IsNot_NotEq", "_Eq_Is", "_NotEq_IsNot")
_ATTEMPTS = 1000


def operators() -> list[str]:
    """Names of the operators that are used."""
    names = cosmic_ray.plugins.operator_names()
    return sorted(name for name in names if not name.endswith(_LEFT_OUT))


def places(source: str) -> dict[tuple[int, int], list[tuple[str, int]]]:
    """Operators that apply, with the number of the occurrence, by line and column."""
    made = {name: cosmic_ray.plugins.get_operator(name)() for name in operators()}
    seen: dict[str, int] = defaultdict(int)
    found: dict[tuple[int, int], list[tuple[str, int]]] = defaultdict(list)
    for node in ast_nodes(get_ast(source)):
        for name, operator in made.items():
            for start, _ in operator.mutation_positions(node):
                found[start].append((name, seen[name]))
                seen[name] += 1
    return dict(found)


class _Meaning(ast.NodeTransformer):
    """Drops what has no effect when a program runs: annotations, and what only type checkers import."""

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node.returns = None
        self.generic_visit(node)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AnnAssign:
        node.annotation = ast.Constant(0)
        self.generic_visit(node)
        return node

    def visit_If(self, node: ast.If) -> ast.AST | None:
        if any(isinstance(part, ast.Name) and part.id == "TYPE_CHECKING" for part in ast.walk(node.test)):
            return None
        return self.generic_visit(node)


def meaning(source: str) -> str:
    """Text that is the same for two sources which run alike.

    Raises
    ------
    SyntaxError
        It is not Python.
    """
    return ast.dump(_Meaning().visit(ast.parse(source)))


def mutants(files: Sequence[Path], seed: str) -> Iterator[Mutant]:
    """Different mutants without end, or until none is left to be found.

    A place is drawn first and then an operator, so that a sum is not looked at more often than a truth value
    because there are more ways to change it.
    """
    rng = random.Random(seed)
    sources = {file: file.read_text() for file in files}
    weights = [len(source.splitlines()) for source in sources.values()]
    known: dict[Path, dict[tuple[int, int], list[tuple[str, int]]]] = {}
    drawn: set[str] = set()
    tried: set[tuple[Path, str, int]] = set()
    misses = 0
    while misses < _ATTEMPTS:
        file = rng.choices(list(files), weights)[0]
        if file not in known:
            known[file] = places(sources[file])
        misses += 1
        if not known[file]:
            continue
        place = rng.choice(sorted(known[file]))
        name, occurrence = rng.choice(known[file][place])
        if (file, name, occurrence) in tried:
            continue
        tried.add((file, name, occurrence))
        mutant = _make(file, sources[file], place[0], name, occurrence)
        if mutant is not None and mutant.key not in drawn:
            drawn.add(mutant.key)
            misses = 0
            yield mutant


def _make(file: Path, source: str, line: int, name: str, occurrence: int) -> Mutant | None:
    changed = mutate_code(source, cosmic_ray.plugins.get_operator(name)(), occurrence)
    try:
        if changed is None or meaning(changed) == meaning(source):
            return None
    except SyntaxError:
        return None
    return Mutant.of(file, source, changed, line, name.removeprefix("core/"))
