# SPDX-License-Identifier: Apache-2.0
"""Runs the contract checks that apply to what a plug-in registered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from mx_core import operators, plugins
from mx_core.context import Context
from mx_core.operator.declaration import Operator
from mx_core.operator.simple import Elementwise
from mx_core.plugins import specs
from mx_core.plugins.discovery import PluginRecord
from mx_core.plugins.registries import Entry


@dataclass(frozen=True)
class Result:
    """One check: `error` is None when it passed."""

    subject: str
    check: str
    error: str | None = None


def check_plugin(record: PluginRecord) -> Iterator[Result]:
    """Results one by one; a contribution without a contract is imported only."""
    for kind, name in record.contributions:
        yield from _CHECKS.get(kind, _check_target)(plugins.registry(kind).get(name))


def run_contract(contract: Any, subject: str) -> Iterator[Result]:
    """Runs every test of a contract instance."""
    for name in sorted(dir(contract)):
        if name.startswith("test_"):
            yield _attempt(subject, name.removeprefix("test_").replace("_", " "), getattr(contract, name))


def _attempt(subject: str, check: str, function: Callable[[], Any]) -> Result:
    try:
        function()
    except Exception as error:
        return Result(subject, check, f"{type(error).__name__}: {error}")
    return Result(subject, check)


def _subject(entry: Entry) -> str:
    return f"{entry.kind.replace('_', ' ')} {entry.name!r}"


def _check_engine(entry: Entry) -> Iterator[Result]:
    from mx_core.testing.engine import EngineContract

    class Contract(EngineContract):
        def make_engine(self) -> Any:
            return entry.value.make()

    yield from run_contract(Contract(), _subject(entry))


def _check_storage(entry: Entry) -> Iterator[Result]:
    from mx_core.testing.storage import StorageContract

    class Contract(StorageContract):
        context = Context(entry.value.device)
        host_accessible = entry.value.device.startswith("cpu")

        def make_storage(self) -> Any:
            return entry.value.make()

    yield from run_contract(Contract(), _subject(entry))


def _check_resource(entry: Entry) -> Iterator[Result]:
    from mx_core.testing.random import RandomContract

    class Contract(RandomContract):
        context = Context(entry.value.device)

        def make_random(self) -> Any:
            return entry.value.make()

    yield from run_contract(Contract(), _subject(entry))


def _check_codec(entry: Entry) -> Iterator[Result]:
    from mx_core.testing.codec import CodecContract

    class Contract(CodecContract):
        tolerance = 16  # whether it is lossless is not registered

        def make_codec(self) -> specs.CodecSpec:
            codec: specs.CodecSpec = entry.value
            return codec

    yield from run_contract(Contract(), _subject(entry))


def _check_operator(entry: Entry) -> Iterator[Result]:
    op = operators.get(entry.name)
    yield _attempt(_subject(entry), "has a signature", op.signature)
    if _is_self_explanatory(op):
        from mx_core.testing.operator import check_operator

        def check() -> None:
            low, high = _domain(op)
            check_operator(op, low=low, high=high)

        yield _attempt(_subject(entry), "inference, reference and gradient agree", check)


def _check_kernel(entry: Entry) -> Iterator[Result]:
    yield from _check_target(entry)
    op = operators.find(entry.value.op)
    if op is not None and entry.value.device == "cpu" and _is_self_explanatory(op):
        yield _equals_reference(entry, op, entry.value.variant)


def _check_generator(entry: Entry) -> Iterator[Result]:
    """Every elementwise operator that needs no explanation, through the generator."""
    yield from _check_target(entry)
    for name in operators.names() if entry.value.device == "cpu" else ():
        op = operators.get(name)
        if name == op.name and _is_self_explanatory(op):
            yield _equals_reference(entry, op, entry.value.name, may_decline=True)


def _equals_reference(entry: Entry, op: Operator, variant: str, may_decline: bool = False) -> Result:
    from mx_core.testing.kernel import check_kernel

    def check() -> None:
        low, high = _domain(op)
        check_kernel(op, variant=variant, low=low, high=high, may_decline=may_decline)

    return _attempt(_subject(entry), f"{op.name} equals the reference", check)


def _domain(op: Operator) -> tuple[float, float]:
    """An interval on which the operator is defined and smooth, as far as one can guess."""
    import numpy as np

    from mx_core.testing.case import make_case

    for low, high in ((0.2, 0.8), (1.2, 1.8), (-0.8, -0.2)):
        if all(np.isfinite(x).all() for x in make_case(op, low=low, high=high).reference()):
            return low, high
    return 0.2, 0.8


def _check_target(entry: Entry) -> Iterator[Result]:
    for field in ("make", "apply", "command"):
        if hasattr(entry.value, field):
            target = getattr(entry.value, field)
            yield _attempt(_subject(entry), f"{field} can be imported", partial(specs.resolve, target))


def _is_self_explanatory(op: Any) -> bool:
    """An operator that can be tried without being told shapes or parameters."""
    return (
        isinstance(op, Elementwise)
        and op.variadic is None
        and not any(info.required for info in op.Param.fields())
    )


_CHECKS: dict[str, Callable[[Entry], Iterator[Result]]] = {
    "engines": _check_engine,
    "storage_managers": _check_storage,
    "resources": _check_resource,
    "image_codecs": _check_codec,
    "operators": _check_operator,
    "kernels": _check_kernel,
    "kernel_generators": _check_generator,
}
