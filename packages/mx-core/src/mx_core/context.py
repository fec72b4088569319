# SPDX-License-Identifier: Apache-2.0
"""Contexts: on which device memory lies and work runs."""

from __future__ import annotations

import operator
import threading
from typing import TYPE_CHECKING, ClassVar

from mx_core import _native
from mx_core.errors import ArgumentError


class _Entered(threading.local):
    """The contexts of the `with` blocks that a thread is in, innermost last."""

    stack: tuple[Context, ...] = ()


class _HasDefault(type):
    """Of `Context`, so that `Context.default_ctx` can be read and set."""

    @property
    def default_ctx(cls) -> Context:
        """The calling thread's default context; setting it lasts until the `with` block that it is set in ends."""
        return Context.default()

    @default_ctx.setter
    def default_ctx(cls, context: Context) -> None:
        if not isinstance(context, Context):
            raise ArgumentError(
                f"[Context] default_ctx: expected a Context, such as mx.cpu(), got {context!r}"
            )
        Context.entered.stack = (*Context.entered.stack[:-1], context)


class _Default:
    """The same of a context."""

    def __get__(self, instance: object, owner: type[Context]) -> Context:
        return owner.default()


class Context(metaclass=_HasDefault):
    """A device: `Context("cpu")`, `Context("gpu", 1)`, or another context.

    In a `with` block it is the thread's default context. Contexts are equal when type and id are.

    Parameters
    ----------
    device_type : str or Context
        `cpu`, `gpu`, `cpu_pinned`, `cpu_shared`, or the name a device plug-in registered.
    device_id : int
        Which device of that type, from 0.
    """

    devtype2str: ClassVar[dict[int, str]] = {1: "cpu", 2: "gpu", 3: "cpu_pinned", 5: "cpu_shared"}
    devstr2type: ClassVar[dict[str, int]] = {"cpu": 1, "gpu": 2, "cpu_pinned": 3, "cpu_shared": 5}
    entered: ClassVar[_Entered] = _Entered()
    if not TYPE_CHECKING:  # who would take it for that of the class
        default_ctx = _Default()

    __slots__ = ("device_id", "device_typeid")

    def __init__(self, device_type: str | Context, device_id: int = 0) -> None:
        if isinstance(device_type, Context):
            self.device_typeid: int = device_type.device_typeid
            self.device_id: int = device_type.device_id
            return
        if device_type not in self.devstr2type:
            self._load_devices()
        if device_type not in self.devstr2type:
            known = ", ".join(self.devstr2type)
            raise ArgumentError(f"[Context] unknown device type {device_type!r}; known: {known}")
        if not hasattr(device_id, "__index__") or operator.index(device_id) < 0:
            raise ArgumentError(f"[Context] device_id: expected an integer from 0, got {device_id!r}")
        self.device_typeid = self.devstr2type[device_type]
        self.device_id = operator.index(device_id)

    @classmethod
    def register(cls, name: str, type_id: int) -> None:
        """Adds a device type; done when a device plug-in registers."""
        cls.devtype2str[type_id] = name
        cls.devstr2type[name] = type_id

    @staticmethod
    def _load_devices() -> None:
        from mx_core import plugins

        plugins.plugins()

    @property
    def device_type(self) -> str:
        """Name of the device type."""
        return self.devtype2str[self.device_typeid]

    @classmethod
    def default(cls) -> Context:
        """The calling thread's default: the innermost `with` block's, else `cpu(0)`."""
        stack = cls.entered.stack
        return stack[-1] if stack else cpu()

    __enter__ = _native.method(_native.enter_block)
    __exit__ = _native.method(_native.leave_block)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Context)
            and self.device_typeid == other.device_typeid
            and self.device_id == other.device_id
        )

    def __hash__(self) -> int:
        return hash((self.device_typeid, self.device_id))

    def __repr__(self) -> str:
        return f"{self.device_type}({self.device_id})"

    def __reduce__(self) -> tuple[type[Context], tuple[str, int]]:
        return Context, (self.device_type, self.device_id)

    def empty_cache(self) -> None:
        """Returns the device's pooled memory to the system."""
        from mx_core import services

        services.storage(self.device_type).release_all(self)


def cpu(device_id: int = 0) -> Context:
    """Main memory and the processor."""
    return Context("cpu", device_id)


def gpu(device_id: int = 0) -> Context:
    """An NVIDIA GPU."""
    return Context("gpu", device_id)


def cpu_pinned(device_id: int = 0) -> Context:
    """Page-locked main memory, for fast copies to a GPU."""
    return Context("cpu_pinned", device_id)


def cpu_shared(device_id: int = 0) -> Context:
    """Main memory shared between processes."""
    return Context("cpu_shared", device_id)


def current_context() -> Context:
    """The calling thread's default context."""
    return Context.default()


def num_gpus() -> int:
    """GPUs that the installed `gpu` device sees; 0 without such a device plug-in."""
    from mx_core import services

    return services.device_count("gpu")


def gpu_memory_info(device_id: int = 0) -> tuple[int, int]:
    """Free and total bytes of a GPU's memory, as its driver tells; what mx pools is not free.

    Raises
    ------
    MXNetError  there is no such GPU, or its plug-in does not tell
    """
    from mx_core import services
    from mx_core.errors import MXNetError

    context = gpu(device_id)
    ask = getattr(services.device("gpu"), "memory", None)
    if ask is None:
        raise MXNetError(f"the plug-in of {context} does not tell how much memory is free")
    free, total = ask(context.device_id)
    return int(free), int(total)
