# SPDX-License-Identifier: Apache-2.0
"""The objects hook implementations receive: `registry.add(...)`, typed per kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from mx_core.errors import PluginError
from mx_core.graph import STAGES, GraphPass
from mx_core.plugins import specs
from mx_core.plugins.registries import Transaction, calling_line

if TYPE_CHECKING:
    import click

    from mx_core.operator.declaration import Operator

Make = Callable[..., Any]


class _Registrar:
    """Base: stages contributions of one kind in a plug-in's transaction."""

    kind = ""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    def _stage(self, name: str, value: Any, aliases: Sequence[str] = ()) -> None:
        self._check_names(name, "aliases", aliases)
        priority = getattr(value, "priority", 0)
        if type(priority) is not int:
            raise PluginError(f"{self.kind}: {name!r}: priority must be a whole number, got {priority!r}")
        self._transaction.stage(self.kind, name, value, tuple(aliases), calling_line(3))

    def _check_names(self, name: str, what: str, given: Any) -> None:
        if isinstance(given, str) or not all(isinstance(each, str) and each for each in given):
            raise PluginError(f"{self.kind}: {name!r}: {what} must be a sequence of names, got {given!r}")


class DeviceRegistrar(_Registrar):
    """For `mx_register_devices`."""

    kind = "devices"
    _OWN = {"gpu": 2}
    _HOST = ("cpu", "cpu_pinned", "cpu_shared")

    def add(self, name: str, type_id: int, probe: Make | str, make: Make | str) -> None:
        """A device type. `probe() -> int` counts devices without touching them; `type_id` is 2 for
        `gpu` and at least 64 for device types of your own."""
        if name in self._HOST:
            raise PluginError(f"device {name!r} is main memory and needs no plug-in")
        expected = self._OWN.get(name)
        if type_id != expected if expected is not None else type_id < 64:
            need = expected if expected is not None else "at least 64"
            raise PluginError(f"device {name!r}: expected type_id {need}, got {type_id}")
        spec = specs.DeviceSpec(name, type_id, specs.target(probe), specs.target(make))
        self._stage(name, spec, (f"type {type_id}",))


class EngineRegistrar(_Registrar):
    """For `mx_register_engines`."""

    kind = "engines"

    def add(self, name: str, make: Make | str, priority: int = 0, aliases: Sequence[str] = ()) -> None:
        """An engine; the highest priority is the default."""
        spec = specs.EngineSpec(name, specs.target(make), priority, tuple(aliases))
        self._stage(name, spec, aliases)


class StorageManagerRegistrar(_Registrar):
    """For `mx_register_storage_managers`."""

    kind = "storage_managers"

    def add(self, device: str, name: str, make: Make | str, priority: int = 0) -> None:
        """Memory of a device type; the highest priority is used."""
        spec = specs.StorageSpec(device, name, specs.target(make), priority)
        self._stage(f"{device}/{name}", spec)


class ResourceRegistrar(_Registrar):
    """For `mx_register_resources`."""

    kind = "resources"
    KINDS = ("random",)

    def add(self, kind: str, device: str, make: Make | str, priority: int = 0) -> None:
        """A resource of a device type; the highest priority is used."""
        if kind not in self.KINDS:
            raise PluginError(f"resource kind: expected one of {self.KINDS}, got {kind!r}")
        spec = specs.ResourceSpec(kind, device, specs.target(make), priority)
        self._stage(f"{kind}/{device}/{self._transaction.source.plugin}", spec)


class OperatorRegistrar(_Registrar):
    """For `mx_register_operators`."""

    kind = "operators"

    def add(self, operator: type[Operator]) -> None:
        """An operator: the class that declares it."""
        from mx_core.operator.declaration import Operator, check_name

        if not (isinstance(operator, type) and issubclass(operator, Operator)):
            raise PluginError(f"operators: expected an Operator class, got {operator!r}")
        check_name(operator)
        self._stage(operator.name, operator, operator.aliases)

    def add_later(self, table: str) -> None:
        """The operators of a table that `python -m mx_core.operator.later` writes; a module is imported when one of its
        operators is first asked for."""
        for spec in specs.operator_specs(table):
            self._stage(spec.name, spec, spec.aliases)


class KernelRegistrar(_Registrar):
    """For `mx_register_kernels`."""

    kind = "kernels"

    def add(
        self,
        op: str,
        device: str,
        variant: str,
        make: Make | str,
        priority: int = 10,
        supports: Make | str | None = None,
    ) -> None:
        """A kernel: portable native 10, vendor library 20, user 100; the reference is 0."""
        from mx_core.kernels import KernelSpec

        accepts = None if supports is None else specs.target(supports)
        spec = KernelSpec(op, device, variant, specs.target(make), priority, accepts)
        self._stage(f"{op}/{device}/{variant}", spec)


