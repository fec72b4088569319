# SPDX-License-Identifier: Apache-2.0
"""Runs of a kernel on a case: its plan or function, new arrays for each run, and what it has written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mx_core import _native, dtypes, kernels
from mx_core.cached import cached_property
from mx_core.context import cpu
from mx_core.kernels import KernelCall, KernelSpec
from mx_core.testing import progress
from mx_core.testing.case import RANDOM_KEY, Array, Case
from mx_core.testing.margins import Inside, in_bytes
from mx_core.testing.operator import declared, result_name
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


@dataclass(frozen=True)
class Subject:
    """A kernel that was prepared for a case.

    Attributes
    ----------
    made : its plan or function, as `prepared` returns it
    variant : its name
    """

    made: Any
    case: Case
    variant: str

    @cached_property
    def where(self) -> str:
        """Operator, parameters, shapes, types and the kernel, for messages."""
        return f"{self.case.describe()}: {self.variant}"

    def run(
        self,
        request: str,
        req: Sequence[int] = (),
        *,
        threads: int = 1,
        begin: Sequence[float] = (),
        inplace: tuple[int, int] | None = None,
        shifted: bool = False,
    ) -> list[Array]:
        """Outputs, then what is written of the inputs, of a run on new arrays between margins.

        Parameters
        ----------
        request : what messages call it
        req : per output; default: write
        begin : what the outputs are full of before; default: a value that no kernel should leave
        inplace : (source, target): the output that is given the memory of an input
        shifted : arrays begin one element behind the address that they have else

        Raises
        ------
        AssertionError  it writes outside of an array or of its scratch memory, or changes an input
        """
        case = self.case
        progress.announce(lambda: self.where, request)
        inputs = [Inside(x, shifted=shifted) for x in case.inputs]
        if callable(self.made):
            results = self.made(case.context(), [x.array for x in inputs])
            self._check_inputs(request, inputs, None)
            return self._checked(request, results)
        outputs = [
            Inside(
                np.full(spec.shape, value, dtypes.numpy_dtype(spec.dtype)), is_output=True, shifted=shifted
            )
            for spec, value in zip(case.outputs, begin or [77.0] * len(case.outputs), strict=True)
        ]
        given, found = [x.array for x in inputs], [x.array for x in outputs]
        if inplace is not None:
            found[inplace[1]] = given[inplace[0]]
        try:
            _run(self.made, case, given, found, req, threads)
        except AssertionError as error:
            raise AssertionError(f"{self.where}, {request}: {error}") from None
        self._check_inputs(request, inputs, None if inplace is None else inplace[0])
        for i, (name, output) in enumerate(zip(case.op.outputs(case.params), outputs, strict=True)):
            self._check_outside(request, f"output {i} ({name})", output)
        return [*found, *written(case, given)]

    def _checked(self, request: str, results: Any) -> list[Array]:
        """What a function returned, as arrays; their number, shapes and types are those that are declared."""
        case = self.case
        wanted = declared(case)
        assert isinstance(results, Sequence), (
            f"{self.where}, {request}: it returned a {type(results).__name__}, expected a list of {len(wanted)} arrays"
        )
        assert len(results) == len(wanted), (
            f"{self.where}, {request}: it returned {len(results)} results, expected {len(wanted)}"
        )
        arrays = [np.asarray(x) for x in results]
        for i, (array, spec) in enumerate(zip(arrays, wanted, strict=True)):
            what, dtype = f"{self.where}, {request}: {result_name(case, i)}", dtypes.name(spec.dtype)
            assert array.dtype.name == dtype, f"{what} has type {array.dtype.name}, declared {dtype}"
            is_known = i >= len(case.outputs) or not case.op.dynamic_output
            assert array.shape == spec.shape or not is_known, (
                f"{what} has shape {array.shape}, declared {spec.shape}"
            )
        return arrays

    def _check_inputs(self, request: str, inputs: Sequence[Inside], may_change: int | None) -> None:
        case = self.case
        names = [*case.op.inputs(case.params), *case.op.aux(case.params)]
        for i, (name, now, before) in enumerate(zip(names, inputs, case.inputs, strict=True)):
            self._check_outside(request, f"input {i} ({name})", now)
            if i not in _changed_inputs(case) and i != may_change:
                assert now.array.tobytes() == before.tobytes(), (
                    f"{self.where}, {request}: input {i} ({name}) is overwritten"
                )

    def _check_outside(self, request: str, what: str, array: Inside) -> None:
        damage = array.damage()
        assert not damage, (
            f"{self.where}, {request}: writes outside of {what}, which has {in_bytes(array.array.nbytes)}: {damage}"
        )


def results_of(made: Any, case: Case) -> list[Array]:
    """Outputs and what is written of the inputs, of one run on new arrays."""
    inputs, outputs = fresh(case)
    if callable(made):
        return [np.asarray(x) for x in made(case.context(), inputs)]
    _run(made, case, inputs, outputs)
    return [*outputs, *written(case, inputs)]


def _run(
    plan: Any,
    case: Case,
    inputs: list[Array],
    outputs: list[Array],
    req: Sequence[int] = (),
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
        req or [WRITE] * len(outputs),
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


def _changed_inputs(case: Case) -> list[int]:
    """Indices in the order in which the reference returns new values."""
    return [*range(case.n_inputs, len(case.inputs)), *case.op.mutated_inputs(case.params)]
