# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence
from typing import Any

# Tensors are (shape, element type code); every function returns a capsule `mx.plan.v1` and raises
# NoKernelError for element types without loops.
_Tensors = Sequence[tuple[Sequence[int], int]]
# A sparse matrix: where each row's entries begin (and the last ends), their columns and weights.
_Mixing = tuple[Sequence[int], Sequence[int], Sequence[float]]
_Part = tuple[Any, Sequence[int], Sequence[int], Sequence[tuple[float, int | None]], bool]
_Move = tuple[int, int, Sequence[int], Sequence[int], Sequence[int], int, int]

def instruction_set() -> str:
    """Name of the loops this CPU runs: baseline, avx2 or avx512."""

def expression_plan(
    serialized: bytes,
    inputs: _Tensors,
    outputs: _Tensors,
    mutated: Sequence[int] = ...,
    wide_scalars: bool = False,
) -> Any:
    """Evaluates an elementwise expression in its serialised form.

    Expression outputs beyond `outputs` are written to the inputs `mutated`. With `wide_scalars`,
    what depends on scalars alone is computed in double.
    """

def reduce_plan(
    inputs: _Tensors,
    outputs: _Tensors,
    op: str,
    reduced: Sequence[bool],
    mean: bool = False,
    root: bool = False,
) -> Any:
    """Reduces the marked axes of the first input.

    `op` is sum, prod, max, min, nansum, nanprod, sum_abs or sum_square; `mean` divides by the
    number of elements, `root` takes the square root.
    """

def move_plan(
    inputs: _Tensors,
    outputs: _Tensors,
    moves: Sequence[_Move],
    backgrounds: Sequence[tuple[int, float, int | None]] = ...,
    n_scalars: int = 0,
) -> Any:
    """Copies between strided views: (input, output, sizes, strides, strides, offset, offset).

    Backgrounds (output, number, run-time scalar or None) are painted first.
    """

def index_plan(
    inputs: _Tensors,
    outputs: _Tensors,
    *,
    op: str,
    action: str,
    bounds: str,
    values: int,
    indices: int,
    extents: Sequence[int],
    outer: int,
    n: int,
    inner: int,
    per_element: bool = False,
) -> Any:
    """Rows gathered (`action` "gather") or scattered into zeros ("add", "set").

    The table is (outer, *extents, inner), indices are (len(extents), n), rows (outer, n, inner);
    with `per_element` the table is (n / inner, extent, inner) and each index has one element.
    `bounds` is clip, wrap or raise.
    """

def one_hot_plan(inputs: _Tensors, outputs: _Tensors, depth: int) -> Any:
    """Rows of `depth` elements: scalar 0 at the index, scalar 1 elsewhere."""

def arg_plan(
    inputs: _Tensors, outputs: _Tensors, *, outer: int, extent: int, inner: int, largest: bool
) -> Any:
    """First position of the extremum along the middle axis of (outer, extent, inner)."""

def order_plan(
    inputs: _Tensors,
    outputs: _Tensors,
    *,
    data: int,
    outer: int,
    extent: int,
    inner: int,
    k: int,
    ascending: bool,
    results: Sequence[str],
) -> Any:
    """The first k elements, in stable order, of the middle axis of input `data`, (outer, extent, inner).

    `results` says what each output is: values, positions, mask, or scatter: the first input's
    elements where these came from.
    """

def resample_plan(
    inputs: _Tensors, outputs: _Tensors, *, height: int, width: int, rows: _Mixing, columns: _Mixing
) -> Any:
    """rows · image · columnsᵀ of every image (height, width) of the first input."""

def composite_plan(
    inputs: _Tensors, outputs: _Tensors, temporaries: _Tensors, parts: Sequence[_Part], n_scalars: int = 0
) -> Any:
    """Plans run one after the other: (plan, inputs, outputs, scalars, runs always).

    Tensors are numbered: inputs, outputs, temporaries. A scalar is a number, or a run-time scalar.
    """

def row_plan(
    inputs: _Tensors,
    outputs: _Tensors,
    *,
    op: str,
    rule: str,
    steps: int,
    batch: int,
    inner: int,
    batch_first: bool = False,
    lengths: int | None = None,
) -> Any:
    """Rows of `inner` elements of sequences (steps, batch), or (batch, steps), copied by a rule.

    `rule` is mask (scalar 0 behind the end), last, spread (the gradient of last), reverse or
    shuffle; `lengths` the input with the sequences' lengths.
    """

def random_plan(
    inputs: _Tensors,
    outputs: _Tensors,
    *,
    op: str,
    distribution: str,
    blocks: int,
    low: int = 0,
    high: int = 0,
) -> Any:
    """Random numbers; `distribution` is uniform, normal, exponential or integers.

    `blocks` is the number of Philox counters a run takes; `low` and `high` are for integers.
    """

def dropout_plan(inputs: _Tensors, outputs: _Tensors, *, p: float, active: bool, blocks: int) -> Any:
    """Data times mask, and the mask: 0 with probability p, else 1 / (1 − p); 1 if not active."""
