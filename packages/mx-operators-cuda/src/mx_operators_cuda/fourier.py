# SPDX-License-Identifier: Apache-2.0
"""Discrete Fourier transforms of the last axis on a GPU, in double."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from mx_operators_cuda import folds, written
from mx_operators_cuda.codegen import names
from mx_operators_cuda.launch import Kind, Launch, Parameter, make_plan

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall

#: a transform with a larger prime factor is made of some whose lengths are powers of two
_LARGEST = 31
#: scratch: two copies of the rows, roots of one, what Bluestein's method multiplies with, and a copy of that
_ROWS, _OTHER, _ROOTS, _CHIRPS, _SPARE = range(5)


def factors(n: int) -> list[int]:
    """Of the passes of a transform of length n: fours, then primes in ascending order."""
    found, p = [], 2
    while n % 4 == 0:
        found.append(4)
        n //= 4
    while n > 1:
        while n % p == 0:
            found.append(p)
            n //= p
        p += 1 if p * p <= n else max(n - p, 1)
    return found


def _number(piece: int) -> written.Argument:
    return written.Argument("{0}", (("double*", (Kind.SCRATCH, piece)),))


def _passes(call: KernelCall, source: int, spare: int, rows: int, m: int) -> tuple[list[Launch], int]:
    """The launches that transform rows of m numbers, and where they lie in the end."""
    steps, done = [], 1
    for p in factors(m):
        arguments = [
            _number(source),
            _number(spare),
            _number(_ROOTS),
            *(written.number(x) for x in (rows, m, p, done)),
        ]
        steps.append(written.launch(call.op.name, "fourier::pass", [], arguments, rows * m))
        source, spare, done = spare, source, done * p
    return steps, source


def _transform(call: KernelCall, reads_pairs: bool, writes_pairs: bool) -> Any:
    x, y = call.inputs[0], call.outputs[0]
    if not folds.floating((x, y)) or x.dtype != y.dtype:
        return None
    name, n = call.op.name, x.shape[-1] // (2 if reads_pairs else 1)
    rows = prod(x.shape[:-1])
    if rows * n == 0:
        return make_plan(name, call.context, call.inputs, call.outputs, [])
    if n >= 1 << 30:
        return None
    m = n if max(factors(n), default=1) <= _LARGEST else 1 << (2 * n - 2).bit_length()
    about = written.struct("fourier::Rows", [written.number(v) for v in (rows, n, m)])
    stored = [names.STORAGE[x.dtype]]

    def launch(function: str, arguments: list[written.Argument], threads: int, types: list[str]) -> Launch:
        return written.launch(name, f"fourier::{function}", types, arguments, threads)

    loaded = [written.read((Kind.INPUT, 0), x.dtype), _number(_ROWS), written.number(int(reads_pairs)), about]
    steps = [
        launch("roots", [_number(_ROOTS), written.number(m)], m, []),
        launch("load", loaded, rows * m, stored),
    ]
    made, at = _passes(call, _ROWS, _OTHER, rows, m)
    steps += made
    scratch = [16 * rows * m, 16 * rows * m, 16 * m]
    if m != n:
        steps.append(launch("chirps", [_number(_CHIRPS), about], m, []))
        made, multiplied = _passes(call, _CHIRPS, _SPARE, 1, m)
        steps += [*made, launch("multiply", [_number(at), _number(multiplied), about], rows * m, [])]
        made, at = _passes(call, at, _OTHER if at == _ROWS else _ROWS, rows, m)
        steps += made
        scratch += [16 * m, 16 * m]
    place: Parameter = (Kind.OUTPUT, 0)
    delivered = [_number(at), written.write(place, y.dtype), written.number(int(writes_pairs)), about]
    steps.append(launch("deliver", delivered, rows * n, stored))
    return make_plan(name, call.context, call.inputs, call.outputs, steps, scratch=scratch)


def transform(call: KernelCall) -> Any:
    """Numbers -> pairs; the gradient of the inverse transform."""
    return _transform(call, False, True)


def invert(call: KernelCall) -> Any:
    """Pairs -> real parts, not divided; the gradient of the transform."""
    return _transform(call, True, False)
