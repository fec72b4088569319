# SPDX-License-Identifier: Apache-2.0
"""What Apache MXNet 1.9.1 computed, as `tests/oracle` has it recorded."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from mx_core import operators

ORACLE = Path(__file__).parents[1] / "oracle"

#: recorded gradients that are wrong in MXNet itself; differences say what is right.
#: selu: MXNet gives scale·(alpha + output), but the output is scaled already.
DEFECTS = frozenset(("LeakyReLU-162", "LeakyReLU-163"))
#: operators whose results float32 holds to three digits
LOOSE = frozenset(("gamma", "gammaln", "erfinv"))
#: functions of symmetric matrices: only symmetric directions mean anything
SYMMETRIC = frozenset(("_linalg_potrf",))
#: nothing flows back through them, or it changes its type on the way
STOPPED = frozenset(("BlockGrad", "Cast"))
#: their gradient is another one than their own, by definition
REPLACED = frozenset(
    (
        # counts: a sample has no neighbours
        "_random_pdf_poisson",
        "_random_pdf_negative_binomial",
        "_random_pdf_generalized_negative_binomial",
        "_contrib_gradientmultiplier",
        "_contrib_round_ste",
        "_contrib_sign_ste",
        "_contrib_box_nms",
        "_contrib_hawkesll",
        "IdentityAttachKLSparseReg",
    )
)


@cache
def cases() -> tuple[dict[str, Any], ...]:
    """All recorded applications of operators; `tests/oracle/README.md` says what is in them."""
    files = sorted((ORACLE / "operators").glob("*.json"))
    return tuple(case for path in files for case in json.loads(path.read_text()))


@cache
def _archive(family: str) -> Any:
    """A family's arrays, each read when it is asked for."""
    return np.load(io.BytesIO((ORACLE / "operators" / f"{family}.npz").read_bytes()))


@cache
def arrays(family: str) -> dict[str, Any]:
    """Inputs and results of a family's cases, by `ID/arg/NAME`, `ID/out/NUMBER` and so on."""
    return dict(_archive(family))


@cache
def applications() -> Mapping[str, Sequence[dict[str, Any]]]:
    """Operator -> its cases."""
    found: dict[str, list[dict[str, Any]]] = {}
    for case in cases():
        op = operators.find(case["op"])
        if op is not None:
            found.setdefault(op.name, []).append(case)
    return found


def inputs(case: Mapping[str, Any]) -> list[Any]:
    """The arguments of a case, then its auxiliary states."""
    names = [f"arg/{name}" for name in case["arguments"]] + [f"aux/{name}" for name in case["aux"]]
    return [_archive(case["family"])[f"{case['id']}/{name}"] for name in names]


def close(got: Any, expected: Any, op: str) -> None:
    """Asserts that a result has the recorded shape, element type and, nearly, numbers."""
    assert got.shape == expected.shape, (got.shape, expected.shape)
    assert got.dtype == expected.dtype, (got.dtype, expected.dtype)
    if expected.dtype.kind in "iub":
        np.testing.assert_array_equal(got, expected)
        return
    rtol = 1e-2 if expected.dtype == np.float16 else 1e-3 if op in LOOSE else 1e-4
    np.testing.assert_allclose(got, expected, rtol=rtol, atol=1e-5 if rtol == 1e-4 else rtol)
