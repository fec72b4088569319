# SPDX-License-Identifier: Apache-2.0
"""Every recorded case through `mx.nd` and autograd, on the kernels that are installed."""

from __future__ import annotations

from typing import Any

import mx


def test_imperative(case: Any) -> None:
    inputs = case.arrays("arg", case.arguments)
    states = case.arrays("aux", case.aux)
    for name, value in zip(case.arguments, inputs, strict=True):
        if case.grad_req.get(name) == "write":
            value.attach_grad()
    with mx.autograd.record(train_mode=case.is_train):
        made = case.function(mx.nd)(*inputs, *states, **case.attrs)
    outputs = list(made) if isinstance(made, (list, tuple)) else [made]
    assert len(outputs) == case.outputs
    for i, output in enumerate(outputs):
        case.check("out", i, output)
    for name, state in zip(case.aux, states, strict=True):
        case.check("aux_after", name, state)
    if case.imperative_only:
        for name, value in zip(case.arguments, inputs, strict=True):
            case.check("arg_after", name, value)
    elif case.heads is not None:
        mx.autograd.backward(outputs, case.heads, train_mode=case.is_train)
        for name, value in zip(case.arguments, inputs, strict=True):
            if case.grad_req.get(name) == "write":
                case.check("grad", name, value.grad)
