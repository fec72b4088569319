# SPDX-License-Identifier: Apache-2.0
"""`mx ops`: operators, the kernels that compute them, and which one is chosen."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

import click

from mx_core import context, dtypes, kernels, operators, plugins
from mx_core.cli.table import table
from mx_core.errors import ArgumentError, NoKernelError, UnknownOperatorError
from mx_core.operator.declaration import Operator
from mx_core.operator.infer import infer_shapes, infer_types


class _Ops(click.Group):
    """`mx ops NAME` is short for `mx ops show NAME`."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            args = ["show", *args]
        return super().resolve_command(ctx, args)


@click.group(cls=_Ops, invoke_without_command=True)
@click.option("--all", "everything", is_flag=True, help="Include backward and internal operators.")
@click.pass_context
def ops(context: click.Context, everything: bool) -> None:
    """List operators and their kernels for each device.

    Kernels are named after what computes, and asked in this order. onednn, cublas, cudnn: these libraries. vector,
    nvrtc: kernels of mx, for a CPU and, compiled by NVRTC, for a GPU. upcast: in float32 between two casts. python: a
    function in Python, on arrays of the device. reference: the operator's definition in NumPy.
    """
    if context.invoked_subcommand is not None:
        return
    rows = []
    for name in operators.names():
        op = operators.get(name)
        if name != op.name or (name.startswith("_") and not everything):
            continue
        rows.append((name, "; ".join(_variants(op, device) for device in _device_types())))
    none = "no operators are registered; mx-operators and mx-operators-cpu bring those of MXNet"
    click.echo(table(rows) if rows else none)


@ops.command()
@click.argument("name")
@click.option("--input", "inputs", multiple=True, metavar="SHAPE", help="Shape of the next input: 2,3,4.")
@click.option("--dtype", default="float32", show_default=True, help="Element type of the inputs.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A parameter of the operator.")
@click.option("--device", default="cpu", show_default=True, help="Device type.")
@click.option("--train", is_flag=True, help="Choose the kernel for training.")
def show(
    name: str,
    inputs: tuple[str, ...],
    dtype: str,
    settings: tuple[str, ...],
    device: str,
    train: bool,
) -> None:
    """Show an operator and its kernels.

    With --input or --set it also shows which kernel is chosen for these shapes and parameters, and why.
    """
    try:
        op = operators.get(name)
    except UnknownOperatorError as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"{op.name}{op.signature()}")
    if op.aliases:
        click.echo(f"Aliases: {', '.join(op.aliases)}")
    click.echo(f"\n{op.doc().strip()}\n")
    call = _call(op, inputs, dtype, settings, device, train) if inputs or settings else None
    for device_type in _device_types() if call is None else [device]:
        rows = [
            (spec.variant, f"{spec.priority}", spec.plugin) for spec in kernels.candidates(op, device_type)
        ]
        if not rows:
            click.echo(f"{device_type}: no kernel")
            continue
        reasons, refused = _reasons(call) if call is not None else (defaultdict(str), None)
        click.echo(f"{device_type}, the first that accepts the signature is used:")
        click.echo(
            table(
                (f"  {variant}", f"priority {priority}", f"plug-in {plugin}", reasons[variant, plugin])
                for variant, priority, plugin in rows
            )
        )
        if refused is not None:
            raise click.ClickException(str(refused))


def _call(
    op: Operator,
    inputs: tuple[str, ...],
    dtype: str,
    settings: tuple[str, ...],
    device: str,
    train: bool,
) -> kernels.KernelCall:
    params = op.Param.parse(_given(op, settings), op=op.name)
    count = len(op.inputs(params)) + len(op.aux(params))
    given: list[tuple[int, ...] | None] = [_shape(text) for text in inputs]
    given += [None] * (count - len(given))
    shapes, result_shapes = infer_shapes(op, params, given)
    known = [dtypes.code(dtype)] * len(inputs) + [None] * (count - len(inputs))
    types, result_types = infer_types(op, params, known)
    return kernels.KernelCall(
        op,
        params,
        _complete(op, shapes, types),
        _complete(op, result_shapes, result_types),
        context.Context(device),
        train,
    )


def _complete(
    op: Operator,
    shapes: Sequence[tuple[int, ...] | None],
    types: Sequence[int | None],
) -> tuple[kernels.TensorSpec, ...]:
    complete = []
    for shape, dtype in zip(shapes, types, strict=True):
        if shape is None or -1 in shape or dtype is None:
            raise ArgumentError(
                f"[{op.name}] a shape or type is unknown: state inputs with --input, as in --input 2,3, or parameters "
                "with --set NAME=VALUE"
            )
        complete.append(kernels.TensorSpec(shape, dtype))
    return tuple(complete)


def _reasons(call: kernels.KernelCall) -> tuple[dict[tuple[str, str], str], NoKernelError | None]:
    """(variant, plug-in) -> whether the kernel is chosen for this signature, if not, why; the error where none is."""
    picked, refused = None, None
    try:
        chosen = kernels.prepare(call.op, call.params, call.inputs, call.outputs, call.context, call.is_train)
        picked = (chosen.variant, chosen.plugin)
    except NoKernelError as error:
        refused = error
    reasons: dict[tuple[str, str], str] = {}
    after = False
    for spec in kernels.candidates(call.op, call.context.device_type):
        key = (spec.variant, spec.plugin)
        if key == picked:
            reasons[key] = "chosen"
            after = True
        elif after:
            reasons[key] = "not needed"
        elif spec.supports is not None and not spec.supports(call):
            reasons[key] = "does not support this signature"
        else:
            reasons[key] = "declined this signature"
    return reasons, refused


def _variants(op: Operator, device: str) -> str:
    variants = ", ".join(spec.variant for spec in kernels.candidates(op, device)) or "none"
    return f"{device}: {variants}"


def _device_types() -> list[str]:
    return ["cpu", *plugins.registry("devices").names()]


def _shape(text: str) -> tuple[int, ...]:
    if not re.fullmatch(r"\d+([x,]\d+)*", text):
        raise click.BadParameter(f"expected a shape such as 2,3,4, got {text!r}")
    return tuple(int(part) for part in re.split("[x,]", text))


def _given(op: Operator, settings: tuple[str, ...]) -> dict[str, str]:
    given = dict(map(_setting, settings))
    required = [info for info in op.Param.fields() if info.required]
    if lacking := [info for info in required if info.name not in given]:
        added = " ".join(f"--set {info.name}={info.type_name.upper().replace(' ', '')}" for info in lacking)
        raise ArgumentError(f"[{op.name}] required parameters are not given; add {added}")
    return given


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise click.BadParameter(f"expected NAME=VALUE, got {text!r}")
    return name, value
