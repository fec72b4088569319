# SPDX-License-Identifier: Apache-2.0
"""Positions, matrices and updates of several weights on a GPU, real or fake, against the references; see `plans.py`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mx_core import kernels
from mx_core.testing.case import make_case
from mx_operators_cuda.register import KERNELS
from testkit.device_memory import GpuBench
from testkit.gpu_kernels import FAKE, WRITE, Given, compare, swept

SQUARE = np.eye(4) + 0.1 * np.arange(16).reshape(4, 4)
#: rows that have to be exchanged; a positive definite matrix and its factor
TURNED = SQUARE[[2, 0, 3, 1]] * np.array([1, -1, 1, 1])
POSITIVE = SQUARE @ SQUARE.T / 2
FACTOR = np.linalg.cholesky(POSITIVE)
#: of the rows of a matrix: those of an orthogonal one, and the triangle; of a symmetric one: vectors in rows, values
ROWS, TRIANGLE = (x.T for x in np.linalg.qr(TURNED[:3].T))
VALUES, VECTORS = np.linalg.eigh(POSITIVE)
#: on edges, outside, no numbers
MIXED = np.array([[-0.5, -0.25, 0.75, 0.7], [np.nan, np.inf, -np.inf, 0.0], [0.1, 0.5, 2, -1]])
PLACES, SIGNS = np.array([[0.0, 4, 4, 2, 0, 4, 1]]), np.array([[1.0, -1, 1, 1, -1, -1, 1]])
#: sequences of events: all, some, none of them count
EVENTS: list[Any] = [
    np.array([[0.5, 1], [0.25, 2], [1, 1]]), np.array([0.5, 0.25]), np.array([1.0, 2]), np.array([[0.0, 0], [1, 0.5], [0, 2]]),
    np.array([[0.5, 0.25, 1, 0.5]] * 3), np.array([[0, 1, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0]], np.int32),
    np.array([4.0, 2, 0]), np.array([3.0, 4, 5]),
]  # fmt: skip
CASES: dict[str, list[Given]] = {
    "_ravel_multi_index": [({"shape": (4, 5)}, [np.array([[0.0, 3, 2], [4, 0, 1]])]), ({"shape": (-1, 5)}, [np.array([[9], [4]])])],
    "_unravel_index": [({"shape": (4, 5)}, [np.array([0.0, 19, 7])]), ({"shape": (-1, 5)}, [np.array([[104]])])],
    "_contrib_index_array": [({}, [(2, 3, 4)]), ({"axes": (2, 0)}, [(2, 3, 4)]), ({"axes": (-1,)}, [(0, 3)])],
    "shape_array": [({}, [(2, 3, 4)])],
    "size_array": [({}, [(2, 3, 4)])],
    "amp_multicast": [({"num_outputs": 2}, [np.ones((3, 4), np.float16), np.full((5,), 2, np.float32)])],
    "_contrib_index_copy": [({}, [(5, 3), np.array([4, 1, 4]), (3, 3)]), ({}, [(5,), np.zeros(0, np.int64), (0,)])],
    "_backward_contrib_index_copy": [({}, [(5, 3), (5, 3), np.array([4, 1, 4]), (3, 3)])],
    "_onehot_encode": [({}, [np.array([0.0, 3, 9, -1]), (4, 5)])],
    "fill_element_0index": [({}, [(3, 4), (3,), np.array([0.0, 3, 2])])],
    "_linalg_extractdiag": [({}, [(2, 4, 4)]), ({"offset": -2}, [(4, 4)])],
    "_linalg_makediag": [({}, [(2, 3)]), ({"offset": 1}, [(3,)])],
    "_linalg_extracttrian": [({}, [(2, 4, 4)]), ({"lower": False}, [(4, 4)]), ({"offset": 1}, [(4, 4)]), ({"offset": -2}, [(4, 4)])],
    "_linalg_maketrian": [({}, [(2, 6)]), ({"lower": False}, [(6,)]), ({"offset": 1}, [(3,)]), ({"offset": -2}, [(3,)])],
    "khatri_rao": [({"num_args": 2}, [(2, 3), (4, 3)]), ({"num_args": 3}, [(2, 3), (1, 3), (3, 3)]), ({"num_args": 1}, [(2, 3)])],
    "_np_cumsum": [({}, [(3, 4)]), ({"axis": 1}, [(2, 5, 3)]), ({"axis": 0, "dtype": "int32"}, [np.array([[1.7, -2], [3, 4]])])],
    "_backward_np_cumsum": [({}, [(12,), (3, 4)]), ({"axis": -1}, [(3, 4), (3, 4)])],
    "_linalg_gemm": [({"transpose_a": a, "transpose_b": b, "alpha": 2.0, "beta": 0.5},
                      [(2, 5, 3) if a else (2, 3, 5), (2, 4, 5) if b else (2, 5, 4), (2, 3, 4)]) for a, b in ((False, False), (True, True))]
                    + [({}, [(2, 0), (0, 3), (2, 3)])],
    "_linalg_gemm2": [({"transpose_a": True, "alpha": -1.5}, [(5, 3), (5, 4)])],
    "_linalg_syrk": [({"alpha": 2.0}, [(2, 3, 5)]), ({"transpose": True}, [(3, 5)])],
    "_linalg_trmm": [({"alpha": 2.0}, [(2, 3, 3), (2, 3, 4)]), ({"lower": False, "rightside": True, "transpose": True}, [(3, 3), (2, 3)])],
    **{name: [({}, [np.stack([SQUARE, TURNED])]), ({}, [SQUARE[:1, :1]])] for name in ("_linalg_inverse", "_linalg_det", "_linalg_slogdet")},
    "_backward_linalg_slogdet": [({}, [(2,), np.stack([TURNED, SQUARE])]), ({}, [(1,), np.ones((2, 2))])],
    **{name: [({}, [np.stack([POSITIVE] * 2)]), ({"lower": False}, [POSITIVE])] for name in ("_linalg_potrf", "_linalg_potri")},
    "_backward_linalg_potrf": [({}, [(2, 4, 4), np.stack([FACTOR] * 2)]), ({"lower": False}, [(4, 4), FACTOR.T])],
    "_linalg_trsm": [({"alpha": 2.0, "lower": lower, "transpose": turned, "rightside": right}, [POSITIVE, (4, 3) if not right else (3, 4)])
                     for lower in (True, False) for turned in (True, False) for right in (True, False)]
                    + [({}, [np.stack([POSITIVE] * 2), (2, 4, 5)])],
    "_linalg_gelqf": [({}, [np.stack([TURNED[:3], -SQUARE[1:]])]), ({}, [TURNED]), ({}, [np.array([[0.0, 2, 1]])]), ({}, [(0, 2, 3)])],
    "_backward_linalg_gelqf": [({}, [(2, 3, 4), (2, 3, 3), np.stack([ROWS] * 2), np.stack([TRIANGLE] * 2)])],
    "_linalg_syevd": [({}, [np.stack([POSITIVE, -TURNED])]), ({}, [(5, 5)]), ({}, [(2, 11, 11)]), ({}, [np.full((1, 1), -3.0)]),
                      ({}, [np.diag([3.0, 1, 2])]), ({}, [np.zeros((2, 2))]), ({}, [(0, 2, 2)])],
    "_backward_linalg_syevd": [({}, [(2, 4, 4), (2, 4), np.stack([VECTORS.T] * 2), np.stack([VALUES] * 2)]),
                               ({}, [(3, 3), (3,), np.eye(3), np.array([1.0, 1, 2])])],
    "_linalg_sumlogdiag": [({}, [SQUARE]), ({}, [np.stack([SQUARE] * 2)])],
    "_backward_linalg_sumlogdiag": [({}, [(1,), SQUARE]), ({}, [(2,), np.stack([SQUARE] * 2)])],
    "_contrib_allclose": [({}, [np.array(a), np.array(b)]) for a, b in (
        ([1.0, np.nan, np.inf], [1.0, np.nan, np.inf]), ([1.0, 2], [1.0, 2.1]), ([np.inf], [-np.inf]), ([np.inf], [3.0]))]
                         + [({"equal_nan": False}, [np.array([np.nan])] * 2), ({"rtol": 0.1}, [np.array([1.0]), np.array([1.05])]),
                            ({}, [(0,), (0,)])],
    "_backward_linalg_det": [
        ({}, [(3,), np.stack([TURNED, SQUARE, np.outer([1.0, 2, 0, 1], [3.0, 1, 1, 2]) + np.diag([0, 0, 1.0, 1])])]),
        ({}, [(1,), np.ones((3, 3))]), ({}, [(2,), np.array([[[4.0]], [[0]]])]), ({}, [(1,), np.array([[1.0, np.nan], [0, 1]])]),
    ],
    "_histogram": [
        ({"bin_cnt": 5, "range": (-0.5, 0.75)}, [MIXED]), ({"bin_cnt": 3, "range": (0.0, 9.0)}, [np.arange(-3, 12, dtype=np.int32)]),
        ({}, [MIXED, np.array([-1.0, 0, 0, 0.5, 2])]), ({"bin_cnt": 2, "range": (0, 1)}, [(0,)]),
    ],
    "_contrib_count_sketch": [({"out_dim": 5}, [(2, 3, 7), PLACES, SIGNS]), ({"out_dim": 5}, [(2, 0), (1, 0), (1, 0)])],
    "_backward_contrib_count_sketch": [({"out_dim": 5}, [(2, 3, 5), (2, 3, 7), PLACES, SIGNS])],
    **{name: [({}, [(2, 3, n)]) for n in (1, 2, 12, 35, 64)] + [({}, [(3, n)]) for n in (37, 74, 0)]
       for name in ("_contrib_fft",)},
    **{name: [({}, [(2, 3, 2 * n)]) for n in (1, 2, 12, 35, 64)] + [({}, [(3, 2 * n)]) for n in (37, 74, 0)]
       for name in ("_contrib_ifft",)},
    "_backward_contrib_fft": [({}, [(2, 2 * n), (2, n)]) for n in (6, 41)],
    "_backward_contrib_ifft": [({}, [(2, n), (2, 2 * n)]) for n in (6, 41)],
    "_contrib_hawkesll": [({}, EVENTS)],
    "_backward_contrib_hawkesll": [({}, [(3,), *EVENTS])],
    "multi_lars": [({"eta": 0.1, "eps": 1e-3}, [np.full(3, 0.5), np.array([4.0, 0, 9]), np.array([1.0, 2, 0]), np.full(3, 0.01)])],
}  # fmt: skip
NORMS: dict[str, list[tuple[dict[str, Any], tuple[int, ...]]]] = {
    "_contrib_BatchNormWithReLU": [
        ({"fix_gamma": False}, (4, 3, 5, 6)),
        ({"use_global_stats": True}, (2, 3, 4)),
    ],
    "_contrib_SyncBatchNorm": [({"key": "a", "fix_gamma": False}, (4, 3, 5))],
}
UPDATES = ("_multi_adamw_update", "_multi_mp_adamw_update", "_multi_lamb_update", "_multi_mp_lamb_update",
           "_contrib_group_adagrad_update", "reset_arrays")  # fmt: skip
HERE = (
    "closeness",
    "counts",
    "factor",
    "fourier",
    "hawkes",
    "linalg",
    "optimizer_several",
    "orthogonal",
    "places",
)


@pytest.fixture(scope="module")
def bench() -> GpuBench:
    return GpuBench()


def test_every_kernel_has_cases() -> None:
    normalized = set(NORMS) | {f"_backward{name}" for name in NORMS}
    registered = {name for name, make in KERNELS if make.split(":")[0] in HERE} | normalized
    assert registered == {*CASES, *UPDATES} | normalized


@pytest.mark.parametrize("name", ["_linalg_syevd", "_linalg_trmm", "_np_cumsum"] if FAKE else sorted(CASES))
def test_numbers(name: str, bench: GpuBench) -> None:
    mixed = name in ("amp_multicast", "_contrib_allclose")
    # a matrix of 16 bits is another matrix
    few = mixed or name in {op for op, make in KERNELS if make.startswith(("factor:", "orthogonal:"))}
    for dtype in ("float32",) if FAKE or few else ("float32", "float16", "bfloat16", "float64"):
        if dtype == "float16" and name == "_unravel_index":
            continue  # its positions have more bits
        for params, inputs in CASES[name][: 1 if FAKE else None]:
            compare(bench, name, params, inputs, dtype)


@swept
def test_decompositions_in_other_types(bench: GpuBench) -> None:
    for name in ("_linalg_gelqf", "_linalg_syevd"):
        compare(bench, name, {}, [TURNED], "float16")
        compare(bench, name, {}, [TURNED * 1e200], "float64", rtol=1e-9)
        compare(bench, name, {}, [(40, 40)], "float64")


@swept
def test_a_matrix_that_is_not_finite_has_no_eigenvalues(bench: GpuBench) -> None:
    for wrong in (np.nan, np.inf):
        case = make_case("_linalg_syevd", {}, [np.array([[1, 2], [wrong, 1]])])
        made = kernels.prepare(case.op, case.params, case.specs, case.outputs, bench.context)
        found = bench.run(made.plan, case.inputs, [np.zeros((2, 2)), np.zeros(2)], [WRITE] * 2)
        assert all(np.isnan(x).all() for x in found)


@swept
@pytest.mark.parametrize("name", sorted(NORMS))
def test_normalizations(name: str, bench: GpuBench) -> None:
    for params, shape in NORMS[name]:
        case = compare(bench, name, params, [shape], span=(0.2, 1.2), rtol=3e-4)
        backward = case.op.backward_operator()
        kept: dict[str, Any] = {"out_grad": np.random.default_rng(2).normal(size=shape)}
        kept |= dict(zip([*case.op.inputs(case.params), *case.op.aux(case.params)], case.inputs, strict=True))
        kept |= dict(zip(case.op.outputs(case.params), case.reference(), strict=False))
        given = [kept[key].astype(np.float64) for key in backward.inputs(case.params)]
        compare(bench, backward.name, params, given, rtol=3e-4)


@swept
@pytest.mark.parametrize("mixed", ["", "mp_"])
def test_updates_of_several_weights(mixed: str, bench: GpuBench) -> None:
    dtype, master = ("float16", 1) if mixed else ("float32", 0)

    def own(shape: tuple[int, ...]) -> list[Any]:
        return [shape, shape, np.full(shape, 0.1), np.full(shape, 0.2), *(np.full(shape, 0.7),) * master]

    weights = [*own((7, 5)), *own((4,))]
    for scale in (0.5, np.inf):
        params = {
            "lrs": (0.1, 0.2),
            "wds": (0.01, 0.3),
            "etas": (0.7, 1.0),
            "clip_gradient": 0.3,
            "num_weights": 2,
        }
        compare(
            bench,
            f"_multi_{mixed}adamw_update",
            params,
            [*weights, np.array([scale])],
            dtype,
            requests=(WRITE,),
        )
    for more in ({}, {"lower_bound": 2.0, "bias_correction": False}):
        params = {
            "learning_rates": (0.1, 0.2),
            "wds": (0.01, 0.3),
            "step_count": (1, 7),
            "num_tensors": 2,
            **more,
        }
        compare(bench, f"_multi_{mixed}lamb_update", params, weights, dtype, requests=(WRITE,))


@swept
def test_histories_of_rows_and_arrays_that_are_reset(bench: GpuBench) -> None:
    given = [(7, 300), (7, 300), np.full((7, 1), 0.2)]
    params = {"lr": 0.1, "rescale_grad": 0.5, "clip_gradient": 0.3}
    compare(bench, "_contrib_group_adagrad_update", params, given, requests=(WRITE,))
    compare(bench, "reset_arrays", {"num_arrays": 2}, [(3, 4), (5,)], requests=(WRITE,))
