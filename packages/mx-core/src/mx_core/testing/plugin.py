# SPDX-License-Identifier: Apache-2.0
"""Runs the contract checks that apply to what a plug-in registered."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from mx_core import operators, plugins, services
from mx_core.context import Context
from mx_core.errors import ArgumentError, MXNetError
from mx_core.operator.declaration import Operator
from mx_core.operator.simple import Elementwise
from mx_core.plugins import specs
from mx_core.plugins.discovery import PluginRecord
from mx_core.plugins.registries import Entry
from mx_core.testing.case import Case
from mx_core.testing.examples import Search, example, search
from mx_core.testing.expect import check_attributes
from mx_core.testing.operator import check_gradient, check_inference, check_parameters, check_reference


@dataclass(frozen=True)
class Result:
    """One check: it passed when it has neither an `error` nor `unchecked`, why nothing could be checked."""

    subject: str
    check: str
    error: str | None = None
    unchecked: str | None = None


def check_plugin(record: PluginRecord, number: int) -> Iterator[Result]:
    """Results of the checks of one contribution, one by one."""
    kind, name = record.contributions[number]
    entry = plugins.registry(kind).get(name)
    yield from _CHECKS.get(kind, _check_other)(entry)
    for fault in plugins.faults(record.name):
        if fault.entry is entry:
            yield Result(_subject(entry), "works", f"it was set aside: {fault.error}")


def run_contract(contract: Any, subject: str) -> Iterator[Result]:
    """Runs every test of a contract instance."""
    for name in sorted(dir(contract)):
        if name.startswith("test_"):
            yield _attempt(subject, name.removeprefix("test_").replace("_", " "), getattr(contract, name))


def _run_made(contract: Any, make: Callable[[], Any], subject: str) -> Iterator[Result]:
    """The contract, or one failure where nothing can be made of which it could be checked."""

    def check() -> None:
        made = make()
        check_attributes(made, getattr(contract, "required", ()))
        if hasattr(contract, "make_engine"):
            made.stop()

    result = _attempt(subject, "can be made", check)
    if result.error is not None:
        yield result
        return
    yield from run_contract(contract, subject)


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

    yield from _run_made(Contract(), entry.value.make, _subject(entry))


def _check_storage(entry: Entry) -> Iterator[Result]:
    from mx_core.testing.storage import StorageContract

    class Contract(StorageContract):
        context = Context(entry.value.device)
        host_accessible = entry.value.device.startswith("cpu")

        def make_storage(self) -> Any:
            return entry.value.make()

    yield from _run_made(Contract(), entry.value.make, _subject(entry))


def _check_resource(entry: Entry) -> Iterator[Result]:
    from mx_core.testing.random import RandomContract

    class Contract(RandomContract):
        context = Context(entry.value.device)

        def make_random(self) -> Any:
            return entry.value.make()

    yield from _run_made(Contract(), entry.value.make, _subject(entry))


def _check_codec(entry: Entry) -> Iterator[Result]:
    from mx_core.testing.codec import CodecContract

    class Contract(CodecContract):
        tolerance = 16  # whether it is lossless is not registered

        def make_codec(self) -> specs.CodecSpec:
            codec: specs.CodecSpec = entry.value
            return codec

    subject = _subject(entry)
    if entry.value.encode is not None:
        yield from run_contract(Contract(), subject)
        return
    for head in (b"", bytes(64)):
        yield _attempt(subject, f"sniff answers to {len(head)} bytes", partial(entry.value.sniff, head))
    yield _attempt(subject, "decode can be imported", partial(specs.resolve, entry.value.decode))
    cure = "it writes none of its images; derive from CodecContract in your tests and give it a sample"
    yield Result(subject, "decoding", None, cure)


def _check_operator(entry: Entry) -> Iterator[Result]:
    op = operators.find(entry.name)
    if op is None:
        (fault, *_) = [f.error for f in plugins.faults(entry.plugin) if f.entry == entry] or [
            "it is set aside"
        ]
        yield Result(_subject(entry), "can be made", fault)
        return
    yield _attempt(_subject(entry), "has a signature", op.signature)
    found = search(op)
    if found.case is None:
        yield _without_example(entry, found)
        return
    case = found.case
    where = ", ".join(map(str, case.specs))
    yield _attempt(_subject(entry), f"inference is stable on {where}", partial(check_inference, case))
    yield _attempt(_subject(entry), "parameters survive their text form", partial(check_parameters, case))
    reference = _attempt(
        _subject(entry), "the reference gives what is inferred", partial(check_reference, case)
    )
    yield reference
    if reference.error is None:
        yield _check_its_gradient(entry, case)


def _without_example(entry: Entry, found: Search) -> Result:
    """A failure where the operator raises whatever it is given, else what was not found out."""
    what = "the reference runs"
    if found.failure is not None:
        last = f"{type(found.failure).__name__}: {found.failure}"
        return Result(_subject(entry), what, f"it raises whatever inference accepts; the last was {last}")
    last = f"; the last were refused: {found.refusal}" if found.refusal is not None and not found.runs else ""
    none = "no shapes and parameters were found with which it gives finite values"
    return Result(_subject(entry), what, None, f"{none}{last}; call check_operator in your tests")


def _check_its_gradient(entry: Entry, case: Case) -> Result:
    what = "the gradient is that of the reference"
    if case.op.is_loss or case.op.is_random or case.op.dynamic_output:
        return Result(_subject(entry), what, None, "a loss, a random operator or one of dynamic shape")
    results = case.reference()
    try:
        compared = check_gradient(case, results, rtol=1e-4, atol=1e-6, kinks=True)
    except NotImplementedError as error:
        return Result(_subject(entry), what, None, str(error))
    except Exception as error:
        return Result(_subject(entry), what, f"{type(error).__name__}: {error}")
    return Result(_subject(entry), what, None, None if compared else "there is none: it is zero")


def _check_kernel(entry: Entry) -> Iterator[Result]:
    op = operators.find(entry.value.op)
    device = entry.value.device
    if op is None:
        yield Result(_subject(entry), "has an operator", f"there is no operator {entry.value.op!r}")
        return
    if device not in ("cpu", *services.DEVICE_INSTALL, *plugins.registry("devices").names()):
        yield Result(_subject(entry), "has a device", f"there is no device type {device!r}")
        return
    if device != "cpu" and not _is_present(device):
        yield Result(_subject(entry), "can be imported", None, f"there is no {device} here")
        return
    yield from _check_target(entry)
    what = f"{op.name} equals the reference"
    if device != "cpu":
        yield Result(_subject(entry), what, None, f"kernels for {device} are checked by tests on it")
        return
    case = example(op)
    if case is None and not _is_self_explanatory(op):
        yield Result(_subject(entry), what, None, "no example was found; call check_kernel in your tests")
        return
    yield _equals_reference(entry, op, entry.value.variant, case)


def _is_present(device: str) -> bool:
    try:
        return services.device_count(device) > 0
    except MXNetError:
        return False


def _check_generator(entry: Entry) -> Iterator[Result]:
    """Every elementwise operator that needs no explanation, through the generator."""
    yield from _check_target(entry)
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
            done = check_kernel(
                op, case.params.attrs_all(), list(case.inputs), variant=variant, may_decline=True
            )
    except Exception as error:
        return Result(_subject(entry), what, f"{type(error).__name__}: {error}")
    declined = None if done or may_decline else "the kernel declines the example in every type"
    return Result(_subject(entry), what, None, declined)


def _domain(op: Operator) -> tuple[float, float]:
    """An interval on which the operator is defined and smooth, as far as one can guess."""
    from mx_core.testing.case import make_case

    for low, high in ((0.2, 0.8), (1.2, 1.8), (-0.8, -0.2)):
        if all(np.isfinite(x).all() for x in make_case(op, low=low, high=high).reference()):
            return low, high
    return 0.2, 0.8


def _check_target(entry: Entry) -> Iterator[Result]:
    for field in ("make", "apply", "command", "supports"):
        target = getattr(entry.value, field, None)
        if target is not None:
            yield _attempt(_subject(entry), f"{field} can be imported", partial(specs.resolve, target))


def _check_other(entry: Entry) -> Iterator[Result]:
    yield from _check_target(entry)
    yield Result(_subject(entry), "behaviour", None, "there is no contract for this kind")


def _check_store(entry: Entry) -> Iterator[Result]:
    from mx_core.testing.kvstore import KVStoreContract

    imported = list(_check_target(entry))
    yield from imported
    if any(result.error for result in imported):
        return
    arrays = _optional("mx_ndarray")
    if arrays is None:
        yield Result(_subject(entry), "contract of stores", None, "mx-ndarray is not installed")
        return

    class Contract(KVStoreContract):
        def make_store(self) -> Any:
            return entry.value.make(entry.name)

        def array(self, values: Any) -> Any:
            return arrays.nd.array(values)

    yield from _run_made(Contract(), partial(entry.value.make, entry.name), _subject(entry))


def _check_iterator(entry: Entry) -> Iterator[Result]:
    from mx_core.testing.data_iter import DataIterContract

    imported = list(_check_target(entry))
    yield from imported
    if any(result.error for result in imported):
        return
    _, result = _made_plainly(entry, "contract of iterators", "derive from DataIterContract in your tests")
    if result is not None:
        yield result
        return

    class Contract(DataIterContract):
        def make_iter(self) -> Any:
            return entry.value.make()

    yield from run_contract(Contract(), _subject(entry))


def _made_plainly(entry: Entry, check: str, cure: str) -> tuple[Any, Result | None]:
    """What is made without arguments, or why that was not possible: a failure unless arguments are needed."""
    make = specs.resolve(entry.value.make)
    try:
        inspect.signature(make).bind()
    except TypeError as error:
        reason = f"it cannot be made without arguments ({error}); {cure}"
        return None, Result(_subject(entry), check, None, reason)
    except ValueError:  # a callable of C, whose arguments are not known
        pass
    try:
        return make(), None
    except (ArgumentError, FileNotFoundError) as error:
        reason = f"it cannot be made without arguments ({error}); {cure}"
        return None, Result(_subject(entry), check, None, reason)
    except Exception as error:
        return None, Result(_subject(entry), "can be made", f"{type(error).__name__}: {error}")


def _check_trained(entry: Entry) -> Iterator[Result]:
    """An optimizer or a metric."""
    from mx_core.testing import training

    imported = list(_check_target(entry))
    yield from imported
    if any(result.error for result in imported):
        return
    what, function = _TRAINED[entry.kind], getattr(training, f"check_{entry.kind.removesuffix('s')}")
    arrays = _optional("mx_ndarray")
    if arrays is None:
        yield Result(_subject(entry), what, None, "mx-ndarray is not installed")
        return
    made, result = _made_plainly(entry, what, "call mx_core.testing.training in your tests")
    if result is not None:
        yield result
        return
    try:
        function(made, arrays.nd.array)
    except training.Unsuited as error:
        yield Result(_subject(entry), what, None, f"it refuses made-up arrays: {error}")
    except Exception as error:
        yield Result(_subject(entry), what, f"{type(error).__name__}: {error}")
    else:
        yield Result(_subject(entry), what)


def _check_device(entry: Entry) -> Iterator[Result]:
    counted = _attempt(_subject(entry), "devices can be counted", partial(services.device_count, entry.name))
    yield counted
    if counted.error is not None:
        return
    if not services.device_count(entry.name):
        yield Result(_subject(entry), "table", None, "there is no such device here")
        return

    def check_table() -> None:
        from mx_core import _native

        _native.check_table(services.device(entry.name).capsule, entry.distribution)

    yield _attempt(_subject(entry), "its table is one this mx-core can use", check_table)
    yield from _check_device_contract(entry)
    arrays = _optional("mx_ndarray")
    if arrays is None:
        yield Result(_subject(entry), "arrays", None, "mx-ndarray is not installed")
        return

    def copy() -> None:
        values = np.arange(12, dtype=np.float32).reshape(3, 4)
        there = arrays.nd.array(values, ctx=Context(entry.name))
        np.testing.assert_array_equal(there.asnumpy(), values)
        np.testing.assert_array_equal(there.copy().as_in_context(Context("cpu")).asnumpy(), values)

    yield _attempt(_subject(entry), "arrays go there, are copied and come back", copy)


def _check_device_contract(entry: Entry) -> Iterator[Result]:
    from mx_core.testing.device_contract import DeviceContract

    class Contract(DeviceContract):
        context = Context(entry.name)

        def make_device(self) -> Any:
            return services.device(entry.name)

        def make_storage(self) -> Any:
            return services.storage(entry.name)

    try:
        services.storage(entry.name)
    except MXNetError as error:
        yield Result(_subject(entry), "contract of devices", None, f"it has no memory: {error}")
        return
    yield from run_contract(Contract(), _subject(entry))


def _check_pass(entry: Entry) -> Iterator[Result]:
    yield from _check_target(entry)
    symbols = _optional("mx_symbol")
    if symbols is None or operators.find("FullyConnected") is None:
        yield Result(_subject(entry), "graphs", None, "mx-symbol or mx-operators is not installed")
        return
    if entry.name in import_module("mx_symbol.passes").OPTIONAL:
        yield Result(_subject(entry), "graphs", None, "it changes results, and runs when it is named only")
        return
    from mx_core.testing.graph_pass import check_graph_pass

    yield _attempt(
        _subject(entry), "sample graphs give the same with it", partial(check_graph_pass, entry.name)
    )


def _optional(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        return None


def _is_self_explanatory(op: Any) -> bool:
    """An operator that can be tried without knowing shapes or parameters."""
    return (
        isinstance(op, Elementwise)
        and op.variadic is None
        and not any(info.required for info in op.Param.fields())
    )


#: what is checked of what training uses
_TRAINED = {
    "optimizers": "it updates a weight",
    "metrics": "it takes labels and predictions, and gives finite numbers",
}
_CHECKS: dict[str, Callable[[Entry], Iterator[Result]]] = {
    "kvstores": _check_store,
    "data_iters": _check_iterator,
    "optimizers": _check_trained,
    "metrics": _check_trained,
    "devices": _check_device,
    "graph_passes": _check_pass,
    "engines": _check_engine,
    "storage_managers": _check_storage,
    "resources": _check_resource,
    "image_codecs": _check_codec,
    "operators": _check_operator,
    "kernels": _check_kernel,
    "kernel_generators": _check_generator,
}
