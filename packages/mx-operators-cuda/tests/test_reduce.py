# SPDX-License-Identifier: Apache-2.0
"""Reductions, built for the processor, against the operators' references."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mx_core import dtypes, operators
from mx_core.operator.declaration import ReferenceContext
from mx_operators_cuda import reduce
from mx_operators_cuda.codegen.reduction import runs_of
from mx_operators_cuda.launch import Kind

SHAPES = (
    ((4, 5, 6), (1,)), ((4, 5, 6), (0, 2)), ((7, 70), (1,)), ((70, 7), (0,)), ((3, 2, 40), (0, 2)), ((9,), (0,)),
    ((2, 3, 2, 3, 2), (1, 3)), ((2, 1, 5), (1,)), ((5, 0), (1,)), ((1, 1), (0, 1)), ((3, 50, 2, 40), (1, 3)),
)  # fmt: skip


def prepare(name: str, x: np.ndarray, axes: tuple[int, ...]) -> Any:
    """The launches of a reduction, scratch sizes, elements of the output."""
    runs = runs_of(x.shape, axes)
    reduction = reduce.NORMS[int(name[-1])] if name.startswith("norm") else reduce.REDUCTIONS[name]
    return *reduce.launches(name, reduction, runs, dtypes.code(x.dtype)), runs.outputs


def emulate(
    name: str, x: np.ndarray, axes: tuple[int, ...], emulator: Any, req: int = 1, start: int = 77
) -> Any:
    """What the kernels of a reduction make of an array, the output flat."""
    launches, scratch, outputs = prepare(name, x, axes)
    memory = np.zeros(max(scratch, default=0), np.uint8)
    out = np.full(outputs, start, x.dtype)
    for launch in launches:
        emulator.run(launch, [x], [out], [req], threads=4, scratch=memory)
    return out


def reference(name: str, x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    op = operators.get(re.sub(r"\d", "", name))
    attributes = {"axis": axes} | ({"ord": int(name[-1])} if name.startswith("norm") else {})
    (y,) = op.reference(op.Param.parse(attributes), [x], ReferenceContext())
    return np.asarray(y).ravel()


@pytest.mark.parametrize(
    ("name", "dtype"),
    [*((name, "float32") for name in (*reduce.REDUCTIONS, "norm1", "norm2")),
     *(pytest.param(name, dtype, marks=pytest.mark.long) for name in (*reduce.REDUCTIONS, "norm1", "norm2")
       for dtype in ("float16", "float64")),
     *((name, "int32") for name in ("sum", "prod", "max", "min"))],
)  # fmt: skip
def test_numbers(name: str, dtype: str, emulator: Any) -> None:
    rng = np.random.default_rng(3)
    cases = [c for c in SHAPES if dtype != "int32" or 0 not in c[0]]
    made = [prepare(name, np.empty(shape, dtype), axes)[0] for shape, axes in cases]
    emulator.build([launch.source for launches in made for launch in launches])
    for shape, axes in cases:
        x = rng.integers(1, 4, shape).astype(dtype) if "prod" not in name else np.ones(shape, dtype)
        if name.startswith("nan"):
            x.ravel()[::3] = np.nan
        found, wanted = emulate(name, x, axes, emulator), reference(name, x, axes)
        tolerance = {"float16": 2e-3, "float32": 1e-6, "float64": 1e-13}.get(dtype, 0)
        np.testing.assert_allclose(found, wanted, rtol=tolerance, err_msg=f"{shape} {axes}")


@pytest.mark.parametrize(("shape", "axis"), [((2, 20_000), 1), ((20_000, 3), 0), ((50_000,), 0)])
def test_segments(shape: tuple[int, ...], axis: int, emulator: Any) -> None:
    """Few outputs of many elements: partial results in scratch, folded by a second kernel."""
    x = np.random.default_rng(4).normal(size=shape).astype(np.float32)
    launches, scratch, _ = prepare("mean", x, (axis,))
    assert len(launches) == 2 and len(scratch) == 1
    assert (Kind.SCRATCH, 0) in launches[0].parameters and (Kind.SCRATCH, 0) in launches[1].parameters
    found = emulate("mean", x, (axis,), emulator)
    np.testing.assert_allclose(found, x.mean(axis, np.float64).ravel(), rtol=1e-4, atol=1e-6)
    added = emulate("mean", x, (axis,), emulator, req=3, start=5)
    np.testing.assert_allclose(added, found + 5, rtol=1e-6)


def test_nan_is_passed_on(emulator: Any) -> None:
    x = np.arange(120, dtype=np.float32).reshape(3, 40)
    x[1, 7] = np.nan
    for name in ("max", "min", "sum"):
        for axes in ((1,), (0,)):
            np.testing.assert_array_equal(
                np.isnan(emulate(name, x, axes, emulator)), np.isnan(reference(name, x, axes))
            )


def test_nothing_to_fold_and_nothing_to_write(emulator: Any) -> None:
    assert prepare("sum", np.ones((0, 3), np.float32), (1,)) == ([], [], 0)
    np.testing.assert_array_equal(emulate("sum", np.ones((3, 0), np.float32), (1,), emulator), [0, 0, 0])


@settings(deadline=None)
@given(shape=st.lists(st.integers(1, 4), max_size=5), data=st.data())
def test_runs_walk_the_same_elements(shape: list[int], data: st.DataObject) -> None:
    axes = data.draw(st.lists(st.sampled_from(range(len(shape))), unique=True)) if shape else []
    runs = runs_of(shape, axes)
    numbers = np.arange(int(np.prod(shape)))
    kept = [i for i in range(len(shape)) if i not in axes]
    order = numbers.reshape(shape).transpose([*kept, *sorted(axes)]).reshape(runs.outputs, runs.extent)
    walked = np.zeros((runs.outputs, runs.extent), int)
    for index in np.ndindex(*runs.sizes):
        at = [np.ravel_multi_index([index[i] for i in runs.of(k)] or [0],
                                   [runs.sizes[i] for i in runs.of(k)] or [1]) for k in (False, True)]  # fmt: skip
        walked[at[0], at[1]] = sum(i * s for i, s in zip(index, runs.strides, strict=True))
    np.testing.assert_array_equal(walked, order)
    assert all(a is not b for a, b in zip(runs.reduced, runs.reduced[1:], strict=False))


@pytest.mark.long
def test_nvrtc_compiles_each_form(nvrtc: Any) -> None:
    for shape, axes in SHAPES:
        for code in (0, 2, 6):
            for launch in reduce.launches("sum", reduce.SUM, runs_of(shape, axes), code)[0]:
                log = nvrtc.compile_kernel(
                    launch.source.text, launch.source.name, options=("--ptxas-options=-v",)
                ).log
                assert "0 bytes spill stores" in log and "warning" not in log, log
