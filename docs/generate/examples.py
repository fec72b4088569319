# SPDX-License-Identifier: Apache-2.0
"""An example per operator, run when it is asked for: written by hand (`examples.toml`) or made up.

What is made up has the parameters and shapes of the smallest recorded case that works, or none, and
numbers that can be followed in the head.
"""

from __future__ import annotations

import ast
import itertools
import json
import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import mx
from mx_core import dtypes, operators
from mx_core.errors import MXNetError
from mx_core.operator import Operator, infer_shapes, infer_types

HAND_WRITTEN = Path(__file__).parent / "examples.toml"
#: elements of arrays that are written out
MOST = 24
SHAPES = ((2, 3), (3,), (2, 2), (1, 1, 3, 3), (1, 2, 4, 4), (2, 3, 4))
NUMBERS: Mapping[str, tuple[float, ...]] = {
    "plain": (1, -2, 3, 0.5, -1, 2, 4, -3, 1.5, 0, -0.5, 5),
    "fraction": (0.5, 0.2, 0.9, 0.1, 0.6, 0.3, 0.8, 0.4),
    "index": (1, 0, 2, 1, 0, 0, 2),
}
SPACES = ("contrib", "linalg", "image")

#: a recorded case: attributes, arrays
Recorded = tuple[Mapping[str, str], Sequence[Any]]


def recorded_cases(folder: Path) -> dict[str, list[Recorded]]:
    """Operator -> the cases recorded from MXNet in a folder."""
    found: dict[str, list[Recorded]] = {}
    for path in sorted(folder.glob("*.json")):
        with np.load(path.with_suffix(".npz")) as arrays:
            for case in json.loads(path.read_text()):
                keys = [f"{case['id']}/arg/{n}" for n in case["arguments"]]
                keys += [f"{case['id']}/aux/{n}" for n in case.get("aux", [])]
                op = operators.find(case["op"])
                if op is not None and all(key in arrays for key in keys):
                    found.setdefault(op.name, []).append((case["attrs"], [arrays[key] for key in keys]))
    return found


@cache
def hand_written() -> dict[str, str]:
    """Operator -> Python."""
    return tomllib.loads(HAND_WRITTEN.read_text())


def example(op: Operator, recorded: Sequence[Recorded]) -> list[str]:
    """Lines of a session with the interpreter that shows an operator.

    Raises
    ------
    LookupError  nothing that was made up works; write one by hand
    """
    code = hand_written().get(op.name)
    if code is not None:
        return session(code)
    for code in made_up(op, recorded):
        try:
            lines = session(code)
        except (MXNetError, TypeError, ValueError):
            continue
        if not any(word in line for line in lines for word in ("nan", "inf")):
            return lines
    raise LookupError(f"no example of {op.name} works; write one into {HAND_WRITTEN.name}")


def session(code: str) -> list[str]:
    """Code as it would look in the interpreter, with what it shows."""
    names: dict[str, Any] = {"mx": mx, "np": np}
    lines: list[str] = []
    with np.errstate(all="ignore"):
        for statement in ast.parse(code).body:
            decorators = getattr(statement, "decorator_list", [])
            start = min(node.lineno for node in (statement, *decorators))
            source = "\n".join(code.split("\n")[start - 1 : statement.end_lineno])
            first, *rest = source.split("\n")
            lines += [f">>> {first}", *(f"... {line}".rstrip() for line in rest)]
            if isinstance(statement, ast.Expr):
                value = eval(compile(ast.Expression(statement.value), "example", "eval"), names)
                if value is not None:
                    lines += [line for line in repr(value).split("\n") if line.strip()]
            else:
                exec(compile(ast.Module([statement], []), "example", "exec"), names)
                if rest:
                    lines.append("...")
    return lines


# ---- made up -------------------------------------------------------------------------------------


def made_up(op: Operator, recorded: Sequence[Recorded]) -> Iterator[str]:
    """Code that may work, the most readable first."""
    small = sorted(recorded, key=lambda case: (_unusual(case), sum(np.size(x) for x in case[1])))
    for attrs, arrays in small[:4]:
        kinds = [_kind_of(x) for x in arrays]
        for kind in ("plain", "fraction"):
            with_kind = [k or kind for k in kinds]
            values = [
                _literal(x.shape, k, i, x.dtype.name, x) for i, (x, k) in enumerate(zip(arrays, with_kind))
            ]
            yield from _call(op, dict(attrs), values)
    if any(info.required for info in op.Param.fields()) and op.variadic is None:
        return
    for shape, kinds in itertools.product(SHAPES, (("plain",), ("fraction",), ("plain", "index"))):
        attrs = {op.variadic: "2"} if op.variadic else {}
        values = _inferred(op, attrs, shape, kinds)
        if values is not None:
            yield from _call(op, attrs, values)


