# SPDX-License-Identifier: Apache-2.0
"""Choosing and preparing kernels: once per signature, never on a hot path."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, field, fields
from inspect import signature
from typing import TYPE_CHECKING, Any, TypeVar

from mx_core import _native, dtypes, plugins
from mx_core.errors import (
    AbiError,
    ArgumentError,
    DTypeError,
    IndexOutOfBoundsError,
    MXNetError,
    NoKernelError,
    OperatorError,
    OutOfMemoryError,
    PluginError,
)
from mx_core.exits import refusal
from mx_core.forks import first_use
from mx_core.operator.declaration import ReferenceContext
from mx_core.plugins.specs import direct
from mx_core.signals import let_pass

if TYPE_CHECKING:
    from mx_core.context import Context
    from mx_core.operator.declaration import Operator
    from mx_core.operator.params import Params
    from mx_core.operator.simple import Elementwise

KERNEL_CAPSULE = "mx.kernel.v1"

T = TypeVar("T")

#: A kernel written in Python: (context, NumPy arrays) -> outputs, new auxiliary states, new values
#: of mutated inputs. The framework applies the write request.
PythonKernel = Callable[[ReferenceContext, Sequence[Any]], Sequence[Any]]


#: exceptions of NumPy and what they are called here; the first that fits
_REFUSALS: dict[type[Exception], type[MXNetError]] = {
    MemoryError: OutOfMemoryError, IndexError: IndexOutOfBoundsError, TypeError: DTypeError,
    ValueError: ArgumentError, OverflowError: ArgumentError,
}  # fmt: skip


def _made_quickly(of: type[T]) -> type[T]:
    """A dataclass that has slots with a native `__init__`: every new signature makes some of its objects."""
    members = fields(of)  # type: ignore[arg-type]  # a dataclass
    defaults = tuple(member.default for member in members if member.default is not MISSING)
    initializer = _native.slot_initializer(of, tuple(member.name for member in members), defaults)
    of.__signature__ = signature(of)  # type: ignore[attr-defined]
    of.__init__ = initializer  # type: ignore[method-assign]
    return of


@_made_quickly
@dataclass(frozen=True, slots=True)
class TensorSpec:
    """Shape (elements per axis), type code and layout id (0: plain) of a tensor."""

    shape: tuple[int, ...]
    dtype: int
    layout: int = 0

    def __str__(self) -> str:
        return f"{dtypes.name(self.dtype)}{list(self.shape)}"


@_made_quickly
@dataclass(frozen=True, slots=True)
class KernelCall:
    """One signature: everything a kernel may be specialised for.

    `inputs` have the auxiliary states last. Run-time parameters in `params` hold the values of
    the first call and must be read from the kernel context instead.
    """

    op: Operator
    params: Params
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    context: Context
    is_train: bool = False

    @property
    def random_blocks(self) -> int:
        """Blocks of the random stream that a run takes."""
        return int(self.op.random_blocks(self.params, [spec.shape for spec in self.outputs]))


@dataclass(frozen=True)
class KernelSpec:
    """A registered kernel: what `mx_register_kernels` adds."""

    op: str
    device: str
    variant: str
    make: Callable[[KernelCall], Any]
    priority: int = 10
    supports: Callable[[KernelCall], bool] | None = None
    plugin: str = field(default="", compare=False)


@_made_quickly
@dataclass(frozen=True, slots=True)
class Prepared:
    """A kernel ready to run: a native plan or a Python function, and where it came from."""

    variant: str
    plugin: str
    plan: Any = None
    function: PythonKernel | None = None


def candidates(op: Operator, device: str) -> list[KernelSpec]:
    """Kernels and generators for an operator on a device, best first; the reference last."""
    return list(_ordered(op, device))


def _ordered(op: Operator, device: str) -> tuple[KernelSpec, ...]:
    kernels, generators = plugins.kernel_entries()
    known = _candidates.get((op, device))
    if known is None or known[0] is not kernels or known[1] is not generators:
        if len(_candidates) >= 4096:
            _candidates.clear()
        known = kernels, generators, tuple(_find(op, device, kernels, generators))
        _candidates[op, device] = known
    return known[2]


#: by operator and device: the entries of the registries it was found in, and what was found
_candidates: dict[tuple[Operator, str], tuple[Any, Any, tuple[KernelSpec, ...]]] = {}


def _find(
    op: Operator, device: str, kernels: tuple[Any, ...], generators: tuple[Any, ...]
) -> list[KernelSpec]:
    from mx_core.operator.simple import Elementwise

    table = _by_operator(kernels)
    found = [spec for name in (op.name, *op.aliases) for spec in table.get((name, device), ())]
    if isinstance(op, Elementwise):
        for entry in generators:
            if entry.value.device == device:
                found.append(_generated(op, entry.value, entry.plugin))
    found.sort(key=lambda spec: (-spec.priority, spec.plugin, spec.variant))
    if device.startswith("cpu"):
        found.append(KernelSpec(op.name, device, "reference", reference_kernel, 0, None, "reference"))
    return found


#: entries of the registry and the table of them, made when they are others
_sorted: tuple[tuple[Any, ...], dict[tuple[str, str], list[KernelSpec]]] = ((), {})


def _by_operator(entries: tuple[Any, ...]) -> dict[tuple[str, str], list[KernelSpec]]:
    """Kernels by operator and device: every new signature asks for some, and there are hundreds."""
    global _sorted
    known, table = _sorted
    if known is entries:
        return table
    table = {}
    for entry in entries:
        spec = entry.value
        table.setdefault((spec.op, spec.device), []).append(_with_plugin(spec, entry.plugin))
    _sorted = entries, table
    return table


def _with_plugin(spec: KernelSpec, plugin: str) -> KernelSpec:
    return KernelSpec(spec.op, spec.device, spec.variant, spec.make, spec.priority, spec.supports, plugin)


def _generated(op: Elementwise[Any], generator: Any, plugin: str) -> KernelSpec:
    from mx_core.operator.tracing import expression_of

    last: tuple[Params | None, Any] = None, None  # the next shape often has the same parameters

    def make(call: KernelCall) -> Any:
        nonlocal last
        known, expression = last
        if known is not call.params:
            expression = expression_of(op, call.params)
            last = call.params, expression
        if expression is None:  # not elementwise with these parameters
            return None
        return generator.make(expression, call)

    return KernelSpec(op.name, generator.device, generator.name, make, generator.priority, None, plugin)


def reference_kernel(call: KernelCall) -> PythonKernel:
    """The operator's NumPy reference as a kernel.

    What NumPy says about arrays it cannot take becomes the error of mx of the same kind (an
    IndexError stays one), which names the operator and its inputs. Other exceptions are the
    operator's own and pass.
    """

    def run(ctx: ReferenceContext, inputs: Sequence[Any]) -> Sequence[Any]:
        with _naming(call, "cannot be computed"):
            return call.op.reference(call.params.with_scalars(ctx.scalars), inputs, ctx)

    return run


@contextmanager
def _naming(call: KernelCall, what: str) -> Iterator[None]:
    """Names operator, parameters and inputs in what NumPy or Python says about values that do not fit."""
    try:
        yield
    except MXNetError:
        raise
    except tuple(_REFUSALS) as error:
        kind = next(mx for foreign, mx in _REFUSALS.items() if isinstance(error, foreign))
        inputs = ", ".join(map(str, call.inputs))
        message = f"[{call.op.name}] {what} of ({inputs}) with {call.params!r}: {error}"
        raise kind(message) from error


def prepare(
    op: Operator,
    params: Params,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    context: Context,
    is_train: bool = False,
) -> Prepared:
    """The best kernel that accepts this signature.

    Raises
    ------
    NoKernelError
        Nothing computes it; names the operator, the device, what is registered, and the plug-in
        that should have brought a kernel but was not loaded.
    MXNetError
        A kernel refused the signature with an error of its own.
    """
    call = KernelCall(op, params, tuple(inputs), tuple(outputs), context, is_train)
    device = "cpu" if context.device_typeid == _CPU else _device(context)
    ordered = _ordered(op, device)
    failed: BaseException | None = None
    hints = ""
    for spec in _preferred(call, ordered):
        try:
            made = _made(spec, call)
        except _Broken as broken:
            failed = broken.__cause__
            hints += f" Kernel {spec.variant!r} of plug-in {spec.plugin!r} failed: {failed!r}."
            _set_aside(spec, broken)
            continue
        if made is not None:
            return made
    raise NoKernelError(_nothing(call, device, ordered) + hints) from failed


class _Broken(Exception):
    """A kernel that cannot be used; the exception's cause says why."""


