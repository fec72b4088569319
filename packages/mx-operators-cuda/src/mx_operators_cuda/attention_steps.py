# SPDX-License-Identifier: Apache-2.0
"""softmax(scale · query keyᵀ) value and its gradient of products by cuBLAS and kernels over rows of scores.

They are the steps for runs that cuDNN does not serve. Scores lie in scratch memory as (examples, heads, rows of the
query, rows of the key). Steps are launches and products, and the bytes of each piece of scratch memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mx_core import dtypes
from mx_core import expression as X
from mx_core.expression import Opcode
from mx_operators_cuda import folds
from mx_operators_cuda.codegen.rows import At
from mx_operators_cuda.folds import Operand, Rows
from mx_operators_cuda.launch import Kind, Launch, Parameter, Product

_FLOAT32 = dtypes.code("float32")
Steps = tuple[list[Launch | Product], list[int]]


@dataclass(frozen=True)
class Attention:
    """What is computed.

    Parameters
    ----------
    code : int
        Type code of all tensors but the statistics, which are float32.
    extents : (int, int, int, int, int, int)
        Examples, heads, rows of the query, and of key and value; elements of a head in query and key, and in value.
    scale : float
        Of the scores.
    """

    code: int
    extents: tuple[int, int, int, int, int, int]
    scale: float

    @property
    def bytes_of_scores(self) -> int:
        """Of all heads."""
        batch, heads, queries, keys = self.extents[:4]
        return batch * heads * queries * keys * dtypes.itemsize(self.code)

    def product(self, a: _Heads, b: _Heads, c: _Heads, transposed: tuple[bool, bool]) -> list[Product]:
        """C = op(A) · op(B) for each example and head."""
        summed, item = a.rows if transposed[0] else a.columns, dtypes.itemsize(self.code)
        return [
            Product(
                a.head(i, item), b.head(i, item), c.head(i, item), self.code, transposed,
                (c.rows, c.columns, summed), (a.row, b.row, c.row), (a.example, b.example, c.example), self.extents[0],
            )
            for i in range(self.extents[1])
        ]  # fmt: skip

    def tensor(self, place: Parameter, rows: int, width: int) -> _Heads:
        """One whose heads lie side by side."""
        wide = self.extents[1] * width
        return _Heads(place, rows, width, wide, rows * wide, width)

    def scores(self, piece: int) -> _Heads:
        """Those in a piece of scratch memory."""
        _, heads, queries, keys = self.extents[:4]
        square = queries * keys
        return _Heads((Kind.SCRATCH, piece), queries, keys, keys, heads * square, square)

    def along(self) -> Rows:
        """The rows of scores."""
        batch, heads, queries, keys = self.extents[:4]
        return Rows.along((batch * heads * queries, keys), 1)


@dataclass(frozen=True)
class _Heads:
    """Matrices of a tensor of a plan, one for each example and head.

    Parameters
    ----------
    place : Parameter
    rows, columns : int
    row, example, next_head : int
        Elements from one row, example and head to the next.
    """

    place: Parameter
    rows: int
    columns: int
    row: int
    example: int
    next_head: int

    def head(self, i: int, item: int) -> Parameter:
        """Where those of a head begin."""
        return (self.place[0], self.place[1], i * self.next_head * item)


def forward(what: Attention, statistics: Parameter | None = None) -> Steps:
    """query, key, value -> output.

    Parameters
    ----------
    statistics : Parameter or None
        Where the logarithm of the sum of powers of each row goes.
    """
    _, _, queries, keys, depth, width = what.extents
    query, key = what.tensor((Kind.INPUT, 0), queries, depth), what.tensor((Kind.INPUT, 1), keys, depth)
    value, output = what.tensor((Kind.INPUT, 2), keys, width), what.tensor((Kind.OUTPUT, 0), queries, width)
    scores = what.scores(0)
    rows = Operand(scores.place, what.code)

    def summary(x: Any, k: Any, n: Any, most: Any, total: Any) -> Any:
        return most + X.log(total)

    softmax, parts = folds.launches(
        "attention_softmax", what.along(), [rows],
        [rows] if statistics is None else [rows, Operand(statistics, _FLOAT32, At.ROW)],
        [[(Opcode.MAXIMUM, lambda x, k, n: x * what.scale)],
         [(Opcode.ADD, lambda x, k, n, m: X.exp(x * what.scale - m))]],
        lambda x, k, n, m, s: X.exp(x * what.scale - m) / s, None if statistics is None else summary, scratch=1,
    )  # fmt: skip
    steps: list[Launch | Product] = [*what.product(query, key, scores, (False, True)), *softmax]
    steps += what.product(scores, value, output, (False, False))
    return steps, [what.bytes_of_scores, *parts]


def gradient(what: Attention) -> Steps:
    """out_grad, query, key, value, output, statistics -> gradients of query, key and value."""
    _, _, queries, keys, depth, width = what.extents
    head = what.tensor((Kind.INPUT, 0), queries, width)
    query, key = what.tensor((Kind.INPUT, 1), queries, depth), what.tensor((Kind.INPUT, 2), keys, depth)
    value = what.tensor((Kind.INPUT, 3), keys, width)
    of_query, of_key = (
        what.tensor((Kind.OUTPUT, 0), queries, depth),
        what.tensor((Kind.OUTPUT, 1), keys, depth),
    )
    of_value = what.tensor((Kind.OUTPUT, 2), keys, width)
    chances, change = what.scores(0), what.scores(1)
    p, d = Operand(chances.place, what.code), Operand(change.place, what.code)
    again, _ = folds.launches(
        "attention_chances", what.along(), [p, Operand((Kind.INPUT, 5), _FLOAT32, At.ROW)], [p],
        result=lambda x, log, k, n: X.exp(x * what.scale - log),
    )  # fmt: skip
    backward, parts = folds.launches(
        "attention_softmax_gradient", what.along(), [p, d], [d],
        [[(Opcode.ADD, lambda p, d, k, n: p * d)]], lambda p, d, k, n, s: p * (d - s) * what.scale, scratch=2,
    )  # fmt: skip
    steps: list[Launch | Product] = [*what.product(query, key, chances, (False, True)), *again]
    steps += what.product(chances, head, of_value, (True, False))
    steps += what.product(head, value, change, (False, True))
    steps += backward
    steps += what.product(change, key, of_query, (False, False))
    steps += what.product(change, query, of_key, (True, False))
    return steps, [what.bytes_of_scores, what.bytes_of_scores, *parts]
