# SPDX-License-Identifier: Apache-2.0
"""Facts about an operator from its declaration: types, gradient, refusals."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from generate.applications import Application
from generate.trials import computes
from mx_core import dtypes, operators
from mx_core.errors import MXNetError
from mx_core.operator import Operator, Params, gradient_of, infer_shapes, infer_types, refusal
from mx_core.operator.gradient import Gradient

TYPES = ("float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32", "int64", "bool")
LETTERS = "TUVWXYZ"
FLOATING = tuple(t for t in TYPES if t in dtypes.FLOATING)
#: beyond this many derivatives, any number is taken to be offered
MOST_ORDERS = 4


def default_parameters(op: Operator) -> Params | None:
    """The defaults, with 1 for what must be given; None if that does not do."""
    given = {i.name: i.choices[0] if i.choices else 1 for i in op.Param.fields() if i.required}
    try:
        return op.Param.parse({op.variadic: "2"} | given if op.variadic else given, op=op.name)
    except MXNetError:
        return None


# ---- element types ------------------------------------------------------------------------------


def element_types(
    op: Operator, p: Params, known: Application | None = None
) -> tuple[dict[str, str], dict[str, str]]:
    """Per input and visible output its element type or a letter, and per letter what it may be.

    A type that the declaration lets pass and that then cannot be computed is left out; a known
    application serves to find out.
    """
    inputs = [*op.inputs(p), *op.aux(p)]
    outputs = op.outputs(p)[: op.num_visible_outputs(p)]
    unasked = _inferred(op, p, {}) or {}
    named: dict[str, str] = {}
    letters: dict[str, str] = {}
    for leader in inputs:
        if leader in named:
            continue
        tables = {t: found for t in TYPES if (found := _inferred(op, p, {leader: t})) is not None}
        if known is not None and known.params == p:
            tables = {
                t: v
                for t, v in tables.items()
                if t in FLOATING or computes(op, known, dict(zip(inputs, map(v.get, inputs), strict=True)))
            }
        if len(tables) == 1:
            named[leader] = next(iter(tables))
            continue
        letter = LETTERS[len(letters)] if len(letters) < len(LETTERS) else f"T{len(letters)}"
        letters[letter] = listed([*tables])
        named[leader] = letter
        for name in (*inputs, *outputs):
            results = {t: table[name] for t, table in tables.items()}
            if name not in named and {*results.values()} != {unasked.get(name)}:
                named[name] = _relation(letter, results)
    return {name: named.get(name) or unasked.get(name) or "any" for name in (*inputs, *outputs)}, letters


def _inferred(op: Operator, p: Params, given: Mapping[str, str]) -> dict[str, str | None] | None:
    """Types by name when those of some inputs are given; None if they are refused."""
    names = [*op.inputs(p), *op.aux(p)]
    codes = [dtypes.code(given[n]) if n in given else None for n in names]
    try:
        found = infer_types(op, p, codes)
    except MXNetError:
        return None
    return {
        name: None if code is None else dtypes.name(code)
        for name, code in zip([*names, *op.outputs(p)], [*found[0], *found[1]], strict=True)
    }


def _relation(letter: str, results: Mapping[str, str | None]) -> str:
    """One tensor's types in terms of another's."""
    others: dict[str | None, list[str]] = defaultdict(list)
    for given, found in results.items():
        if found != given:
            others[found].append(given)
    if not others:
        return letter
    if len({*results.values()}) == 1:
        return next(iter(others)) or "any"
    exceptions = [
        f"{found or 'any'} where {letter} is {listed(given, 'or')}" for found, given in others.items()
    ]
    return ", ".join([letter, *exceptions])


def listed(types: Sequence[str], word: str = "and") -> str:
    """Types in words, the floating-point ones and all of them by one."""
    if len(types) == len(TYPES):
        return "any element type"
    rest = [t for t in types if t not in FLOATING]
    words = [
        *([t for t in types if t in FLOATING] if not {*FLOATING} <= {*types} else ["floating-point"]),
        *rest,
    ]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {word} {words[-1]}" if words else "none"


# ---- gradient -----------------------------------------------------------------------------------


def gradient_facts(op: Operator, p: Params) -> list[str]:
    """Sentences: to which inputs, how often, what it keeps."""
    gradient = gradient_of(op, p)
    if gradient.is_zero:
        return ["None: its gradient is zero."]
    inputs = op.inputs(p)
    to = [name for name, entry in zip(inputs, gradient.grads, strict=True) if entry is not None]
    rest = [name for name in inputs if name not in to]
    said = [f"To {_code(to)}" + (f"; that of {_code(rest)} is zero." if rest else ".")]
    order = derivatives(op, p)
    if order == 1:
        said.append("Of first order: the derivative of the gradient is an error that names the operator.")
    else:
        said.append(
            "Derivatives of any order." if order >= MOST_ORDERS else f"Derivatives up to order {order}."
        )
    said.append(_kept(op, p, gradient))
    return said


def derivatives(op: Operator, p: Params, most: int = MOST_ORDERS) -> int:
    """How often an operator can be differentiated; `most` if that is not the end."""
    if op.name == refusal.NAME:
        return 0
    if most == 0:
        return 0
    try:
        nodes = gradient_of(op, p).nodes
    except MXNetError:
        return 0
    if any(node.op == refusal.NAME for node in nodes):
        return 0
    return 1 + min((derivatives(operators.get(n.op), n.params, most - 1) for n in nodes), default=most - 1)


def _kept(op: Operator, p: Params, gradient: Gradient) -> str:
    """What backward reads besides the out-gradients."""
    inputs, outputs = [*op.inputs(p), *op.aux(p)], op.outputs(p)
    read = {
        (e.kind, e.index): (inputs if e.kind == "input" else outputs)[e.index]
        for e in gradient.reads - gradient.shape_reads
        if e.kind in ("input", "output")
    }
    hidden = {o for o in outputs[op.num_visible_outputs(p) :]}
    kept = [
        f"``{name}``" + (" (hidden)" if kind == "output" and name in hidden else "")
        for (kind, _), name in sorted(read.items())
    ]
    if not kept:
        return "Backward keeps no array."
    return f"Backward keeps {', '.join(kept)}."


def _code(names: Sequence[str]) -> str:
    return ", ".join(f"``{name}``" for name in names)


# ---- refusals -----------------------------------------------------------------------------------


def refusals(op: Operator, p: Params | None, known: Sequence[Application]) -> list[str]:
    """Errors as they are raised: a parameter, a shape, a type that is refused."""
    attempts = [_of_parameters(op, known)]
    if known:
        attempts.append(_of_shapes(op, known[0]))
    if p is not None:
        attempts.append(_of_types(op, p))
    return [line for attempt in attempts if (line := next(attempt, None)) is not None]


def _error(call: Any, *arguments: Any) -> str | None:
    try:
        call(*arguments)
    except MXNetError as error:
        return f"{type(error).__name__}: {error}"
    return None


def _of_parameters(op: Operator, known: Sequence[Application]) -> Iterator[str]:
    given: dict[str, Any] = dict(known[0].params.attrs()) if known else {}
    for info in op.Param.fields():
        wrong: list[Any] = []
        if info.choices is not None:
            wrong.append("other")
        if info.lower is not None:
            wrong.append(info.lower - 1)
        if info.upper is not None:
            wrong.append(info.upper + 1)
        for value in wrong:
            line = _error(op.Param.parse, given | {info.name: value}, op.name)
            if line is not None:
                yield line
    for info in op.Param.fields():
        if info.required:
            line = _error(op.Param.parse, {k: v for k, v in given.items() if k != info.name}, op.name)
            if line is not None:
                yield line


def _of_shapes(op: Operator, known: Application) -> Iterator[str]:
    shapes = list(known.inputs.values())
    for i in reversed(range(len(shapes))):
        shape = shapes[i]
        if shape is None:
            continue
        for wrong in ((*shape[:-1], shape[-1] + 1) if shape else (2,), (*shape, 2), shape[1:]):
            line = _error(infer_shapes, op, known.params, [*shapes[:i], wrong, *shapes[i + 1 :]])
            if line is not None:
                yield line


def _of_types(op: Operator, p: Params) -> Iterator[str]:
    n = len(op.inputs(p)) + len(op.aux(p))
    for types in [[t] for t in ("int32", *TYPES)] + [["float32", "float64"], ["float32", "int32"]]:
        if len(types) <= n:
            codes = [*map(dtypes.code, types), *[None] * (n - len(types))]
            line = _error(infer_types, op, p, codes)
            if line is not None:
                yield line
