# SPDX-License-Identifier: Apache-2.0
"""Checks of operators, kernels, kernel generators and graph passes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from mx_core import dtypes, kernels, operators, plugins, services
from mx_core.errors import NoKernelError
from mx_core.operator.declaration import Operator
from mx_core.operator.gradient import gradient_of
from mx_core.operator.refusal import NAME as REFUSAL
from mx_core.operator.simple import Elementwise
from mx_core.plugins.registries import Entry
from mx_core.raised import told
from mx_core.testing.case import Array, Case, make_case
from mx_core.testing.checks.result import FAILURES, Result, attempt, check_target, name_of, optional
from mx_core.testing.checks.services import is_present
from mx_core.testing.examples import DOMAINS, Search, example, search
from mx_core.testing.kernel_values import TOLERANCES, Checked
from mx_core.testing.operator import (
    check_gradient,
    check_inference,
    check_parameters,
    check_reference,
    check_repeats,
    check_types,
)
from mx_core.testing.variants import variants

#: elements of an input whose gradient is compared, of each further example
PROBES_OF_VARIANT = 3


def check_operator(entry: Entry) -> Iterator[Result]:
    """Its signature, inference, parameters, reference and gradient."""
    op = operators.find(entry.name)
    if op is None:
        (fault, *_) = [f.error for f in plugins.faults(entry.plugin) if f.entry == entry] or [
            "it is set aside"
        ]
        yield Result(name_of(entry), "can be made", fault)
        return
    yield attempt(name_of(entry), "has a signature", op.signature)
    found = search(op)
    if found.case is None or found.wrong is not None:
        yield _without_example(entry, found)
        return
    case = found.case
    where = ", ".join(map(str, case.specs))
    yield attempt(name_of(entry), f"inference is stable on {where}", partial(check_inference, case))
    yield attempt(name_of(entry), "parameters survive their text form", partial(check_parameters, case))
    reference = attempt(
        name_of(entry), "the reference gives what is inferred", partial(check_reference, case)
    )
    yield reference
    if reference.error is None:
        what = "the reference gives the same when it is called again"
        yield attempt(name_of(entry), what, partial(check_repeats, case))
        what = "the reference gives the types that are inferred, for every floating-point type"
        yield attempt(name_of(entry), what, partial(check_types, case))
        yield _check_its_gradient(entry, case)
        if variants(op):
            what = "inference, reference and gradient agree on other shapes and parameters"
            yield attempt(name_of(entry), what, partial(_check_variants, op))


def _check_variants(op: Operator) -> None:
    for variant in variants(op):
        if variant.failure is not None:
            raise AssertionError(f"{variant.what}: {told(variant.failure)}") from variant.failure
        if (case := variant.case) is None:
            continue
        check_inference(case)
        check_parameters(case)
        results = check_reference(case)
        check_types(case)
        if not (op.is_loss or op.is_random or op.dynamic_output or _is_rounded(case)):
            _check_gradient_of_variant(case, results)


def _is_rounded(case: Case) -> bool:
    """Whether an output has fewer digits than differences of it need."""
    kinds = [dtypes.numpy_dtype(spec.dtype) for spec in case.outputs]
    return any(kind.kind == "f" and kind.itemsize < 8 for kind in kinds)


def _check_gradient_of_variant(case: Case, results: list[Array]) -> None:
    try:
        if any(node.op == REFUSAL for node in gradient_of(case.op, case.params).nodes):
            return
        check_gradient(
            case, results, rtol=1e-4, atol=1e-6, kinks=True, probes=PROBES_OF_VARIANT, only_read=True
        )
    except NotImplementedError:  # it refuses to be differentiated with these parameters
        return


def _without_example(entry: Entry, found: Search) -> Result:
    """A failure if the operator raises for every input; otherwise what could not be checked."""
    what = "the reference runs"
    if found.failure is not None:
        last = told(found.failure)
        if found.failure is found.unset:
            return Result(name_of(entry), "inference sets the shape of every output", str(found.unset))
        if found.wrong is None:
            last = f"it raises for every input that inference accepts; last: {last}"
        return Result(name_of(entry), what, last)
    last = f"; the last were refused: {found.refusal}" if found.refusal is not None and not found.runs else ""
    none = "no shapes and parameters were found with which it gives finite values"
    return Result(name_of(entry), what, None, f"{none}{last}; call check_operator in your tests")


def _check_its_gradient(entry: Entry, case: Case) -> Result:
    what = "the gradient is that of the reference"
    op = case.op
    if op.is_loss or op.is_random or op.dynamic_output:
        return Result(name_of(entry), what, None, "a loss, a random operator or one of dynamic shape")
    try:
        gradient = gradient_of(op, case.params)
        if any(node.op == REFUSAL for node in gradient.nodes):
            return Result(name_of(entry), what, None, "its derivatives of higher order are not offered")
        compared = check_gradient(case, case.reference(), rtol=1e-4, atol=1e-6, kinks=True)
    except NotImplementedError as error:
        return Result(name_of(entry), what, None, str(error))
    except FAILURES as error:
        return Result(name_of(entry), what, told(error))
    why = (
        "it is on purpose another one: custom_gradient" if op.custom_gradient else "there is none: it is zero"
    )
    return Result(name_of(entry), what, None, None if compared else why)


def check_kernel(entry: Entry) -> Iterator[Result]:
    """It equals the operator's reference."""
    op = operators.find(entry.value.op)
    device = entry.value.device
    if op is None:
        yield from _check_private(entry)
        return
    if device not in ("cpu", *services.DEVICE_INSTALL, *plugins.registry("devices").names()):
        yield Result(name_of(entry), "has a device", f"there is no device type {device!r}")
        return
    if device != "cpu" and not is_present(device):
        yield Result(name_of(entry), "can be imported", None, f"there is no {device} here")
        return
    yield from check_target(entry)
    what = f"{op.name} equals the reference"
    if device != "cpu":
        yield Result(name_of(entry), what, None, f"kernels for {device} are checked by tests on it")
        return
    case = example(op)
    if case is None and not _is_self_explanatory(op):
        yield Result(name_of(entry), what, None, "no example was found; call check_kernel in your tests")
        return
    yield _equals_reference(entry, op, entry.value.variant, case)


