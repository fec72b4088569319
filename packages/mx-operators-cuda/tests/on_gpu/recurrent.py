# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers and attention on a GPU, real or fake, against the operators' references; see `plans.py`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mx_core import operators
from mx_core.testing.case import make_case
from mx_operators_cuda.register import KERNELS
from testkit.device_memory import GpuBench
from testkit.gpu_kernels import ADD, FAKE, NULL, WRITE, compare

#: further parameters, and extents of data (T, N, I)
STACKS: list[tuple[dict[str, Any], tuple[int, int, int]]] = [
    ({"num_layers": 2, "bidirectional": True, "state_outputs": True}, (4, 3, 5)),
    ({"num_layers": 1}, (1, 2, 3)),
    ({"num_layers": 2, "p": 0.4, "state_outputs": True}, (3, 2, 4)),
    ({"num_layers": 3, "p": 1.0, "bidirectional": True}, (2, 1, 3)),
]
ATTENTION = {
    "selfatt_qk": [(4, 2, 18)], "selfatt_valatt": [(4, 2, 18), (6, 4, 4)],
    "encdec_qk": [(3, 2, 6), (5, 2, 12)], "encdec_valatt": [(5, 2, 12), (6, 3, 5)],
}  # fmt: skip


@pytest.fixture(scope="module")
def bench() -> GpuBench:
    return GpuBench()


def test_every_kernel_has_cases() -> None:
    names = {f"{kind}_contrib_interleaved_matmul_{what}" for kind in ("", "_backward") for what in ATTENTION}
    here = {name for name, make in KERNELS if make.split(":")[0] in ("attention", "rnn")}
    assert here == names | {"RNN", "_backward_RNN", "_contrib_div_sqrt_dim"}


@pytest.mark.parametrize(
    ("mode", "dtype"),
    [("lstm", "float32")] if FAKE else [
        *((mode, "float32") for mode in ("lstm", "gru", "rnn_tanh", "rnn_relu")), ("lstm", "float16"), ("gru", "bfloat16")],
)  # fmt: skip
def test_stacks(mode: str, dtype: str, bench: GpuBench) -> None:
    """All of what is kept is as the reference says, so that a CPU's backward could read it."""
    for params, shape in STACKS[: 3 if FAKE else 1 if dtype != "float32" else None]:
        for is_train in (True, False) if "p" in params else (True,):
            given = {"state_size": 3, "mode": mode, **params}
            case = compare(bench, "RNN", given, [shape], dtype, is_train=is_train)
            if params.get("p") == 1.0:
                continue
            op = operators.get("RNN")
            known = dict(zip(op.inputs(case.params), case.inputs, strict=True))
            known |= dict(zip(op.outputs(case.params), case.reference(), strict=True))
            rng = np.random.default_rng(0)
            backward = op.backward_operator()
            assert backward is not None
            inputs = [
                known[name].astype(np.float64)
                if name in known
                else rng.normal(size=known[name[:-5]].shape if name != "out_grad" else known["output"].shape)
                for name in backward.inputs(case.params)
            ]
            compare(
                bench, backward.name, given, inputs, dtype, is_train=is_train, requests=(WRITE, ADD, NULL)
            )


@pytest.mark.parametrize("what", sorted(ATTENTION))
@pytest.mark.parametrize("dtype", ["float32"] if FAKE else ["float32", "float16", "float64"])
def test_attention(what: str, dtype: str, bench: GpuBench) -> None:
    name, shapes = f"_contrib_interleaved_matmul_{what}", ATTENTION[what]
    compare(bench, name, {"heads": 3}, shapes, dtype)
    made = make_case(name, {"heads": 3}, shapes).outputs[0].shape
    compare(bench, f"_backward{name}", {"heads": 3}, [made, *shapes], dtype)


def test_division_by_the_root_of_the_width(bench: GpuBench) -> None:
    compare(bench, "_contrib_div_sqrt_dim", {}, [(3, 7)])
