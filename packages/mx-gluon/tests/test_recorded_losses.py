# SPDX-License-Identifier: Apache-2.0
"""Losses: values and gradients as MXNet 1.9.1 has them (`tests/oracle/gluon`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mx_core.errors import ArgumentError
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


@pytest.mark.parametrize("hybridized", [False, True], ids=["imperative", "hybridized"])
def test_full_poisson_loss_has_gradients_and_takes_counts_of_0(hybridized: bool) -> None:
    made = loss.PoissonNLLLoss(compute_full=True)
    made.hybridize(hybridized)
    pred, target = nd.array([[0.5, -1.0, 2.0]]), nd.array([[0.0, 1.0, 4.0]])
    pred.attach_grad()
    with autograd.record():
        out = made(pred, target)
    out.backward()
    np.testing.assert_allclose(
        pred.grad.asnumpy(), (np.exp(pred.asnumpy()) - target.asnumpy()) / 3, rtol=1e-5
    )
    stirling = 4 * np.log(4) - 4 + 0.5 * np.log(2 * np.pi * 4)
    expected = (np.exp(pred.asnumpy()) - target.asnumpy() * pred.asnumpy()).sum() + stirling
    np.testing.assert_allclose(out.asnumpy(), [expected / 3], rtol=1e-5)


def test_partners_have_one_shape() -> None:
    with pytest.raises(
        AssertionError, match=r"expected two matrices of one shape, got \(2, 3\) and \(3, 3\)"
    ):
        loss.SDMLLoss()(nd.ones((2, 3)), nd.ones((3, 3)))


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: loss.L1Loss(weight="1"), r"weight: expected a number, got '1'"),  # type: ignore[arg-type]
        (lambda: loss.CTCLoss(layout="CTN"), "layout: expected 'NTC' or 'TNC', got 'CTN'"),
        (lambda: loss.CTCLoss(label_layout="T"), "label_layout: expected 'NT' or 'TN', got 'T'"),
        (
            lambda: loss.LogisticLoss(label_format="both"),
            "label_format: expected 'signed' or 'binary', got 'both'",
        ),
    ],
)
def test_wrong_arguments(make: Callable[[], Any], told: str) -> None:
    with pytest.raises(ArgumentError, match=told):
        make()
