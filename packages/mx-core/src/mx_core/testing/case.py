# SPDX-License-Identifier: Apache-2.0
"""One concrete application of an operator: parameters and input arrays, made up where not given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mx_core import dtypes, operators
from mx_core.kernels import TensorSpec
from mx_core.operator import Operator, ReferenceContext
from mx_core.operator.infer import infer_shapes, infer_types
from mx_core.operator.params import Params
from mx_core.operator.simple import Elementwise

Array = npt.NDArray[Any]
#: an array, the shape of one to make up, or None for one whose shape is inferred
Input = Array | tuple[int, ...] | None

RANDOM_KEY = 0x1234_5678_9ABC_DEF0


class UnknownOutput(AssertionError):
    """Inference leaves the shape of an output unknown, though it knows those of all inputs."""


@dataclass(frozen=True)
class Case:
    """An operator with parameters, input arrays (auxiliary states last) and output specs."""

    op: Operator
    params: Params
    inputs: tuple[Array, ...]
    outputs: tuple[TensorSpec, ...]
    is_train: bool = True

    @property
    def n_inputs(self) -> int:
        """Inputs without auxiliary states."""
        return len(self.op.inputs(self.params))

    @property
    def specs(self) -> tuple[TensorSpec, ...]:
        """Shapes and types of the inputs."""
        return tuple(TensorSpec(x.shape, dtypes.code(x.dtype)) for x in self.inputs)

    def context(self) -> ReferenceContext:
        """The context that the reference gets."""
        return ReferenceContext(self.is_train, self.params.scalars, RANDOM_KEY, 0)

    def reference(self, inputs: Sequence[Array] | None = None) -> list[Array]:
        """The reference's results: outputs, new auxiliary states, new mutated inputs."""
        given = list(self.inputs if inputs is None else inputs)
        return [np.asarray(x) for x in self.op.reference(self.params, given, self.context())]

    def describe(self) -> str:
        """Operator, parameters and inputs for messages."""
        return f"[{self.op.name}] {self.params} on {', '.join(map(str, self.specs))}"


def make_case(
    op: str | Operator,
    params: Mapping[str, Any] | None = None,
    inputs: Sequence[Input] | None = None,
    *,
    dtype: str = "float64",
    low: float = -1.0,
    high: float = 1.0,
    is_train: bool = True,
    seed: int = 0,
) -> Case:
    """A case; floating-point arrays are converted to `dtype`, others keep their type.

    Without `inputs` an elementwise operator gets arrays of shape (2, 3).

    Raises
    ------
    AssertionError  the shape of an input must be said; UnknownOutput: inference does not set that of an output
    """
    prop = operators.get(op) if isinstance(op, str) else op
    p = prop.Param.parse(dict(params or {}), op=prop.name)
    names = [*prop.inputs(p), *prop.aux(p)]
    if inputs is None:
        assert isinstance(prop, Elementwise), f"[{prop.name}] say the shapes of its inputs"
        inputs = [(2, 3)] * len(names)
    given = [*inputs, *[None] * (len(names) - len(inputs))]
    shapes, out_shapes = infer_shapes(prop, p, [_shape(x) for x in given])
    types, out_types = infer_types(prop, p, _types(given, dtypes.code(dtype)))
    source = np.random.default_rng(seed)
    arrays = []
    for name, value, shape, code in zip(names, given, shapes, types, strict=True):
        assert shape is not None and -1 not in shape, f"[{prop.name}] say the shape of {name}"
        if not isinstance(value, np.ndarray):
            value = source.uniform(low, high, shape)
        arrays.append(value.astype(dtypes.numpy_dtype(dtypes.code(dtype) if code is None else code)))
    outputs = []
    for name, shape, code in zip(prop.outputs(p), out_shapes, out_types, strict=True):
        unknown = shape is None or -1 in shape
        assert not (unknown and prop.dynamic_output), f"[{prop.name}] {name}: only a run knows its shape"
        if shape is None or unknown:
            raise UnknownOutput(_unknown(prop, name, shape, names, shapes))
        outputs.append(TensorSpec(shape, dtypes.code(dtype) if code is None else code))
    return Case(prop, p, tuple(arrays), tuple(outputs), is_train)


def _unknown(
    op: Operator,
    output: str,
    shape: tuple[int, ...] | None,
    names: Sequence[str],
    shapes: Sequence[tuple[int, ...] | None],
) -> str:
    known = ", ".join(f"{name} {given}" for name, given in zip(names, shapes, strict=True))
    left = "unknown" if shape is None else f"{shape}, where -1 is unknown,"
    return (
        f"[{op.name}] {output}: its shape stays {left} for inputs of known shapes: {known or 'there are none'}; "
        f"infer_shape must set it: s.assign({output!r}, ...)"
    )


def _shape(value: Input) -> tuple[int, ...] | None:
    return value.shape if isinstance(value, np.ndarray) else value


def _types(given: Sequence[Input], main: int) -> list[int | None]:
    """The first floating-point input has the main type; integer arrays keep theirs."""
    types: list[int | None] = []
    for value in given:
        if isinstance(value, np.ndarray) and not np.issubdtype(value.dtype, np.floating):
            types.append(dtypes.code(value.dtype))
        else:
            types.append(None if main in types else main)
    return types
