# SPDX-License-Identifier: Apache-2.0
"""Cases recorded from Apache MXNet 1.9.1, judged as mx-operators judges its references."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import mx
from mx_core import operators
from testkit import oracle


@dataclass(frozen=True)
class Recorded:
    """One application of an operator, and what MXNet made of it."""

    id: str
    op: str
    attrs: dict[str, Any]
    arguments: tuple[str, ...]
    aux: tuple[str, ...]
    outputs: int
    is_train: bool
    imperative_only: bool
    grad_req: dict[str, str]
    data: dict[str, Any]

    def arrays(self, kind: str, names: tuple[str, ...]) -> list[Any]:
        """Recorded values as NDArrays of their own."""
        return [array(self.data[f"{self.id}/{kind}/{name}"]) for name in names]

    @property
    def dynamic(self) -> bool:
        """Whether shapes depend on values, which no bound graph can have."""
        return operators.get(self.op).dynamic_output

    @property
    def heads(self) -> list[Any] | None:
        """Recorded head gradients, or None when backward was not recorded."""
        if f"{self.id}/head_grad/0" not in self.data or self.id in oracle.DEFECTS:
            return None
        return self.arrays("head_grad", tuple(map(str, range(self.outputs))))

    def check(self, kind: str, name: object, found: Any) -> None:
        """`found` equals what was recorded."""
        oracle.close(found.asnumpy(), self.data[f"{self.id}/{kind}/{name}"], self.op)

    def function(self, module: Any) -> Any:
        """The operator's function in `mx.nd` or `mx.sym`."""
        return getattr(module._internal if self.op.startswith("_") else module, self.op)


def array(value: Any) -> Any:
    """An NDArray with the values and the element type of a NumPy array."""
    return mx.nd.array(value, dtype=value.dtype)


def recorded(case: dict[str, Any]) -> Recorded:
    return Recorded(
        case["id"], case["op"], case["attrs"], tuple(case["arguments"]), tuple(case["aux"]),
        case["outputs"], case["is_train"], bool(case.get("imperative_only")),
        case["grad_req"], oracle.arrays(case["family"]),
    )  # fmt: skip


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Gives every test that asks for `case` all cases; symbolic ones where there is a symbol."""
    if "case" in metafunc.fixturenames:
        cases = [recorded(case) for case in oracle.cases()]
        if metafunc.module.__name__.endswith("symbolic"):
            cases = [case for case in cases if not case.imperative_only and not case.dynamic]
        metafunc.parametrize("case", cases, ids=[case.id for case in cases])


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    with np.errstate(all="ignore"):
        yield