class KernelGeneratorRegistrar(_Registrar):
    """For `mx_register_kernel_generators`."""

    kind = "kernel_generators"

    def add(self, device: str, name: str, make: Make | str, priority: int = 10) -> None:
        """`make(expression, call) -> plan or None` for every elementwise operator."""
        spec = specs.GeneratorSpec(device, name, specs.target(make), priority)
        self._stage(f"{device}/{name}", spec)


class GraphPassRegistrar(_Registrar):
    """For `mx_register_graph_passes`."""

    kind = "graph_passes"

    def add(
        self,
        name: str,
        stage: str,
        apply: GraphPass | str,
        after: Sequence[str] = (),
        before: Sequence[str] = (),
    ) -> None:
        """A graph pass (`mx_core.graph.GraphPass`); `after` and `before` name passes of the same stage."""
        if stage not in STAGES:
            raise PluginError(f"graph pass {name!r}: expected a stage of {', '.join(STAGES)}, got {stage!r}")
        for what, names in (("after", after), ("before", before)):
            self._check_names(name, what, names)
        spec = specs.PassSpec(name, stage, specs.target(apply), tuple(after), tuple(before))
        self._stage(name, spec)


class ImageCodecRegistrar(_Registrar):
    """For `mx_register_image_codecs`."""

    kind = "image_codecs"

    def add(
        self,
        name: str,
        extensions: Sequence[str],
        sniff: Make | str,
        decode: Make | str,
        encode: Make | str | None = None,
        priority: int = 10,
    ) -> None:
        """An image codec; `sniff(head)` recognises it by the first bytes."""
        self._check_names(name, "extensions", extensions)
        writer = None if encode is None else specs.target(encode)
        spec = specs.CodecSpec(
            name, tuple(extensions), specs.target(sniff), specs.target(decode), writer, priority
        )
        self._stage(name, spec)


class CommandRegistrar(_Registrar):
    """For `mx_register_commands`."""

    kind = "commands"

    def add(self, name: str, command: click.Command | str) -> None:
        """A subcommand of `mx`."""
        self._stage(
            name,
            specs.CommandSpec(name, specs.Target(command) if isinstance(command, str) else command),
        )


class DataIterRegistrar(_Registrar):
    """For `mx_register_data_iters`."""

    kind = "data_iters"

    def add(self, name: str, make: Make | str) -> None:
        """A data iterator."""
        self._stage(name, specs.FactorySpec(name, specs.target(make)))


class ProfilerSinkRegistrar(_Registrar):
    """For `mx_register_profiler_sinks`."""

    kind = "profiler_sinks"

    def add(self, name: str, make: Make | str) -> None:
        """A profiler sink."""
        self._stage(name, specs.FactorySpec(name, specs.target(make)))


class _FactoryRegistrar(_Registrar):
    """Kinds whose contribution is a name, a factory and other names for it."""

    def add(self, name: str, make: Make | str, aliases: Sequence[str] = ()) -> None:
        """A factory under a name and its aliases."""
        self._stage(name, specs.FactorySpec(name, specs.target(make), tuple(aliases)), aliases)


class KVStoreRegistrar(_FactoryRegistrar):
    """For `mx_register_kvstores`: `make(name) -> KVStore`."""

    kind = "kvstores"


class AugmenterRegistrar(_FactoryRegistrar):
    """For `mx_register_augmenters`."""

    kind = "augmenters"


class OptimizerRegistrar(_FactoryRegistrar):
    """For `mx_register_optimizers`."""

    kind = "optimizers"


class MetricRegistrar(_FactoryRegistrar):
    """For `mx_register_metrics`."""

    kind = "metrics"


class InitializerRegistrar(_FactoryRegistrar):
    """For `mx_register_initializers`."""

    kind = "initializers"


#: Kind -> registrar, in the order the hooks are called.
REGISTRARS: dict[str, type[_Registrar]] = {
    cls.kind: cls
    for cls in (
        DeviceRegistrar,
        EngineRegistrar,
        StorageManagerRegistrar,
        ResourceRegistrar,
        OperatorRegistrar,
        KernelRegistrar,
        KernelGeneratorRegistrar,
        GraphPassRegistrar,
        KVStoreRegistrar,
        DataIterRegistrar,
        ImageCodecRegistrar,
        AugmenterRegistrar,
        OptimizerRegistrar,
        MetricRegistrar,
        InitializerRegistrar,
        ProfilerSinkRegistrar,
        CommandRegistrar,
    )
}
