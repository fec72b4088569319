# SPDX-License-Identifier: Apache-2.0
"""The hooks of mx, as pluggy specifications.

A plug-in is a module named by an entry point of group `mx.plugins.v1`. It implements any of these
functions; an implementation may take fewer arguments. Registration hooks are called once per
process, on the thread that first asks for a registry, in no particular order; no hook is
called on a hot path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall, KernelSpec
    from mx_core.operator.declaration import Operator
    from mx_core.plugins import registrars

#: Entry-point group; its suffix is the major version of this page.
GROUP = "mx.plugins.v1"
#: Version of these hooks. A plug-in's MX_HOOK_API must have the same major and at most this minor.
HOOK_API = (1, 0)

hookspec = pluggy.HookspecMarker("mx")
hookimpl = pluggy.HookimplMarker("mx")


@dataclass(frozen=True)
class PluginInfo:
    """A plug-in's description of itself, as `MX_PLUGIN` in its module.

    Parameters
    ----------
    variables : mapping of str to str
        Environment variables it reads, each with a sentence; `mx doctor` knows them then.
    """

    summary: str = ""
    url: str = ""
    variables: Mapping[str, str] = field(default_factory=dict, hash=False)


@hookspec
def mx_register_devices(registry: registrars.DeviceRegistrar) -> None:
    """Device types: `add(name, type_id, probe, make)`."""


@hookspec
def mx_register_engines(registry: registrars.EngineRegistrar) -> None:
    """Engines: `add(name, make, priority=0, aliases=())`."""


@hookspec
def mx_register_storage_managers(registry: registrars.StorageManagerRegistrar) -> None:
    """Memory of a device type: `add(device, name, make, priority=0)`."""


@hookspec
def mx_register_resources(registry: registrars.ResourceRegistrar) -> None:
    """Random streams of a device type: `add(kind, device, make, priority=0)`."""


@hookspec
def mx_register_operators(registry: registrars.OperatorRegistrar) -> None:
    """Operator declarations: `add(operator)`."""


@hookspec
def mx_register_kernels(registry: registrars.KernelRegistrar) -> None:
    """Kernels: `add(op, device, variant, make, priority=10, supports=None)`."""


@hookspec
def mx_register_kernel_generators(registry: registrars.KernelGeneratorRegistrar) -> None:
    """Kernels for any expression: `add(device, name, make, priority=10)`."""


@hookspec
def mx_register_graph_passes(registry: registrars.GraphPassRegistrar) -> None:
    """Graph passes: `add(name, stage, apply, after=(), before=())`."""


@hookspec
def mx_register_kvstores(registry: registrars.KVStoreRegistrar) -> None:
    """Parameter stores: `add(name, make, aliases=())`."""


@hookspec
def mx_register_data_iters(registry: registrars.DataIterRegistrar) -> None:
    """Data iterators: `add(name, make)`."""


@hookspec
def mx_register_image_codecs(registry: registrars.ImageCodecRegistrar) -> None:
    """Image formats: `add(name, extensions, sniff, decode, encode=None, priority=10)`."""


@hookspec
def mx_register_augmenters(registry: registrars.AugmenterRegistrar) -> None:
    """Image augmenters: `add(name, make, aliases=())`."""


@hookspec
def mx_register_optimizers(registry: registrars.OptimizerRegistrar) -> None:
    """Optimizers: `add(name, make, aliases=())`."""


@hookspec
def mx_register_metrics(registry: registrars.MetricRegistrar) -> None:
    """Evaluation metrics: `add(name, make, aliases=())`."""


@hookspec
def mx_register_initializers(registry: registrars.InitializerRegistrar) -> None:
    """Initializers: `add(name, make, aliases=())`."""


@hookspec
def mx_register_profiler_sinks(registry: registrars.ProfilerSinkRegistrar) -> None:
    """Receivers of profiler events: `add(name, make)`."""


@hookspec
def mx_register_commands(registry: registrars.CommandRegistrar) -> None:
    """Subcommands of `mx`: `add(name, command)`."""


@hookspec(firstresult=True)
def mx_select_kernel(op: Operator, call: KernelCall, candidates: Sequence[KernelSpec]) -> KernelSpec | None:
    """Called once per signature: returns the candidate to try first, or None to follow priorities."""


@hookspec(firstresult=True)
def mx_read_graph(graph: str) -> object:
    """A symbol from the JSON text of a graph; `autograd.get_symbol` calls it."""


@hookspec
def mx_stub_modules() -> Mapping[str, str]:  # type: ignore[empty-body]  # a specification
    """Modules whose functions are made from operators -> `"module:Class"` of the arrays these take."""


@hookspec
def mx_fork(stage: str) -> None:
    """`"before"`, `"parent"` or `"child"` around `os.fork`; on the forking thread.

    Where Ctrl-C, or what else a handler of a signal raises, has ended it, it is called once more.
    """


@hookspec
def mx_shutdown() -> None:
    """The interpreter is about to end; errors are reported and do not stop other plug-ins."""


@hookspec
def mx_diagnostics() -> Mapping[str, str]:  # type: ignore[empty-body]  # a specification
    """Lines for `mx doctor`: what was found on this machine."""
