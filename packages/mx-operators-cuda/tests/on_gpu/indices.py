# SPDX-License-Identifier: Apache-2.0
"""Elements by index, and order, on a GPU, real or fake, against the operators' references; see `plans.py`."""

from __future__ import annotations

import numpy as np
import pytest

from mx_core import gpu, kernels
from mx_core.errors import NoKernelError
from mx_core.testing.case import make_case
from mx_operators_cuda.register import KERNELS
from testkit.device_memory import GpuBench
from testkit.gpu_kernels import ADD, FAKE, NULL, WRITE, Given, compare

#: beyond both ends, and one that is met several times
SOME = np.array([0.0, 3, 1, 3, 9, -2, 3])
ND = np.array([[0.0, 2, 0, 2], [1, 3, 1, 0]])
CASES: dict[str, list[Given]] = {
    "take": [
        ({}, [(5, 3), SOME]), ({"axis": 1, "mode": "wrap"}, [(2, 5, 3), SOME.reshape(7, 1).astype(np.int32)]),
        ({"axis": -1}, [(2, 4), np.array([np.nan, np.inf, -np.inf, 1.9])]), ({}, [(5, 3), np.zeros(0)]),
    ],
    "_backward_take": [
        ({}, [(7, 3), (5, 3), SOME]),
        ({"axis": 1, "mode": "wrap"}, [(2, 7, 1, 3), (2, 5, 3), SOME.reshape(7, 1).astype(np.int32)]),
        ({}, [(0, 3), (5, 3), np.zeros(0)]),
    ],
    "Embedding": [({"input_dim": 5, "output_dim": 4}, [SOME.reshape(7, 1), (5, 4)])],
    "_backward_Embedding": [
        ({"input_dim": 5, "output_dim": 4}, [(7, 4), SOME]),
        ({"input_dim": 9, "output_dim": 2}, [(700, 2), np.random.default_rng(0).integers(0, 9, 700).astype(np.float64)]),
    ],
    "pick": [
        ({}, [(4, 7), np.array([0, 6, 9, -1])]),
        ({"axis": 1, "mode": "wrap", "keepdims": True}, [(2, 3, 2), np.array([[[0, 4]], [[-1, 2]]])]),
        ({"axis": None}, [(2, 3), np.array([5.0, 1])]),
    ],
    "batch_take": [({}, [(3, 4), np.array([3, 0, 7], np.int32)])],
    "gather_nd": [({}, [(3, 4), ND]), ({}, [(3, 4, 2), ND]), ({}, [(3, 4), np.array([[2.0, 0]])])],
    "_backward_gather_nd": [({}, [(4,), (3, 4), ND]), ({}, [(4, 2), (3, 4, 2), ND])],
    "scatter_nd": [({"shape": (3, 4)}, [(4,), ND]), ({"shape": (3, 4, 2)}, [(4, 2), ND])],
    "_scatter_set_nd": [({"shape": (3, 4)}, [(3, 4), (4,), ND])],
    "one_hot": [
        ({"depth": 4}, [np.array([0.0, 3, 4, -1])]),
        ({"depth": 3, "on_value": 5, "off_value": -1, "dtype": "int32"}, [np.array([[2], [0]])]),
    ],
}  # fmt: skip
#: ties, infinities and what is no number
MIXED = np.array([3.0, -1, np.nan, 3, np.inf, 0, -0.0, -np.inf, 3, np.nan, -1])
LONG = np.random.default_rng(1).integers(0, 200, (2, 1300)).astype(np.float64)


@pytest.fixture(scope="module")
def bench() -> GpuBench:
    return GpuBench()


def test_every_kernel_has_cases() -> None:
    orders = {"sort", "argsort", "topk", "_backward_sort", "_backward_topk"}
    here = {name for name, make in KERNELS if make.split(":")[0] in ("indexing", "sort")}
    assert here == {*CASES, *orders}


@pytest.mark.parametrize("dtype", ["float32"] if FAKE else ["float32", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize("name", sorted(CASES)[:: 4 if FAKE else 1])
def test_indices(name: str, dtype: str, bench: GpuBench) -> None:
    for params, inputs in CASES[name]:
        requests = (WRITE, NULL) if name == "_scatter_set_nd" else (WRITE, ADD, NULL)
        compare(bench, name, params, inputs, dtype, requests=requests)


def test_integers_are_copied_exactly(bench: GpuBench) -> None:
    table = np.array([[2**62 + 1, -(2**53) - 1], [7, 2**63 - 1]])
    compare(bench, "take", {}, [table, np.array([1, 0, 1])], exact=True, requests=(WRITE,))


def test_sums_in_one_place_are_those_of_float32_in_order(bench: GpuBench) -> None:
    """Halves that a sum in float16 would lose are kept, and every run gives the same bits."""
    head = np.concatenate([np.full((1, 1), 2048.0), np.full((600, 1), 0.5)])
    params = {"input_dim": 2, "output_dim": 1}
    case = make_case("_backward_Embedding", params, [head, np.ones(601)], dtype="float16")
    made = kernels.prepare(case.op, case.params, case.specs, case.outputs, bench.context)
    for _ in range(2):
        (found,) = bench.run(made.plan, case.inputs, [np.zeros((2, 1), np.float16)])
        assert found.ravel().tolist() == [0, 2348]


def test_indices_that_only_a_cpu_refuses_are_declined() -> None:
    case = make_case("take", {"mode": "raise"}, [(5, 3), SOME])
    with pytest.raises(NoKernelError, match="take"):
        kernels.prepare(case.op, case.params, case.specs, case.outputs, gpu(0))


@pytest.mark.parametrize("name", ["topk"] if FAKE else ["sort", "argsort", "topk"])
def test_order(name: str, bench: GpuBench) -> None:
    more: list[dict[str, object]] = [{"axis": 0}, {"axis": 1}, {"axis": None}]
    if name == "topk":
        more = [{"k": 2, "axis": 0}, {"k": 3, "axis": 1, "ret_typ": "both"}, {"k": 4, "ret_typ": "mask"},
                {"ret_typ": "value", "axis": None}]  # fmt: skip
    for given in more:
        for is_ascend in (True, False):
            params = {**given, "is_ascend": is_ascend}
            compare(bench, name, params, [np.stack([MIXED, MIXED[::-1]])[:, :6]], requests=(WRITE, NULL))
        compare(bench, name, given, [np.random.default_rng(2).integers(-3, 3, (4, 5, 3)[:2])], exact=True)
    for dtype in ("float32",) if FAKE else ("float32", "float16", "bfloat16", "float64"):
        for is_ascend in (True, False):
            compare(bench, name, {"is_ascend": is_ascend, **({"k": 700} if name == "topk" else {})}, [LONG], dtype,
                    requests=(WRITE, ADD))  # fmt: skip


def test_gradients_of_order(bench: GpuBench) -> None:
    x = np.array([[3.0, 1, 2, 1], [0, 5, 5, 4]])
    compare(bench, "_backward_sort", {"is_ascend": False}, [(2, 4), x])
    compare(bench, "_backward_sort", {"axis": None}, [(8,), x])
    compare(bench, "_backward_topk", {"k": 2, "ret_typ": "value"}, [(2, 2), x])
    compare(bench, "_backward_topk", {"k": 1, "axis": 0, "ret_typ": "both"}, [(1, 4), x])
