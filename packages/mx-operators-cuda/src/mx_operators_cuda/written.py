# SPDX-License-Identifier: Apache-2.0
"""Launches of the kernels that are written by hand, as templates in `include/mx_operators_cuda/*.cuh`.

A generated text names the function, its types and its parameters, so that these kernels are compiled, hashed
and emulated like those that are generated as a whole.
"""

from __future__ import annotations

import struct as struct_module
from collections.abc import Sequence
from dataclasses import dataclass

from mx_core.expression import compute_dtype
from mx_operators_cuda import elementwise
from mx_operators_cuda.codegen import names
from mx_operators_cuda.codegen.source import BLOCK, KernelSource
from mx_operators_cuda.launch import Kind, Launch, Parameter

#: marks a kernel whose threads meet, for compilers that run one thread after the other
BARRIERS = "// a block's threads meet: __syncthreads"
_WRITE: Parameter = (Kind.UINT32, 1)


@dataclass(frozen=True)
class Argument:
    """Arguments of a function: C++ text of each in which {0}, {1}, ... are parameters of the kernel, whose
    declarations (with the name left out) and meanings these are.
    """

    text: str
    parameters: tuple[tuple[str, Parameter], ...]


def read(place: Parameter, code: int) -> Argument:
    """A tensor that is read: its pointer."""
    return Argument("{0}", ((f"const {names.STORAGE[code]}*", place),))


def absent(code: int) -> Argument:
    """A null pointer in place of a tensor."""
    return Argument(f"static_cast<const {names.STORAGE[code]}*>(nullptr)", ())


def write(place: Parameter, code: int, request: Parameter | None = None) -> Argument:
    """A tensor that is written: its pointer, and the request, which is "write" for all but outputs."""
    if request is None:
        request = (Kind.REQUEST, place[1]) if place[0] is Kind.OUTPUT else _WRITE
    return Argument("{0}, {1}", ((f"{names.STORAGE[code]}*", place), ("int", request)))


def request(output: int) -> Argument:
    """What is done with an output."""
    return Argument("{0}", (("int", (Kind.REQUEST, output)),))


def scalar(i: int) -> Argument:
    """A run-time scalar as double."""
    return Argument("double({0})", (("mx::Scalar", (Kind.SCALAR, i)),))


def number(value: int) -> Argument:
    """A 64-bit integer."""
    return Argument("{0}", (("mx::int64", (Kind.UINT64, value % 2**64)),))


def small(value: int) -> Argument:
    """A 32-bit integer."""
    return Argument("{0}", (("mx::int32", (Kind.UINT32, value % 2**32)),))


def double(value: float) -> Argument:
    """A number as double, given like a 64-bit integer with its bits: other numbers need no other kernel."""
    return Argument("double({0})", (("mx::Scalar", bits_of(value)),))


def stream() -> Argument:
    """Key and first counter of random numbers."""
    places = (("mx::Counter", (Kind.RANDOM_KEY, 0)), ("mx::Counter", (Kind.RANDOM_OFFSET, 0)))
    return Argument("mx::uint64({0}), mx::uint64({1})", places)


def bits_of(value: float) -> Parameter:
    """A parameter of type `mx::Scalar` that is a number."""
    return (Kind.NUMBER, int.from_bytes(struct_module.pack("<d", value), "little"))


def constant(value: float, code: int) -> Argument:
    """A number that is part of the text, in the type in which elements of a type are computed."""
    return Argument(names.literal(value, compute_dtype((code,))), ())


def struct(name: str, values: Sequence[Argument]) -> Argument:
    """A struct of the function's header, initialized with the values."""
    texts, parameters = _texts(values, 0)
    return Argument(f"mx::{name}{{{', '.join(texts)}}}", tuple(parameters)) if values else Argument("{}", ())


def _texts(arguments: Sequence[Argument], first: int) -> tuple[list[str], list[tuple[str, Parameter]]]:
    texts: list[str] = []
    parameters: list[tuple[str, Parameter]] = []
    for argument in arguments:
        text = argument.text
        for i in reversed(range(len(argument.parameters))):
            text = text.replace(f"{{{i}}}", f"{{{first + len(parameters) + i}}}")
        texts.append(text)
        parameters += argument.parameters
    return texts, parameters


def launch(
    name: str,
    function: str,
    types: Sequence[str],
    arguments: Sequence[Argument],
    threads: int,
    *,
    block: int = BLOCK,
    barriers: bool = False,
    blocks: int = 2,
    most_blocks: int = 0,
) -> Launch:
    """A launch of a function of a header.

    Parameters
    ----------
    name : str
        The operator's.
    function : str
        `pooling::forward` is that of `mx_operators_cuda/pooling.cuh`.
    types : sequence of str
        Its template arguments; none if it is no template.
    threads : int
        Threads that have something to do.
    barriers : bool
        The threads of a block meet.
    blocks : int
        How many of them a multiprocessor can run at once: more leave each thread fewer of its 65,536 registers, and
        what does not fit in is spilled.
    """
    header = function.split("::")[0]
    symbol = f"{elementwise.symbol(name)}_{function.split('::')[-1]}"
    texts, parameters = _texts(arguments, 0)
    given = [f"p{i}" for i in range(len(parameters))]
    called, kinds = ", ".join(texts), f"<{', '.join(types)}>" if types else ""
    for i in reversed(range(len(given))):
        called = called.replace(f"{{{i}}}", given[i])
    declared = ", ".join(f"{kind} {p}" for (kind, _), p in zip(parameters, given, strict=True))
    text = [
        f'#include "mx_operators_cuda/{header}.cuh"',
        *([BARRIERS] if barriers else []),
        "",
        f'extern "C" __global__ void __launch_bounds__({block}, {blocks})',
        f"{symbol}({declared}) {{",
        f"  mx::{function}{kinds}({called});",
        "}",
        "",
    ]
    source = KernelSource(symbol, "\n".join(text), 1, block)
    return Launch(source, threads, tuple(place for _, place in parameters), most_blocks)


def value_type(code: int) -> str:
    """C++ type in which elements of a type are computed."""
    return names.COMPUTE[compute_dtype((code,))]
