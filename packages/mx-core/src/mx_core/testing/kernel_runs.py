# SPDX-License-Identifier: Apache-2.0
"""Runs of a kernel on a case: its plan or function, new arrays for each run, and what it has written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mx_core import _native, dtypes, kernels
from mx_core.context import cpu
from mx_core.kernels import KernelCall, KernelSpec
from mx_core.testing.case import RANDOM_KEY, Array, Case
from mx_core.testing.plan import WRITE, run_plan


def prepared(spec: KernelSpec, case: Case) -> Any:
    """The plan or the function of a kernel; None when it declines the signature."""
    call = KernelCall(case.op, case.params, case.specs, case.outputs, cpu(), case.is_train)
    if spec.supports is not None and not spec.supports(call):
        return None
    return _planned(spec.make(call), call)


def _planned(made: Any, call: KernelCall) -> Any:
    """What a `make` returned, with a kernel table asked for its plan."""
    name = _native.capsule_name(made)
    assert made is None or name is not None or callable(made), (
        f"make returned a {type(made).__name__}; expected a plan, a kernel table, a function or None"
    )
    if name != kernels.KERNEL_CAPSULE:
        return made
    return _native.prepare_native(
        made,
        call.op.name,
        call.params.attrs_all(),
        [(spec.shape, spec.dtype) for spec in call.inputs],
        [(spec.shape, spec.dtype) for spec in call.outputs],
        (call.context.device_typeid, call.context.device_id),
        call.is_train,
    )


def results_of(made: Any, case: Case) -> list[Array]:
    """Outputs and what is written of the inputs, of one run on new arrays."""
    inputs, outputs = fresh(case)
    if callable(made):
        return [np.asarray(x) for x in made(case.context(), inputs)]
    run(made, case, inputs, outputs, [WRITE] * len(outputs))
    return [*outputs, *written(case, inputs)]


def run(
    plan: Any,
    case: Case,
    inputs: list[Array],
    outputs: list[Array],
    req: list[int],
    threads: int = 1,
) -> None:
    """Runs a plan on arrays; outputs whose shape depends on values become new arrays in the list."""
    targets: list[Array | int] = list(outputs)
    if case.op.dynamic_output:
        targets = [spec.dtype for spec in case.outputs]
    outputs[:] = run_plan(
        plan,
        inputs,
        targets,
        req,
        is_train=case.is_train,
        scalars=case.params.scalars,
        random_key=RANDOM_KEY,
        threads=threads,
    )


def fresh(case: Case) -> tuple[list[Array], list[Array]]:
    """Copies of the inputs, and outputs full of a value no kernel should leave."""
    outputs = [np.full(spec.shape, 77, dtypes.numpy_dtype(spec.dtype)) for spec in case.outputs]
    return [x.copy() for x in case.inputs], outputs


def written(case: Case, inputs: Sequence[Array]) -> list[Array]:
    """The new auxiliary states and mutated inputs, in the order in which the reference returns them."""
    return [inputs[i] for i in _changed_inputs(case)]


def unchanged(case: Case, inputs: Sequence[Array]) -> None:
    """Asserts that a kernel has left the inputs alone that it must not write."""
    for i, (now, before) in enumerate(zip(inputs, case.inputs, strict=True)):
        if i not in _changed_inputs(case):
            assert now.tobytes() == before.tobytes(), f"{case.describe()}: input {i} is overwritten"


def _changed_inputs(case: Case) -> list[int]:
    """Indices in the order in which the reference returns new values."""
    return [*range(case.n_inputs, len(case.inputs)), *case.op.mutated_inputs(case.params)]


class Inside:
    """A copy of an array, one element into a buffer full of ones."""

    def __init__(self, array: Array) -> None:
        self._buffer = np.ones(array.size + 2, array.dtype)
        self.array = self._buffer[1:-1].reshape(array.shape)
        self.array[...] = array

    def is_alone(self) -> bool:
        """Whether only the array has been written."""
        return bool(self._buffer[0] == 1 and self._buffer[-1] == 1)
