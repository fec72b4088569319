# SPDX-License-Identifier: Apache-2.0
"""Trials of operators with each element type that their declarations accept."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import mx
from generate.applications import Application
from generate.naming import found
from mx_core.errors import MXNetError
from mx_core.operator import Operator


def computes(op: Operator, known: Application, types: Mapping[str, str | None]) -> bool:
    """False if arrays of them are refused where those of float32 are not; tried with zeros and with ones.

    Parameters
    ----------
    types : element type per input; None is float32
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # these are not what every operator is made for
        for fill in (0, 1):
            if _runs(op, known, types, fill):
                return True
            if _runs(op, known, dict.fromkeys(types), fill):
                return False
    return True


def _runs(op: Operator, known: Application, types: Mapping[str, str | None], fill: int) -> bool:
    function = found(mx.nd._internal if op.name.startswith("_") else mx.nd.op, op.name)
    settings = {name: getattr(known.params, name) for name in known.params.attrs()}
    try:
        arrays = {
            name: mx.nd.full(shape or (1,), fill, dtype=types.get(name) or "float32")
            for name, shape in known.inputs.items()
        }
        results = function(*arrays.values(), **settings) if op.variadic else function(**arrays, **settings)
        for result in results if isinstance(results, list) else [results]:
            result.wait_to_read()
    except (MXNetError, TypeError):
        return False
    return True