def _check_private(entry: Entry) -> Iterator[Result]:
    """A kernel for an operator that has no public name: graph passes make it, as sample graphs show."""
    from mx_core.testing.graph_pass import cases_of_passes
    from mx_core.testing.kernel import check_variant

    spec, name = entry.value, entry.value.op
    graphs = optional("mx_symbol") is not None and operators.find("FullyConnected") is not None
    found = next(cases_of_passes(name), None) if graphs and name.startswith("_") else None
    if found is None:
        yield Result(
            name_of(entry), "has an operator", f"there is no operator {name!r}, and no graph pass makes one"
        )
        return
    yield from check_target(entry)
    what = f"{name}, which graph passes make, equals the reference"
    if spec.device != "cpu":
        yield Result(name_of(entry), what, None, f"kernels for {spec.device} are checked by tests on it")
        return
    done = 0
    for dtype in TOLERANCES:
        for case in cases_of_passes(name, dtype):
            try:
                case.reference()
            except NoKernelError as error:
                yield Result(
                    name_of(entry), what, None, f"{error}; the checks of graph passes run it in graphs"
                )
                return
            except ValueError:  # arrays in an order of a kernel's own
                continue
            try:
                done += len(check_variant(spec, case, dtype))
            except FAILURES as error:
                yield Result(name_of(entry), what, told(error))
                return
    yield Result(
        name_of(entry), what, None, None if done else "the kernel declines the examples in every type"
    )


def check_generator(entry: Entry) -> Iterator[Result]:
    """Every elementwise operator that can be tried without given inputs, through the generator."""
    yield from check_target(entry)
    for name in operators.names() if entry.value.device == "cpu" else ():
        op = operators.get(name)
        if name == op.name and _is_self_explanatory(op):
            yield _equals_reference(entry, op, entry.value.name, may_decline=True)


def _equals_reference(
    entry: Entry, op: Operator, variant: str, case: Case | None = None, may_decline: bool = False
) -> Result:
    from mx_core.testing.kernel import check_kernel

    what = f"{op.name} equals the reference"
    try:
        if _is_self_explanatory(op) or case is None:
            low, high = _domain(op)
            done = check_kernel(op, variant=variant, low=low, high=high, may_decline=True)
        else:
            done = check_kernel(op, case.params.attrs(), list(case.inputs), variant=variant, may_decline=True)
        types = {checked.dtype for checked in done} or set(TOLERANCES)
        done += _variants_equal_reference(op, variant, [name for name in TOLERANCES if name in types])
    except FAILURES as error:
        return Result(name_of(entry), what, told(error))
    declined = None if done or may_decline else "the kernel declines the examples in every type"
    return Result(name_of(entry), what, None, declined)


def _variants_equal_reference(op: Operator, name: str, types: Sequence[str]) -> list[Checked]:
    """Other shapes and parameters, each in the first type that the kernel takes, float32 before others."""
    from mx_core.testing.kernel import check_variant

    ordered = sorted(types, key=lambda dtype: dtype != "float32")
    specs = [spec for spec in kernels.candidates(op, "cpu") if spec.variant == name]
    done = []
    for case in [variant.case for variant in variants(op) if variant.case is not None]:
        for spec in specs:
            tried = (check_variant(spec, _in_type(case, dtype), dtype) for dtype in ordered)
            done += next(filter(None, tried), [])
    return done


def _in_type(case: Case, dtype: str) -> Case:
    """The same with another floating-point type."""
    return make_case(case.op, case.params.attrs(), list(case.inputs), dtype=dtype, is_train=case.is_train)


def _domain(op: Operator) -> tuple[float, float]:
    """The first interval on which the operator gives finite values."""
    for low, high in DOMAINS:
        if all(np.isfinite(x).all() for x in make_case(op, low=low, high=high).reference()):
            return low, high
    return DOMAINS[0]


def check_pass(entry: Entry) -> Iterator[Result]:
    """Sample graphs give the same with it."""
    yield from check_target(entry)
    symbols = optional("mx_symbol")
    if symbols is None or operators.find("FullyConnected") is None:
        yield Result(name_of(entry), "graphs", None, "mx-symbol or mx-operators is not installed")
        return
    if entry.name in import_module("mx_symbol.passes").OPTIONAL:
        yield Result(name_of(entry), "graphs", None, "it changes results, and runs when it is named only")
        return
    from mx_core.testing.graph_pass import changes_samples, check_graph_pass

    same = attempt(
        name_of(entry), "sample graphs give the same with it", partial(check_graph_pass, entry.name)
    )
    yield same
    if same.error is None and not changes_samples(entry.name):
        yield Result(name_of(entry), "what it changes", None, "no sample graph has anything that it changes")


def _is_self_explanatory(op: Any) -> bool:
    """Operators that can be tried without given shapes or parameters."""
    return (
        isinstance(op, Elementwise)
        and op.variadic is None
        and not any(info.required for info in op.Param.fields())
    )
