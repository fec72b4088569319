# SPDX-License-Identifier: Apache-2.0
"""Every recorded case as a graph: bind, forward, backward, auxiliary states."""

from __future__ import annotations

from typing import Any

import mx


def test_symbolic(case: Any) -> None:
    args = dict(zip(case.arguments, case.arrays("arg", case.arguments), strict=True))
    states = dict(zip(case.aux, case.arrays("aux", case.aux), strict=True))
    variables = [mx.sym.Variable(name) for name in (*case.arguments, *case.aux)]
    net = case.function(mx.sym)(*variables, **case.attrs, name="op")
    assert net.list_auxiliary_states() == list(case.aux)
    requests = {name: case.grad_req.get(name, "null") for name in case.arguments}
    grads = {name: mx.nd.zeros_like(args[name]) for name in args if requests[name] == "write"}
    executor = net.bind(mx.cpu(), args, grads, requests, states)
    outputs = executor.forward(is_train=case.is_train)
    assert len(outputs) == case.outputs
    for i, output in enumerate(outputs):
        case.check("out", i, output)
    for name in case.aux:
        case.check("aux_after", name, states[name])
    if case.heads is not None:
        executor.backward(case.heads)
        for name, grad in grads.items():
            case.check("grad", name, grad)
