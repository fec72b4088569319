# SPDX-License-Identifier: Apache-2.0
"""Automatic mixed precision: for every graph, or for one symbol or model. Also `mx.contrib.amp`.

bfloat16 has the range of float32, so losses need no scaling. Those of float16 do: Gluon has `amp.scale_loss`.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Mapping, Sequence

import numpy as np

from mx_core.errors import ArgumentError
from mx_ndarray import NDArray
from mx_symbol import amp_arrays, passes
from mx_symbol.graph import Entry, topological_order
from mx_symbol.passes import cast_rules
from mx_symbol.symbol import Symbol

Conditional = Sequence[tuple[str, str, Sequence[str]]]
_TYPES = ("bfloat16", "float16")


def init(
    target_dtype: str = "bfloat16",
    target_precision_ops: Sequence[str] | None = None,
    conditional_fp32_ops: Conditional | None = None,
    fp32_ops: Sequence[str] | None = None,
) -> None:
    """Binds every graph from now on with the pass `amp`: executors, modules, cached operators.

    Cached operators and hybridised blocks that ran before compile anew. Executors and modules that are bound stay.

    Products compute in 16 bits; parameters, gradients and outputs stay float32. `passes="-amp"` leaves a graph out.
    Functions of `mx.nd` for products compute in 16 bits, too, and give float32; those that a program took before
    stay as they were.

    Parameters
    ----------
    target_dtype : "bfloat16" or "float16"
        Losses of float16 are to be scaled, as Gluon's `amp.scale_loss` does.
    target_precision_ops : operators that compute in it besides the usual ones
    conditional_fp32_ops : (operator, parameter, values for which it computes in float32), besides the usual ones
    fp32_ops : operators that compute in float32 besides the usual ones

    Raises
    ------
    ArgumentError  another type
    UnknownOperatorError  an operator does not exist

    Warns
    -----
    UserWarning  it was called before with the other type
    """
    target_dtype = _low_type(target_dtype, "init")
    if (before := target()) not in (None, target_dtype):
        warnings.warn(
            f"[amp.init] target_dtype: expected {before} again, got {target_dtype}, which counts from now on: what is "
            f"bound stays in {before}, and a Trainer keeps the scaling of its init_trainer",
            stacklevel=2,
        )
    cast_rules.use(cast_rules.lists_from(target_precision_ops, fp32_ops, conditional_fp32_ops), target_dtype)
    passes.always("amp")
    amp_arrays.install()


def _low_type(given: object, who: str) -> str:
    """The name of a 16-bit type, given as a text or as NumPy's type.

    Raises
    ------
    ArgumentError  another type
    """
    with contextlib.suppress(TypeError):
        name = given if isinstance(given, str) else np.dtype(given).name  # type: ignore[call-overload]
        if name in _TYPES:
            return str(name)
    raise ArgumentError(f"[amp.{who}] target_dtype: expected one of {', '.join(_TYPES)}, got {given!r}")


def target() -> str | None:
    """The type in which every graph computes since `init`; None without."""
    return cast_rules.current_dtype() if passes.is_always("amp") else None


def convert_symbol(
    sym: Symbol,
    target_dtype: str = "bfloat16",
    target_dtype_ops: Sequence[str] | None = None,
    fp32_ops: Sequence[str] | None = None,
    conditional_fp32_ops: Conditional | None = None,
    excluded_sym_names: Sequence[str] | None = None,
) -> Symbol:
    """The symbol with `amp_cast` nodes, for training or inference; outputs are float32.

    Parameters
    ----------
    target_dtype : "bfloat16" or "float16"
    target_dtype_ops, fp32_ops, conditional_fp32_ops : as in `init`
    excluded_sym_names : nodes that compute in float32

    Raises
    ------
    ArgumentError  another type, or a name that no node has
    UnknownOperatorError  an operator does not exist
    """
    target_dtype = _low_type(target_dtype, "convert_symbol")
    known = {node.name for node in sym.nodes}
    for name in excluded_sym_names or ():
        if name not in known:
            raise ArgumentError(f"[amp.convert_symbol] excluded_sym_names: there is no node {name!r}")
    lists = cast_rules.lists_from(target_dtype_ops, fp32_ops, conditional_fp32_ops, excluded_sym_names)
    return type(sym)(cast_rules.lowered(sym.entries, target_dtype, lists))


def convert_model(
    sym: Symbol,
    arg_params: Mapping[str, NDArray],
    aux_params: Mapping[str, NDArray],
    target_dtype: str = "bfloat16",
    target_dtype_ops: Sequence[str] | None = None,
    fp32_ops: Sequence[str] | None = None,
    conditional_fp32_ops: Conditional | None = None,
    excluded_sym_names: Sequence[str] | None = None,
    cast_optional_params: bool = False,
) -> tuple[Symbol, dict[str, NDArray], dict[str, NDArray]]:
    """`convert_symbol`, and the parameters that go with it.

    Parameters
    ----------
    cast_optional_params : bool
        Parameters that are only read in the 16-bit type are kept in it.
    """
    made = convert_symbol(
        sym, target_dtype, target_dtype_ops, fp32_ops, conditional_fp32_ops, excluded_sym_names
    )
    args = dict(arg_params)
    if cast_optional_params:
        for name, only in _read_low(made.entries, target_dtype).items():
            if only and name in args:
                args[name] = args[name].astype(target_dtype)
    return made, args, dict(aux_params)


def _read_low(heads: Sequence[Entry], dtype: str) -> dict[str, bool]:
    """Variables that are read, by name: True where every reader casts them to the type."""
    found: dict[str, bool] = {}
    for node in topological_order(entry.node for entry in heads):
        for entry in node.inputs:
            if entry.node.is_variable:
                low = (
                    node.op is not None and node.op.name == "amp_cast" and node.attributes()["dtype"] == dtype
                )
                found[entry.node.name] = found.get(entry.node.name, True) and low
    return found


def list_lp16_ops(target_dtype: object = "bfloat16") -> list[str]:
    """Operators that compute in a 16-bit type; they are the same for both."""
    _low_type(target_dtype, "list_lp16_ops")
    return sorted(cast_rules.LOW)


def list_widest_type_cast(target_dtype: object = "bfloat16") -> list[str]:
    """Operators that compute in a 16-bit type where all they read is in it; they are the same for both."""
    _low_type(target_dtype, "list_widest_type_cast")
    return sorted(cast_rules.WIDEST)


def list_conditional_fp32_ops(target_dtype: object = "bfloat16") -> list[tuple[str, str, list[str]]]:
    """Operators that compute in float32 for some values of a parameter; they are the same for both types."""
    _low_type(target_dtype, "list_conditional_fp32_ops")
    return [(op, name, list(values)) for op, name, values in cast_rules.CONDITIONAL]