def _set_aside(spec: KernelSpec, broken: _Broken) -> None:
    error = broken.__cause__
    for kind, name in (
        ("kernels", f"{spec.op}/{spec.device}/{spec.variant}"),
        ("kernel_generators", f"{spec.device}/{spec.variant}"),
    ):
        registry = plugins.registry(kind)
        if name in registry and registry.get(name).plugin == spec.plugin:
            plugins.set_aside(registry.get(name), error if isinstance(error, Exception) else str(error))


def _preferred(call: KernelCall, ordered: Sequence[KernelSpec]) -> Sequence[KernelSpec]:
    chosen = plugins.select_kernel(call.op, call, ordered)
    if chosen is None or chosen not in ordered:
        return ordered
    return [chosen, *(spec for spec in ordered if spec != chosen)]


def _made(spec: KernelSpec, call: KernelCall) -> Prepared | None:
    """The kernel's plan, None if it declines. A kernel that fails is told apart from one that refuses."""
    try:
        with first_use.block():
            try:
                if spec.supports is not None and not direct(spec.supports)(call):
                    return None
                return _planned(spec, call)
            except SystemExit as error:
                raise refusal(f"kernel {spec.variant!r}", error) from error
    except OperatorError:  # the fault is the declaration's, whichever kernel is asked
        raise
    except (AbiError, PluginError) as error:
        raise _Broken from error
    except MXNetError as error:
        error.add_note(f"[{call.op.name}] from kernel {spec.variant!r} of plug-in {spec.plugin!r}")
        raise
    except MemoryError as error:
        raise OutOfMemoryError(
            f"[{call.op.name}] kernel {spec.variant!r} of plug-in {spec.plugin!r}: {error}"
        ) from error
    except Exception as error:
        let_pass(error)
        raise _Broken from error


