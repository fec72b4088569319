# SPDX-License-Identifier: Apache-2.0
"""Runs recurrent stacks and their gradients that are worth a team of threads, and prints which allocate.

    python of_teams.py TYPE

with the type of data, states and parameters.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
from counting import Counter, count

from mx_core import dtypes, operators
from mx_core.context import cpu
from mx_core.kernels import TensorSpec, prepare
from mx_core.operator import Operator, gradient_of, infer_shapes, infer_types

#: steps, sequences, features
DATA = (20, 48, 70)


def _arrays(shapes: Any, types: Any) -> list[np.ndarray]:
    return [np.full(s, 0.01, dtypes.numpy_dtype(t)) for s, t in zip(shapes, types, strict=True)]


def _run(
    counter: Counter, op: Operator[Any], p: Any, inputs: list[np.ndarray]
) -> tuple[list[np.ndarray], Any]:
    """The outputs of a plan, and what its runs allocate."""
    codes = [dtypes.code(x.dtype) for x in inputs]
    outputs = _arrays(infer_shapes(op, p, [x.shape for x in inputs])[1], infer_types(op, p, codes)[1])
    specs = [[TensorSpec(x.shape, dtypes.code(x.dtype)) for x in arrays] for arrays in (inputs, outputs)]
    made = prepare(op, p, *specs, cpu(), True)
    assert made.plan is not None and made.plugin == "operators_cpu"
    return outputs, count(counter, made.plan, inputs, outputs, p.scalars)


def main(dtype: str) -> None:
    counter, found, ran = Counter(), {}, 0
    op = operators.get("RNN")
    for mode in ("rnn_tanh", "rnn_relu", "lstm", "gru"):
        attrs = {
            "mode": mode,
            "state_size": 90,
            "num_layers": 2,
            "bidirectional": True,
            "state_outputs": True,
        }
        p = op.Param.parse({**attrs, "p": 0.3}, op=op.name)
        rest = [None] * (len(op.inputs(p)) - 1)
        shapes, types = (
            infer_shapes(op, p, [DATA, *rest])[0],
            infer_types(op, p, [dtypes.code(dtype), *rest])[0],
        )
        inputs = _arrays(shapes, types)
        outputs, findings = _run(counter, op, p, inputs)
        heads = [x + x.dtype.type(1) for x in outputs[: op.num_visible_outputs(p)]]
        (node,) = gradient_of(op, p).nodes
        arrays = {"out_grad": heads, "input": inputs, "output": outputs}
        kept = [arrays[e.kind][e.index] for e in node.inputs]
        _, of_gradient = _run(counter, operators.get(node.op), node.params, kept)
        ran += 2
        for name, allocating in ((mode, findings), (f"{mode}, gradient", of_gradient)):
            if allocating:
                found[name] = allocating
    print(json.dumps({"ran": ran, "found": found}))


main(sys.argv[1])
