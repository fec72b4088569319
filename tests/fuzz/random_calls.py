# SPDX-License-Identifier: Apache-2.0
"""Random operator calls: half of them nearly right, half of them nonsense; each from a seed of its own."""

from __future__ import annotations

import math
import random
import typing
from dataclasses import dataclass
from typing import Any

from mx_core import dtypes, operators
from mx_core.operator import Elementwise, Entry, FieldInfo, Operator, gradient_of, infer_shapes, infer_types

SIZES = (0, 1, 1, 2, 2, 3, 3, 4, 5, 7)
MOST_ELEMENTS = 4096
TYPES = ("float32",) * 6 + (
    "float64", "float16", "bfloat16", "uint8", "int8", "int32", "int64", "bool",
)  # fmt: skip
HUGE = (2**31 - 1, 2**31, 2**32 + 1, 2**62, 2**63 - 1, 2**63, 2**64, 10**30, -(2**31), -(2**63), -(10**30))
INTEGERS = (0, 1, 1, 1, 2, 2, 3, 4, 7, -1, -1, -2, -3, -5)
REALS = (0.0, 1.0, 0.5, 2.0, -1.0, 1e-8, 3.7, -2.5, 10.0)
ODD_REALS = (float("nan"), float("inf"), float("-inf"), 1e300, -1e300, 1e-320, 2.0**63, -(2.0**63), 1e38)
WRONG = (None, "many", "", (), (1, "a"), object, b"x", 1.5, -1, [], {}, "(1,", "nan", True, 2**64)
#: parameters with one element per spatial axis
WINDOW = ("kernel", "stride", "pad", "dilate", "adj")
#: what the elements of an input are
CONTENTS = ("small", "small", "small", "index", "index", "zero", "nan", "inf", "huge", "negative", "fraction")
TARGETS = ("none",) * 8 + (
    "like",
    "input",
    "view",
    "wrong shape",
    "wrong type",
    "list",
    "no array",
    "overlap",
)
#: where inputs lie: each for itself, all of a type in one buffer one element off its start, or one array
#: for all inputs of its shape
PLACES = ("own",) * 4 + ("buffer", "same")
#: how calls are recorded: gradients written, added to, or recorded themselves
RECORDS = ("write", "write", "add", "higher")


@dataclass(frozen=True)
class RandomCall:
    """What is called how.

    `inputs` are (shape, type, contents) of each, `place` where they lie, `target` what `out` is, `spelling`
    how parameters are written: as they are, or as the text of them that symbol files have.
    """

    op: str
    inputs: tuple[tuple[tuple[int, ...], str, str], ...]
    params: dict[str, Any]
    target: str
    front: str  # "nd", "record" or "sym"
    place: str = "own"
    record: str = "write"
    spelling: str = "values"


def roles(op: Any, p: Any) -> tuple[Entry, ...] | None:
    """What each input of a backward operator is to its forward operator; None if that is not known."""
    forward = op.backward_of
    if forward is None or type(p) is not forward.Param or isinstance(op, Elementwise):
        return None
    nodes = gradient_of(forward, p).nodes
    return next((tuple(node.inputs) for node in nodes if node.op == op.name and node.params == p), None)


def all_operators() -> tuple[str, ...]:
    """Every operator by its name."""
    found = sorted({operators.get(name).name for name in operators.names()})
    # Plain ones thrice, since they have the parameters; mixed, so that the first few hundred have some of all.
    found = [*found, *2 * [name for name in found if not name.startswith("_backward_backward_")]]
    random.Random(0).shuffle(found)
    return tuple(found)


def make(seed: int, number: int, names: typing.Sequence[str]) -> RandomCall:
    """Call `number` of a seed; consecutive numbers go through all operators."""
    rng = random.Random(f"{seed}:{number}")
    op = operators.get(names[number % len(names)])
    wild = rng.random() < 0.3
    params, inputs = draw(rng, op, _shape(rng, wild), wild)
    target = rng.choice(TARGETS)
    front = rng.choice(("nd", "nd", "record", "sym"))
    spelling = rng.choice(("values", "values", "values", "text", "numpy"))
    return RandomCall(
        op.name, inputs, params, target, front, rng.choice(PLACES), rng.choice(RECORDS), spelling
    )


def draw(
    rng: random.Random,
    op: Operator,
    first: tuple[int, ...],
    wild: bool = False,
    dtype: str | None = None,
) -> tuple[dict[str, Any], tuple[tuple[tuple[int, ...], str, str], ...]]:
    """Parameters and inputs (see `RandomCall`) that go with a first input; not always, least if `wild`."""
    params = _params(rng, op, wild, len(first))
    return params, _inputs(rng, op, params, wild, first, dtype or rng.choice(TYPES))


# ---- parameters ---------------------------------------------------------------------------------