def _unusual(recorded: Recorded) -> int:
    """How many types are not the default."""
    types = [x.dtype.name for x in recorded[1] if x.dtype.name not in ("float32", "int32", "int64")]
    return len(types) + ("dtype" in recorded[0])


def _kind_of(array: Any) -> str | None:
    """Whole numbers are meant as they were recorded."""
    if not np.isfinite(array.astype(np.float64)).all():
        return None
    whole = array.dtype.kind in "iub" or bool((array == np.floor(array)).all())
    return "recorded" if whole and array.size else None


def _inferred(
    op: Operator, attrs: Mapping[str, str], first: tuple[int, ...], kinds: Sequence[str]
) -> list[str] | None:
    """Literals of all inputs, from a shape of the first."""
    try:
        p = op.Param.parse(attrs, op=op.name)
        n = len(op.inputs(p)) + len(op.aux(p))
        if n == 0:
            return []
        shapes = infer_shapes(op, p, [first, *[None] * (n - 1)])[0]
        shapes, _ = infer_shapes(op, p, [s if s and -1 not in s else first for s in shapes])
        codes = infer_types(op, p, [dtypes.code("float32"), *[None] * (n - 1)])[0]
    except MXNetError:
        return None
    names = ["float32" if code is None else dtypes.name(code) for code in codes]
    return [
        _literal(shape or (1,), kinds[min(i, len(kinds) - 1)], i, name)
        for i, (shape, name) in enumerate(zip(shapes, names, strict=True))
    ]


def _literal(shape: Sequence[int], kind: str, i: int, dtype: str, recorded: Any = None) -> str:
    """Code that makes an array."""
    size = math.prod(shape)
    of_type = "" if dtype == "float32" else f", dtype={dtype!r}"
    if size > MOST:
        made = f"mx.nd.arange({size}{of_type}).reshape({tuple(shape)})"
        return f"{made} / {size}" if dtype.startswith("float") else made
    if kind == "recorded":
        values = np.asarray(recorded, np.float64)
    else:
        pool = NUMBERS[kind]
        values = np.resize(np.roll(np.array(pool), -3 * i), size).reshape(shape)
    if dtype.startswith(("int", "uint", "bool")):
        values = np.abs(values) if dtype.startswith(("u", "b")) else values
        values = values.astype(np.int64)
    return f"mx.nd.array({_nested(values)}{of_type})"


def _nested(values: Any) -> str:
    if values.ndim == 0:
        return f"{values.item():g}"
    return "[" + ", ".join(_nested(v) for v in values) + "]"


def _call(op: Operator, attrs: dict[str, Any], values: Sequence[str]) -> Iterator[str]:
    try:
        if op.variadic is not None:
            attrs.setdefault(op.variadic, str(len(values)))
        p = op.Param.parse(attrs, op=op.name)
    except MXNetError:
        return
    names = [*op.inputs(p), *op.aux(p)]
    if len(names) != len(values):
        return
    lines = ["mx.random.seed(1)"] if op.is_random else []
    lines += [f"{name} = {value}" for name, value in zip(names, values, strict=True)]
    in_order = names == [*op.arguments, *op.auxiliaries][: len(names)] or op.variadic is not None
    given = names if in_order else [f"{name}={name}" for name in names]
    given += [f"{key}={getattr(p, key)!r}" for key in attrs if key != op.variadic]
    lines.append(f"{path(op)}({', '.join(given)})")
    shown = lines[-1]
    try:
        outputs = infer_shapes(op, p, [np.shape(_value(v)) for v in values])[1]
    except MXNetError:
        return
    count = sum(math.prod(s or ()) for s in outputs[: op.num_visible_outputs(p)])
    if count > 2 * MOST:
        single = op.num_visible_outputs(p) == 1
        lines[-1] = f"{shown}.shape" if single else f"[y.shape for y in {shown}]"
    yield "\n".join(lines)


def _value(literal: str) -> Any:
    return eval(literal, {"mx": mx})


def path(op: Operator) -> str:
    """How a program reaches an operator's function."""
    for name in (op.name, *op.aliases):
        for space in SPACES:
            short = name.removeprefix(f"_{space}_")
            if short != name and getattr(getattr(mx.nd, space), short).__module__ == "mx_ndarray.nd":
                return f"mx.nd.{space}.{short}"
    public = next((name for name in (op.name, *op.aliases) if not name.startswith("_")), None)
    if public is not None and getattr(mx.nd, public).__module__ == "mx_ndarray.nd":
        return f"mx.nd.{public}"
    return f"mx.nd._internal.{op.name}" if op.name.startswith("_") else f"mx.nd.op.{op.name}"


def shown_operators() -> list[Operator]:
    """Those with a place in the reference."""
    found = {operators.get(name).name for name in operators.names()}
    return [operators.get(name) for name in sorted(found) if not name.startswith("_backward")]
