# SPDX-License-Identifier: Apache-2.0
"""Checks of operators, kernels, kernel generators and graph passes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from mx_core import operators, plugins, services
from mx_core.errors import NoKernelError
from mx_core.operator.declaration import Operator
from mx_core.operator.gradient import gradient_of
from mx_core.operator.refusal import NAME as REFUSAL
from mx_core.operator.simple import Elementwise
from mx_core.plugins.registries import Entry
from mx_core.raised import told
from mx_core.testing.case import Case
from mx_core.testing.checks.result import FAILURES, Result, attempt, check_target, name_of, optional
from mx_core.testing.checks.services import is_present
from mx_core.testing.examples import DOMAINS, Search, example, search
from mx_core.testing.operator import check_gradient, check_inference, check_parameters, check_reference


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
        yield _check_its_gradient(entry, case)


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
    from mx_core.testing.kernel_values import TOLERANCES

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
    except FAILURES as error:
        return Result(name_of(entry), what, told(error))
    declined = None if done or may_decline else "the kernel declines the example in every type"
    return Result(name_of(entry), what, None, declined)


def _domain(op: Operator) -> tuple[float, float]:
    """The first interval on which the operator gives finite values."""
    from mx_core.testing.case import make_case

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
