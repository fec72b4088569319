# SPDX-License-Identifier: Apache-2.0
"""Samples of distributions, and densities, on a GPU, real or fake, against the operators' references; see `plans.py`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mx_core import kernels
from mx_core.testing.case import make_case
from mx_operators_cuda.register import KERNELS
from testkit.device_memory import GpuBench
from testkit.gpu_kernels import ADD, FAKE, NULL, WRITE, Given, compare, swept

#: parameters of each distribution, some of every branch of its method
LAWS: dict[str, list[dict[str, float]]] = {
    "gamma": [{"alpha": 0.3, "beta": 2.0}, {"alpha": 7.0, "beta": 0.5}],
    "poisson": [{"lam": 0.0}, {"lam": 4.0}, {"lam": 250.0}],
    "negative_binomial": [{"k": 3, "p": 0.4}, {"k": 400, "p": 0.5}],
    "generalized_negative_binomial": [{"mu": 5.0, "alpha": 0.5}, {"mu": 30.0, "alpha": 0.0}],
}
ARRAYS: dict[str, list[Any]] = {
    "uniform": [np.array([-1.0, 2]), np.array([1.0, 2])],
    "normal": [np.array([-1.0, 2]), np.array([0.0, 3])],
    "exponential": [np.array([0.5, 4])],
    "gamma": [np.array([0.3, 7]), np.array([2.0, 0.5])],
    "poisson": [np.array([0.0, 4, 250])],
    "negative_binomial": [np.array([3.0, 400]), np.array([0.4, 1])],
    "generalized_negative_binomial": [np.array([5.0, 30, 0]), np.array([0.5, 0, 1])],
}
DENSITIES: dict[str, list[Any]] = {
    "uniform": [np.array([-1.0, 0]), np.array([1.0, 4])],
    "normal": [np.array([-1.0, 2]), np.array([0.7, 3])],
    "exponential": [np.array([0.5, 4])],
    "gamma": [np.array([0.7, 3]), np.array([2.0, 0.5])],
    "poisson": [np.array([0.5, 4])],
    "negative_binomial": [np.array([3.0, 5]), np.array([0.4, 0.7])],
    "generalized_negative_binomial": [np.array([5.0, 2]), np.array([0.5, 1])],
}
VALUES = np.array([[1.0, 3, 2], [2, 1, 4]])
CHANCES = np.array([[1.0, 0, 3, 4], [0, 2, 0, 0]])
CHOICES: dict[str, list[Given]] = {
    "_shuffle": [({}, [(700, 3)]), ({}, [(5,)]), ({}, [()]), ({}, [(0, 2)])],
    "_sample_multinomial": [
        ({"shape": (50,)}, [CHANCES]), ({"get_prob": True, "shape": (2, 3)}, [CHANCES]), ({}, [CHANCES[0]]),
    ],
    "_sample_unique_zipfian": [({"range_max": 50, "shape": (3, 20)}, []), ({"range_max": 4, "shape": (2, 4)}, [])],
}  # fmt: skip


@pytest.fixture(scope="module")
def bench() -> GpuBench:
    return GpuBench()


def test_every_kernel_has_cases() -> None:
    here = {name for name, make in KERNELS if make.split(":")[0] in ("samplers", "density")}
    densities = {f"{kind}_random_pdf_{name}" for kind in ("", "_backward") for name in DENSITIES}
    numbers = {f"_random_{name}{like}" for name in LAWS for like in ("", "_like")}
    densities |= {"_random_pdf_dirichlet", "_backward_random_pdf_dirichlet"}
    assert here == densities | numbers | {f"_sample_{name}" for name in ARRAYS} | set(CHOICES)


@pytest.mark.parametrize("name", sorted(LAWS)[:: 4 if FAKE else 1])
def test_numbers_of_one_distribution(name: str, bench: GpuBench) -> None:
    for dtype in ("float32",) if FAKE else ("float32", "float16", "bfloat16", "float64"):
        for params in LAWS[name][: 1 if FAKE else None]:
            compare(bench, f"_random_{name}", {**params, "shape": (301,), "dtype": dtype}, [], dtype)
    if not FAKE:
        compare(bench, f"_random_{name}_like", LAWS[name][0], [(3, 4)])


@pytest.mark.parametrize("name", sorted(ARRAYS)[:: 4 if FAKE else 1])
def test_numbers_of_arrays_of_distributions(name: str, bench: GpuBench) -> None:
    compare(bench, f"_sample_{name}", {"shape": (40,)}, ARRAYS[name])
    if not FAKE:
        compare(bench, f"_sample_{name}", {"dtype": "float64"}, ARRAYS[name], "float64")
        compare(bench, f"_sample_{name}", {"shape": (0,)}, ARRAYS[name])


def test_what_no_distribution_has_is_no_number(bench: GpuBench) -> None:
    case = make_case("_sample_gamma", {}, [np.array([-1.0, np.inf, np.nan, 2]), np.array([1.0, 1, 1, 0])])
    made = kernels.prepare(case.op, case.params, case.specs, case.outputs, bench.context)
    (found,) = bench.run(made.plan, case.inputs, [np.zeros(4, np.float32)])
    assert np.isnan(found).all()


@swept
def test_wrong_scalars_are_refused(bench: GpuBench) -> None:
    for name, scalars, message in (
        ("gamma", (0.0, 1.0), "alpha is not above 0"), ("poisson", (-1.0,), "lam is below 0"),
        ("negative_binomial", (2, 0.0), "p is not above 0"),
        ("generalized_negative_binomial", (1.0, -0.5), "alpha is below 0"),
    ):  # fmt: skip
        case = make_case(f"_random_{name}", {"shape": (3,)}, [])
        made = kernels.prepare(case.op, case.params, case.specs, case.outputs, bench.context)
        with pytest.raises(RuntimeError, match=message):
            bench.run(made.plan, [], [np.zeros(3, np.float32)], None, scalars)


@pytest.mark.parametrize("name", sorted(CHOICES)[:: 2 if FAKE else 1])
def test_choices(name: str, bench: GpuBench) -> None:
    for params, inputs in CHOICES[name][: 1 if FAKE else None]:
        compare(bench, name, params, inputs, exact=name == "_shuffle", requests=(WRITE,))
        if not FAKE:
            compare(bench, name, params, inputs, requests=(ADD, NULL))


@pytest.mark.parametrize("name", sorted(DENSITIES)[:: 4 if FAKE else 1])
def test_densities(name: str, bench: GpuBench) -> None:
    for is_log in (True,) if FAKE else (True, False):
        for given in (
            [VALUES, *DENSITIES[name]],
            [VALUES, *(np.array([[x], [x]]) + np.zeros((2, 3)) for x in (2.0, 5.0))],
        ):
            inputs = given[: 1 + len(DENSITIES[name])]
            if name in ("negative_binomial",) and inputs[-1].max() > 1:
                inputs[-1] = inputs[-1] / 10
            case = compare(bench, f"_random_pdf_{name}", {"is_log": is_log}, inputs)
            head = np.linspace(-1, 1, 6).reshape(2, 3)
            backward = case.op.backward_operator()
            kept = dict(zip(case.op.inputs(case.params), inputs, strict=True)) | {"out_grad": head}
            kept |= dict(zip(case.op.outputs(case.params), case.reference(), strict=False))
            compare(bench, backward.name, {"is_log": is_log}, [kept[n] for n in backward.inputs(case.params)])


@swept
@pytest.mark.parametrize("is_log", [True, False])
def test_dirichlet(is_log: bool, bench: GpuBench) -> None:
    rows = np.random.default_rng(3).dirichlet([2.0, 1, 3, 1], (2, 3))
    for sample, alpha in (
        (rows, np.array([[0.5, 1, 2, 4], [3, 1, 1, 0.25]])), (rows, np.array([0.5, 1, 2, 4])), (rows[0], rows[0] + 1),
        (rows[:, :0], np.ones((2, 4))),
    ):  # fmt: skip
        for dtype in ("float32", "float16", "bfloat16", "float64"):
            case = compare(bench, "_random_pdf_dirichlet", {"is_log": is_log}, [sample, alpha], dtype)
            given = [np.linspace(-1, 1, sample[..., 0].size).reshape(sample.shape[:-1]), sample, alpha]
            compare(bench, case.op.backward_operator().name, {"is_log": is_log}, given, dtype)
