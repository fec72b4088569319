# SPDX-License-Identifier: Apache-2.0
"""Stores compute what MXNet 1.9.1 computes, compressed pushes included."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import mx_kvstore
from mx_core import cpu
from mx_ndarray import nd
from mx_train import optimizer
from testkit.oracle import ORACLE

RECORDED = json.loads((ORACLE / "training" / "kvstore.json").read_text())


@pytest.mark.parametrize(
    "case", RECORDED, ids=lambda case: f"{case['kind']}-{case['dtype']}-{len(case['first'])}"
)
@pytest.mark.parametrize("fused", [False, True], ids=["push-pull", "pushpull"])
def test_values_after_each_push(case: Any, fused: bool) -> None:
    store, dtype = mx_kvstore.create(case["kind"]), case["dtype"]
    if case["compression"]:
        store.set_gradient_compression(case["compression"])
    store.init("w", nd.array(case["first"], dtype=dtype))
    if case["updates"]:
        name, arguments = case["updates"]
        store.set_optimizer(optimizer.create(name, **arguments))
    for pushed, expected in zip(case["pushed"], case["pulled"], strict=True):
        arrays = [nd.array(each, ctx=cpu(i), dtype=dtype) for i, each in enumerate(pushed)]
        outs = [nd.zeros(len(expected), ctx=cpu(i), dtype=dtype) for i in range(len(pushed))]
        if fused:
            store.pushpull("w", arrays, out=outs)
        else:
            store.push("w", arrays)
            store.pull("w", outs)
        for out in outs:
            assert out.asnumpy().astype(np.float64).tolist() == expected
