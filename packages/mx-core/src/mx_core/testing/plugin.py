# SPDX-License-Identifier: Apache-2.0
"""Runs the contract checks that apply to what a plug-in registered."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from mx_core import plugins
from mx_core.plugins.discovery import PluginRecord
from mx_core.plugins.registries import Entry
from mx_core.testing.checks.commands import check_command
from mx_core.testing.checks.hooks import check_hook
from mx_core.testing.checks.operators import check_generator, check_kernel, check_operator, check_pass
from mx_core.testing.checks.result import Result as Result
from mx_core.testing.checks.result import check_target, name_of
from mx_core.testing.checks.result import run_contract as run_contract
from mx_core.testing.checks.services import check_device, check_engine, check_resource, check_storage
from mx_core.testing.checks.training import check_codec, check_iterator, check_store, check_trained


def subjects(record: PluginRecord) -> tuple[tuple[str, str], ...]:
    """What of a plug-in can be checked, as (kind, name): its contributions, then the hooks that events call."""
    events = tuple(("hooks", hook) for hook in record.hooks if not hook.startswith("mx_register_"))
    return (*record.contributions, *events)


def check_plugin(record: PluginRecord, number: int) -> Iterator[Result]:
    """Results of the checks of one subject, one by one."""
    kind, name = subjects(record)[number]
    if kind == "hooks":
        yield from check_hook(record.name, name)
    else:
        entry = plugins.registry(kind).get(name)
        yield from CHECKS.get(kind, _check_other)(entry)
    for fault in plugins.faults(record.name):
        if (fault.entry.kind, fault.entry.name) == (kind, name):
            subject = f"hook {name!r}" if kind == "hooks" else name_of(fault.entry)
            yield Result(subject, "works", f"it was set aside: {fault.error}")


def _check_other(entry: Entry) -> Iterator[Result]:
    yield from check_target(entry)
    yield Result(name_of(entry), "behaviour", None, "there is no contract for this kind")


#: kind of a contribution -> its checks
CHECKS: dict[str, Callable[[Entry], Iterator[Result]]] = {
    "augmenters": check_trained,
    "commands": check_command,
    "data_iters": check_iterator,
    "devices": check_device,
    "engines": check_engine,
    "graph_passes": check_pass,
    "image_codecs": check_codec,
    "initializers": check_trained,
    "kernel_generators": check_generator,
    "kernels": check_kernel,
    "kvstores": check_store,
    "metrics": check_trained,
    "operators": check_operator,
    "optimizers": check_trained,
    "resources": check_resource,
    "storage_managers": check_storage,
}