def _planned(spec: KernelSpec, call: KernelCall) -> Prepared | None:
    made = direct(spec.make)(call)
    if made is None:
        return None
    name = _native.capsule_name(made)
    if name is None:
        if not callable(made):
            raise PluginError(
                f"made a {type(made).__name__}; expected a plan, a kernel table, a function or None"
            )
        return Prepared(spec.variant, spec.plugin, function=made)
    if name == KERNEL_CAPSULE:
        made = _native.prepare_native(
            made, call.op.name, call.params.attrs_all(),
            [(t.shape, t.dtype) for t in call.inputs], [(t.shape, t.dtype) for t in call.outputs],
            (call.context.device_typeid, call.context.device_id), call.is_train,
        )  # fmt: skip
        if made is None:
            return None
    _native.check_plan(made)
    return Prepared(spec.variant, spec.plugin, plan=made)


def _device(context: Context) -> str:
    name = context.device_type
    return "cpu" if name.startswith("cpu") else name


#: type of the device `cpu`
_CPU = 1


def _nothing(call: KernelCall, device: str, ordered: Sequence[KernelSpec]) -> str:
    from mx_core.services import DEVICE_INSTALL

    kind, tensors = ("inputs", call.inputs) if call.inputs else ("outputs", call.outputs)
    types = ", ".join(map(str, tensors))
    have = ", ".join(spec.variant for spec in ordered)
    given = ", ".join(f"{name}={text}" for name, text in call.params.attrs().items())
    why = (
        f"none of its kernels for {device} ({have}) takes such a call" + (f" with {given}" if given else "")
        if ordered
        else f"nothing is registered for {device}"
    )
    hint = plugins.missing_hint("kernels", call.op.name)
    cure = "" if device not in DEVICE_INSTALL or ordered else f" Install {DEVICE_INSTALL[device]}."
    return f"no kernel for {call.op.name!r} on {call.context} with {kind} ({types}): {why}.{cure}" + (
        f" {hint}" if hint else ""
    )
