# SPDX-License-Identifier: Apache-2.0
"""Losses: values and gradients as MXNet 1.9.1 has them (`tests/oracle/gluon`)."""

from __future__ import annotations

import numpy as np
import pytest

from mx_gluon import loss
from mx_ndarray import autograd, nd
from testkit.gluon_record import arrays, cases

pytestmark = pytest.mark.timeout(60)
CASES = [pytest.param(i, id=case["make"][:60]) for i, case in enumerate(cases("losses"))]


@pytest.mark.parametrize("hybridized", [False, True], ids=["imperative", "hybridized"])
@pytest.mark.parametrize("number", CASES)
def test_values_and_gradients(number: int, hybridized: bool) -> None:
    case, data = cases("losses")[number], arrays(f"losses/{number}/")
    made = eval(case["make"], {"loss": loss})
    assert repr(made) == case["repr"]
    if hybridized:
        made.hybridize()
    inputs = [nd.array(data[str(i)]) for i in range(case["inputs"])]
    inputs[0].attach_grad()
    with autograd.record():
        out = made(*inputs)
    out.backward()
    assert out.shape == data["out"].shape
    np.testing.assert_allclose(out.asnumpy(), data["out"], rtol=2e-5, atol=1e-5)
    if "grad" in data:
        np.testing.assert_allclose(inputs[0].grad.asnumpy(), data["grad"], rtol=2e-4, atol=1e-5)


def test_every_loss_has_a_case() -> None:
    public = {name for name, value in vars(loss).items() if isinstance(value, type)} - {"Loss"}
    told = " ".join(case["make"] for case in cases("losses"))
    used = {name for name in public if f"loss.{name}(" in told}
    assert {getattr(loss, name) for name in public} == {getattr(loss, name) for name in used}
