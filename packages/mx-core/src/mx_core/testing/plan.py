# SPDX-License-Identifier: Apache-2.0
"""Runs native kernel plans on NumPy arrays: no engine, no NDArray."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mx_core import _native, dtypes
from mx_core.errors import DTypeError

NULL, WRITE, INPLACE, ADD = 0, 1, 2, 3


def run_plan(
    plan: Any,
    inputs: Sequence[npt.NDArray[Any]],
    outputs: Sequence[npt.NDArray[Any] | int],
    req: Sequence[int] | None = None,
    *,
    is_train: bool = False,
    scalars: Sequence[float] = (),
    random_key: int = 0,
    random_offset: int = 0,
    threads: int = 1,
) -> list[npt.NDArray[Any]]:
    """Runs a plan now; blocking.

    Parameters
    ----------
    plan : capsule `mx.plan.v1`
    inputs : arrays of the signature's shapes and types, auxiliary states last
        Auxiliary states and mutated inputs are written in place, so they must be writable.
    outputs : arrays to write, or a type code where the kernel decides the shape
    req : per output 0 (leave alone), 1 (write), 2 (write in place) or 3 (add); default 1

    Returns
    -------
    list of ndarray
        The outputs.

    Raises
    ------
    AssertionError  it wrote outside of its scratch or staging memory, which is full of NaN before it runs; or an
                    output got no shape
    """
    requests = [WRITE] * len(outputs) if req is None else list(req)
    results, damage = _native.run_plan(
        plan,
        [buffer(array) for array in inputs],
        [array if isinstance(array, int) else buffer(array) for array in outputs],
        requests,
        is_train,
        scalars,
        random_key,
        random_offset,
        threads,
    )
    assert not damage, f"{damage}"
    made: list[npt.NDArray[Any]] = []
    for result, output in zip(results, outputs, strict=True):
        if isinstance(output, int):
            assert result is not None, "the plan gave no memory for an output whose shape depends on values"
            made.append(np.frombuffer(result[1], dtypes.numpy_dtype(output)).reshape(result[0]))
        else:
            made.append(output)
    return made


def buffer(array: npt.NDArray[Any]) -> tuple[Any, int]:
    """A view the buffer protocol can carry, with the element type code."""
    if not array.flags.c_contiguous:
        raise DTypeError(f"expected a C-contiguous array, got strides {array.strides}")
    code = dtypes.code(array.dtype)
    if dtypes.name(code) == "bfloat16":
        return array.view(np.uint16), code
    return array, code