def _params(rng: random.Random, op: Operator, wild: bool, rank: int) -> dict[str, Any]:
    chosen: dict[str, Any] = {}
    for info in op.Param.fields():
        if info.name == "ctx":
            continue
        absent = rng.random() < (0.05 if info.required else 0.6)
        if not absent:
            odd = rng.random() < (0.25 if wild else 0.03)
            chosen[info.name] = (
                rng.choice(WRONG) if odd and rng.random() < 0.3 else _value(rng, info, odd, rank)
            )
    if rng.random() < 0.01:
        chosen["colour"] = 1
    return chosen


def _value(rng: random.Random, info: FieldInfo, odd: bool, rank: int) -> Any:
    if info.choices and not odd:
        return rng.choice(info.choices)
    if info.name == "dtype" and not odd:
        return rng.choice(TYPES)
    kind = info.annotation
    members = [a for a in typing.get_args(kind) if a is not type(None)]
    if type(None) in typing.get_args(kind):
        if rng.random() < 0.2:
            return None
        kind = members[0]
    if typing.get_origin(kind) is tuple:
        inner = typing.get_args(kind)[0]
        plain = inner if isinstance(inner, type) else int
        lengths = (
            (rank - 2,) if info.name in WINDOW and not odd else (rank, rank, rank - 2, 0, 1, 2, 3, 2 * rank)
        )
        length = max(rng.choice(lengths), 0)
        return tuple(_scalar(rng, plain, info, odd) for _ in range(length))
    return _scalar(rng, kind, info, odd)


def _scalar(rng: random.Random, kind: Any, info: FieldInfo, odd: bool) -> Any:
    if kind is bool:
        return rng.random() < 0.5
    if kind is float:
        return rng.choice(ODD_REALS if odd else REALS)
    if kind is int:
        value = rng.choice(HUGE if odd and rng.random() < 0.6 else INTEGERS)
        return max(abs(value), int(info.lower)) if info.lower is not None and not odd else value
    return rng.choice(("float32", "", "sum", "clip", "wrap", "float31"))


# ---- inputs ---------------------------------------------------------------------------------------


def _shape(rng: random.Random, wild: bool) -> tuple[int, ...]:
    rank = rng.choice((0, 1, 2, 3, 4, 5, 6, 9) if wild else (1, 2, 2, 3, 3, 4, 4, 5))
    shape: list[int] = []
    size = 1
    for _ in range(rank):
        extent = rng.choice(SIZES if wild or rng.random() < 0.1 else SIZES[1:])
        extent = extent if size * max(extent, 1) <= MOST_ELEMENTS else 1
        size *= max(extent, 1)
        shape.append(extent)
    return tuple(shape)


def _inputs(
    rng: random.Random,
    op: Operator,
    params: dict[str, Any],
    wild: bool,
    first: tuple[int, ...],
    main: str,
) -> tuple[tuple[tuple[int, ...], str, str], ...]:
    made = []
    for shape, dtype in _fitting(rng, op, params, wild, first, main):
        if wild and rng.random() < 0.3:
            shape = _shape(rng, True)
        if wild and rng.random() < 0.2:
            dtype = rng.choice(TYPES)
        made.append((shape, dtype, rng.choice(CONTENTS)))
    if rng.random() < (0.1 if wild else 0.01):
        made = made[:-1] if rng.random() < 0.5 else [*made, ((2,), "float32", "small")]
    return tuple(made)


def _fitting(
    rng: random.Random,
    op: Operator,
    params: dict[str, Any],
    wild: bool,
    first: tuple[int, ...],
    dtype: str,
) -> list[tuple[tuple[int, ...], str]]:
    """Shapes and types that inference gives for a first input; random ones where it cannot tell.

    Those of a backward operator come from its forward operator.
    """
    n = rng.choice((0, 1, 2, 2, 3, 5))
    try:
        settings = dict(params)
        if op.variadic is not None:
            settings[op.variadic] = n
        parsed = op.Param.parse(settings)
        entries = roles(op, parsed)
        start = op if entries is None or op.backward_of is None else op.backward_of
        n = len(start.inputs(parsed)) + len(start.aux(parsed))
        rest = [None] * (n - 1)
        if n == 0:
            return []
        shapes, results = infer_shapes(start, parsed, [first, *rest])
        if None in shapes:  # one at a time
            shapes, results = infer_shapes(start, parsed, [x or _shape(rng, wild) for x in shapes])
        codes, codes_out = infer_types(start, parsed, [dtypes.code(dtype), *rest])
        if entries is not None:
            shapes = tuple((shapes if e.kind == "input" else results)[e.index] for e in entries)
            codes = tuple((codes if e.kind == "input" else codes_out)[e.index] for e in entries)
    except Exception:  # whatever the operator thinks of it, it is called all the same
        n = n if op.variadic is not None else len(op.arguments) + len(op.auxiliaries)
        shapes, codes = (None,) * n, (None,) * n
    same = rng.random() < 0.6
    made = []
    for shape, code in zip(shapes, codes, strict=True):
        known = shape is not None and -1 not in shape and math.prod(shape) <= MOST_ELEMENTS
        random_shape = first if same else _shape(rng, wild)
        fitting = shape if known and shape is not None else random_shape
        made.append((fitting, dtype if code is None else dtypes.name(code)))
    return made
