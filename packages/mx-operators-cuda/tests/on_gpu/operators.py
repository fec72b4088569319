# SPDX-License-Identifier: Apache-2.0
"""Kernels that are registered for a GPU, real or fake, against the operators' references; see `plans.py`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mx_core import dtypes, gpu, kernels
from mx_core.errors import NoKernelError
from mx_core.kernels import TensorSpec
from mx_core.operator import Operator
from mx_core.testing.case import Case, make_case
from mx_operators_cuda import nvrtc
from mx_operators_cuda.register import KERNELS, UPDATES
from testkit.device_memory import GpuBench
from testkit.gpu_kernels import compare

CLIP = {"ftml_update": "clip_grad"}
MORE = {"ftml_update": {"t": 3}, "_sparse_adagrad_update": {"wd": 0.0}}
#: a second moment that exceeds the square of the first
STATES = {"rmspropalex_update": [(7, 5), np.full((7, 5), 2.0)]}
TIES = np.array([[1.0, 3, 3, 2], [5, 5, 5, 5], [0, -1, -1, 0]])
LENGTHS = np.array([4.0, 1, 3])
X, BIG = (4, 1, 6), (3, 70, 2, 40)
#: operator -> parameters and shapes of the inputs
CASES: dict[str, list[tuple[dict[str, Any], list[Any]]]] = {
    "Reshape": [({"shape": (3, 8)}, [X])],
    "_backward_reshape": [({}, [(24,), X])],
    "Flatten": [({}, [X])],
    "expand_dims": [({"axis": 1}, [X])],
    "squeeze": [({}, [X])],
    "reshape_like": [({}, [X, (8, 3)])],
    "broadcast_to": [({"shape": (4, 5, 6)}, [X])],
    "broadcast_axis": [({"axis": (1,), "size": (3,)}, [X])],
    "broadcast_like": [({}, [X, (4, 5, 6)])],
    "where": [({}, [(5, 4)] * 3), ({}, [(5,), (5, 4), (5, 4)])],
    "_zeros": [({"shape": (3, 4)}, [])],
    "_ones": [({"shape": (0, 4)}, []), ({"shape": (1000,)}, [])],
    "_full": [({"shape": (3, 4), "value": 2.5}, [])],
    "norm": [({}, [BIG]), ({"ord": 1, "axis": (1,)}, [BIG]), ({"axis": (1, 3), "keepdims": True}, [BIG])],
    "_unbroadcast": [({}, [(2, 4, 50), (4, 1)]), ({}, [(4, 5), (4, 5)])],
    "_backward_sum": [({"axis": (1,)}, [(3, 4), (3, 5, 4)])],
    "_backward_mean": [({"axis": (0, 2)}, [(5,), (3, 5, 4)])],
    "dot": [({"transpose_a": a, "transpose_b": b}, [(5, 3) if a else (3, 5), (7, 5) if b else (5, 7)])
            for a in (False, True) for b in (False, True)]
           + [({}, [(5,), (5,)]), ({}, [(2, 3, 5), (5, 4, 2)]), ({}, [(0, 5), (5, 2)])],
    "_backward_dot": [({"transpose_a": a, "transpose_b": b}, [(3, 7), (5, 3) if a else (3, 5), (7, 5) if b else (5, 7)])
                      for a in (False, True) for b in (False, True)],
    "batch_dot": [({"transpose_a": a, "transpose_b": b}, [(4, 5, 3) if a else (4, 3, 5), (4, 7, 5) if b else (4, 5, 7)])
                  for a in (False, True) for b in (False, True)]
                 + [({}, [(4, 3, 0), (4, 0, 7)])],
    "FullyConnected": [({"num_hidden": 6}, [(4, 3, 5)]), ({"num_hidden": 6, "no_bias": True}, [(4, 5)]),
                       ({"num_hidden": 6, "flatten": False}, [(2, 4, 5)])],
    "_backward_FullyConnected": [({"num_hidden": 6}, [(40, 6), (40, 5), (6, 5)]),
                                 ({"num_hidden": 6, "no_bias": True}, [(4, 6), (4, 3, 5), (6, 15)])],
    **{name: [(parameters | MORE.get(name, {}), [(7, 5), *STATES.get(name, ())]) for parameters in (
        {"lr": 0.1, "wd": 0.01, "rescale_grad": 0.5}, {"lr": 0.1, "wd": 0.01, CLIP.get(name, "clip_gradient"): 0.2})]
       for name in UPDATES},
    **{f"_random_{name}{like}": [({**p, **({} if like else {"shape": shape})}, [shape] if like else [])
                                 for shape in ((3, 7), (1,), (0, 4))]
       for like in ("", "_like")
       for name, p in (("uniform", {"low": -1, "high": 2}), ("normal", {"loc": 3, "scale": 0.5}), ("exponential", {"lam": 2}))},
    "_random_randint": [({"low": -5, "high": 1000, "shape": (13,)}, []),
                        ({"low": -(2**40), "high": 2**62, "shape": (4,), "dtype": "int64"}, [])],
    "Dropout": [({"p": 0.3}, [(13, 7)]), ({"p": 0}, [(5,)]), ({"p": 1, "mode": "always"}, [(5,)])],
    "transpose": [({}, [X]), ({"axes": (1, 2, 0)}, [(3, 4, 5)]), ({}, [(0, 3)]),
                  ({}, [(40, 17)]), ({"axes": (1, 3, 0, 2)}, [(2, 3, 20, 33)])],  # by tiles
    "SwapAxis": [({"dim1": 0, "dim2": 2}, [(3, 4, 5)])],
    "reverse": [({"axis": axis}, [(3, 4, 5)]) for axis in ((0, 2), (0, 0), (0, 1, -3))],
    "slice": [({"begin": (1, None), "end": (None, -1), "step": (1, 2)}, [(4, 7)]), ({"begin": (3,), "end": (0,), "step": (-1,)}, [(4, 7)])],
    "slice_axis": [({"axis": 1, "begin": 1, "end": 4}, [(3, 5, 2)])],
    "slice_like": [({}, [(5, 6), (3, 2)])],
    "SliceChannel": [({"num_outputs": 3}, [(2, 6, 2)]), ({"num_outputs": 2, "axis": 0, "squeeze_axis": True}, [(2, 5)])],
    "_split_v2": [({"indices": (0, 2, 3), "axis": 1}, [(3, 7)])],
    "_backward_Concat": [({"num_args": 2, "dim": 1}, [(3, 7), (3, 2), (3, 5)])],
    "_backward_slice": [({"begin": (1, 0), "end": (4, None), "step": (1, 2)}, [(3, 4), (5, 7)])],
    "_backward_slice_axis": [({"axis": 1, "begin": 1, "end": 4}, [(3, 3), (3, 5)])],
    "_backward_slice_like": [({}, [(2, 2), (4, 3)])],
    "Concat": [({"num_args": 3, "dim": 1}, [(3, 2, 2), (3, 0, 2), (3, 4, 2)])],
    "_rnn_param_concat": [({"num_args": 2, "dim": 0}, [(3,), (5,)])],
    "diag": [({}, [(3, 4)]), ({"k": -1}, [(3,)]), ({"k": 1, "axis1": 2, "axis2": 0}, [(3, 2, 4)])],
    "_backward_diag": [({"k": 1}, [(3,), (3, 4)]), ({"k": 1}, [(4, 4), (3,)]), ({"axis1": 2, "axis2": 0}, [(2, 3), (3, 2, 4)])],
    **{f"_backward_{name}": [({"axis": (1,)}, [(2, 4), (2, 3, 4), (2, 4)]), ({}, [(1,), (5,), (1,)])] for name in ("prod", "nansum", "nanprod")
       if name != "nansum"},
    "_backward_nansum": [({"axis": (1,)}, [(2, 4), np.where(np.arange(24).reshape(2, 3, 4) % 5, 1.0, np.nan)])],
    "_backward_extremum": [({"axis": (1,)}, [(3,), TIES, TIES.max(1)]), ({"axis": (0,), "keepdims": True}, [(1, 4), TIES, TIES.min(0, keepdims=True)])],
    "_backward_norm": [({"axis": (1,)}, [(2,), (2, 3), np.array([0.0, 2])]), ({"ord": 1}, [(1,), (2, 3), (1,)])],
    "moments": [({"axes": (0, 2)}, [(3, 4, 5)]), ({"axes": (1,), "keepdims": True}, [(3, 4, 5)]), ({"axes": (1, 2)}, [(3, 4, 2000)])],
    "_backward_moments": [({"axes": (0, 2)}, [(4,), (4,), (3, 4, 5), (4,)])],
    "all_finite": [({}, [(3, 4)]), ({}, [np.array([1.0, np.inf])]), ({}, [np.array([np.nan])])],
    "multi_all_finite": [({"num_arrays": 2}, [(9000,), np.array([1.0, -np.inf])]), ({"num_arrays": 2}, [(3,), (0,)])],
    "multi_sum_sq": [({"num_arrays": 2}, [(3, 4), (9000,)])],
    "_arange": [({"start": 2, "stop": 9, "step": 1.5, "repeat": 2}, []), ({"start": 5, "dtype": "int32"}, [])],
    "_contrib_arange_like": [({"start": 2, "step": 0.5, "repeat": 2}, [(3, 4)]), ({"axis": 1}, [(3, 4)])],
    "_linspace": [({"start": -1, "stop": 2, "num": 7}, []), ({"start": 1, "stop": 2, "num": 4, "endpoint": False}, [])],
    "_eye": [({"N": 3, "M": 5, "k": -1}, [])],
    "SequenceMask": [({"use_sequence_length": True, "value": 7}, [(4, 3, 2), LENGTHS]), ({}, [(4, 3)]),
                     ({"use_sequence_length": True, "axis": 1}, [(3, 4), LENGTHS])],
    "SequenceLast": [({"use_sequence_length": True}, [(4, 3, 2), LENGTHS]), ({"axis": 1}, [(3, 4, 2)])],
    "_backward_SequenceLast": [({"use_sequence_length": True}, [(3, 2), (4, 3, 2), LENGTHS]), ({"axis": 1}, [(3,), (3, 4)])],
    "SequenceReverse": [({"use_sequence_length": True}, [(4, 3, 2), LENGTHS]), ({}, [(4, 3)])],
    "LRN": [({"nsize": 3, "alpha": 0.3}, [(2, 5, 3)]), ({"nsize": 9, "beta": 0.5}, [(2, 4)])],
    "_backward_LRN": [({"nsize": 3, "alpha": 0.3}, [(2, 5, 3), (2, 5, 3), np.linspace(1, 2, 30).reshape(2, 5, 3)])],
    "repeat": [({"repeats": 3}, [(2, 3)]), ({"repeats": 2, "axis": 0}, [(2, 3)]), ({"repeats": 0, "axis": 1}, [(2, 3)])],
    "_backward_repeat": [({"repeats": 3}, [(18,), (2, 3)]), ({"repeats": 2, "axis": 0}, [(4, 3), (2, 3)])],
    "tile": [({"reps": (2, 1, 3)}, [(2, 3)]), ({"reps": (2,)}, [(2, 3)])],
    "_backward_tile": [({"reps": (2, 1, 3)}, [(2, 2, 9), (2, 3)])],
    "depth_to_space": [({"block_size": 2}, [(2, 12, 2, 3)])],
    "space_to_depth": [({"block_size": 2}, [(2, 3, 4, 6)])],
    "Pad": [({"mode": "constant", "pad_width": (0, 0, 0, 0, 1, 2, 3, 0), "constant_value": 7}, [(2, 1, 3, 2)])],
    "_backward_Pad": [({"mode": "constant", "pad_width": (0, 0, 0, 0, 1, 2, 3, 0)}, [(2, 1, 6, 5), (2, 1, 3, 2)])],
    "Crop": [({"num_args": 1, "offset": (1, 2), "h_w": (2, 3)}, [(2, 1, 4, 6)]), ({"num_args": 2, "center_crop": True}, [(1, 2, 5, 6), (1, 1, 2, 3)])],
    "_backward_Crop": [({"num_args": 1, "offset": (1, 2), "h_w": (2, 3)}, [(2, 1, 2, 3), (2, 1, 4, 6)])],
    **{name: [({}, [(3, 4)])] for name in ("MakeLoss", "make_loss")},
    "SVMOutput": [({}, [(3, 4)])],
    "_backward_UpSampling": [({"scale": 2, "sample_type": "nearest", "num_args": 1}, [(2, 3, 4, 6), (2, 3, 2, 3)])],
    "stack": [({"num_args": 2, "axis": 1}, [(3, 4), (3, 4)]), ({"num_args": 2, "axis": -1}, [(3,), (3,)])],
    "_slice_assign": [({"begin": (0, 1), "end": (None, 3)}, [(4, 5), (4, 2)])],
    "_slice_assign_scalar": [({"begin": (0, 1), "end": (None, 5), "step": (1, 2), "scalar": 2.5}, [(4, 5)])],
    **{name: [({}, [(3, 40)]), ({}, [(2, 300)]), ({"axis": 1, "temperature": 2.0}, [(2, 5, 3)]), ({"axis": 0}, [(4,)])]
       for name in ("softmax", "softmin", "log_softmax")},
    **{f"_backward_{name}": [({}, [(3, 40), (3, 40)]), ({"axis": 1, "temperature": 2.0}, [(2, 5, 3)] * 2)]
       for name in ("softmax", "softmin", "log_softmax")},
    "SoftmaxActivation": [({}, [(2, 3, 4)]), ({"mode": "channel"}, [(2, 3, 4)])],
    "_backward_SoftmaxActivation": [({}, [(2, 3, 4)] * 2), ({"mode": "channel"}, [(2, 3, 4)] * 2)],
    "SoftmaxOutput": [({}, [(3, 40), (3,)]), ({"multi_output": True}, [(2, 5, 3), (2, 3)]), ({"preserve_shape": True}, [(2, 3, 5), (2, 3)])],
    "_backward_SoftmaxOutput": [
        ({"grad_scale": 2.0}, [np.array([0, 6, 3]), (3, 7)]), ({}, [(3, 7), (3, 7)]),
        ({"normalization": "batch", "smooth_alpha": 0.1}, [np.array([0, 9, -2]), (3, 7)]),
        ({"use_ignore": True, "ignore_label": 2, "multi_output": True}, [np.array([[0, 2, 1], [2, 4, 3]]), (2, 5, 3)]),
        ({"preserve_shape": True, "out_grad": True}, [np.array([[0, 2, 1], [2, 4, 3]]), (2, 3, 5), (2, 3, 5)]),
    ],
    **{name: [({"axis": 1}, [(4, 70)]), ({"axis": 0}, [(5, 3)]), ({}, [(6, 2)]), ({"axis": 1, "keepdims": True}, [TIES])]
       for name in ("argmax", "argmin")},
    "argmax_channel": [({}, [(4, 7)])],
    "_backward_pick": [({}, [(4,), (4, 7), np.array([0, 6, 9, -1])])],
    **{name: [({}, [BIG]), ({"axis": (0,)}, [BIG]), ({"axis": (1, 3), "keepdims": True}, [BIG]),
              ({"axis": (2,), "exclude": True}, [(2, 3, 5)]), ({"axis": (0,)}, [(0, 3)])]
       for name in ("sum", "mean", "prod", "nansum", "nanprod", "max", "min")},
}  # fmt: skip


@pytest.fixture(scope="module")
def bench() -> GpuBench:
    return GpuBench()


def test_every_kernel_has_cases() -> None:
    """Here or in the file of its family."""
    elsewhere = {
        "aligned", "attention", "boxes", "closeness", "columns", "convolution", "correlation", "counts", "ctc", "deformable", "density",
        "detectors", "factor", "fourier", "hawkes", "images", "indexing", "linalg", "losses", "masks", "optimizer_several", "orthogonal",
        "places",
        "pooling", "proposals", "regions", "rnn", "samplers", "sampling", "sort",
    }  # fmt: skip
    others = ("mixed_update", "multi_update", "preloaded_update", "adamw", "lamb_direction", "lamb_step")
    masters = {name for name, make in KERNELS if make in {f"optimizer:{other}" for other in others}}
    layers = {name for name, make in KERNELS if make.startswith("norms:") and name not in CASES}
    fused = {"_fused_FullyConnected"}  # which graph passes make: epilogues.py
    assert set(CASES) | masters | layers | fused == {
        name for name, make in KERNELS if make.split(":")[0] not in elsewhere
    }


HALVES = (
    "Reshape", "mean", "max", "dot", "FullyConnected", "_random_uniform", "_random_normal", "Dropout"
)  # fmt: skip
KINDS = [*((name, "float32") for name in sorted(CASES)), *((name, "float16") for name in HALVES)]


@pytest.mark.parametrize(("name", "dtype"), KINDS)
def test_numbers(name: str, dtype: str, bench: GpuBench) -> None:
    for params, shapes in CASES[name]:
        if name.startswith("_") and not shapes and "int" not in name:
            params = {**params, "dtype": dtype}
        # second moments are not negative
        span = (0.99, 1.01) if "prod" in name else (0.1, 1.0) if name in UPDATES else (-1.0, 1.0)
        case = make_case(name, params, shapes, dtype=dtype, low=span[0], high=span[1])
        made = kernels.prepare(case.op, case.params, case.specs, case.outputs, bench.context, case.is_train)
        assert made.variant in ("nvrtc", "cublas") and made.plan is not None
        if name in UPDATES:
            compare_update(case, made.plan, bench)
            continue
        before = [np.full(s.shape, 3, dtypes.numpy_dtype(s.dtype)) for s in case.outputs]
        # what is drawn depends on the type
        given = case.inputs if case.op.is_random else [x.astype(np.float64) for x in case.inputs]
        wide = [y.astype(np.float64) for y in case.reference(given)]
        rtol = 2e-2 if dtype == "float16" else 1e-4
        for req in (1, 0) if "assign" in name or name == "Pad" else (1, 3, 0):
            found = bench.run(made.plan, case.inputs, before, [req] * len(before), case.params.scalars)
            for x, y, old in zip(found, wide, before, strict=True):
                wanted = old if req == 0 else y + old if req == 3 else y
                np.testing.assert_allclose(
                    x.astype(np.float64), wanted, rtol=rtol, atol=rtol, err_msg=f"{case.describe()} {req}"
                )


def test_numbers_are_those_of_the_cpu(bench: GpuBench) -> None:
    """Every bit of uniforms and integers, for every type."""
    for dtype in ("float16", "float32", "float64", "int32", "int64"):
        name = "_random_randint" if "int" in dtype else "_random_uniform"
        case = make_case(name, {"low": -3, "high": 5, "shape": (1001,), "dtype": dtype}, [])
        made = kernels.prepare(case.op, case.params, case.specs, case.outputs, bench.context)
        blank = np.zeros(1001, dtype)
        (found,) = bench.run(made.plan, [], [blank], None, case.params.scalars)
        np.testing.assert_array_equal(found, case.reference()[0])


def test_wrong_distributions_are_refused(bench: GpuBench) -> None:
    for name, scalars, message in (
        ("uniform", (2.0, 1.0), "high is below low: got 1.000000 and 2.000000"),
        ("normal", (0.0, -1.0), "scale is below 0: got -1.000000"),
        ("exponential", (0.0,), "lam is not above 0: got 0.000000"),
        ("normal", (0.0, float("nan")), "scale is below 0"),
    ):
        case = make_case(f"_random_{name}", {"shape": (3,)}, [])
        made = kernels.prepare(case.op, case.params, case.specs, case.outputs, bench.context)
        with pytest.raises(RuntimeError, match=rf"\[_random_{name}\] \[gpu\(0\)\] {message}"):
            bench.run(made.plan, [], [np.zeros(3, np.float32)], None, scalars)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_updates_of_master_copies_and_of_several_weights(dtype: str, bench: GpuBench) -> None:
    rates = {"rescale_grad": 0.5, "clip_gradient": 0.3}
    for momentum in ("", "_mom"):
        own = [(7, 5)] * (3 + bool(momentum))
        compare(
            bench, f"mp_sgd{momentum}_update", {"lr": 0.1, "wd": 0.01, **rates}, own, dtype, requests=(1,)
        )
        several = {**rates, "lrs": (0.1, 0.2), "wds": (0.01, 0.3), "num_weights": 2}
        other = [(4,)] * len(own)
        compare(bench, f"multi_mp_sgd{momentum}_update", several, [*own, *other], dtype, requests=(1,))
        plain = [*own[:-1], *other[:-1]]
        compare(bench, f"multi_sgd{momentum}_update", several, plain, dtype, requests=(1,))
        lists = [np.array([0.1, 0.2], np.float32), np.array([0.01, 0.3], np.float32)]
        preloaded = {**rates, "num_weights": 2}
        compare(
            bench,
            f"preloaded_multi_mp_sgd{momentum}_update",
            preloaded,
            [*own, *other, *lists],
            dtype,
            requests=(1,),
        )
        compare(
            bench, f"preloaded_multi_sgd{momentum}_update", preloaded, [*plain, *lists], dtype, requests=(1,)
        )
    adam = [
        (7, 5),
        (7, 5),
        np.full((7, 5), 0.1),
        np.full((7, 5), 0.2),
        (1,),
        (1,),
        np.full(1, 0.1),
        np.full(1, 0.2),
    ]
    compare(bench, "_preloaded_multi_adam_update", preloaded, [*adam, *lists], dtype, requests=(1,))
    compare(bench, "mp_nag_mom_update", {"lr": 0.1, "wd": 0.01, "momentum": 0.9}, own, dtype, requests=(1,))


@pytest.mark.parametrize("mixed", ["", "mp_"])
def test_updates_with_moments(mixed: str, bench: GpuBench) -> None:
    """A scale that is 0 or no number leaves everything as it is."""
    own, master = [(7, 5)] * 2, [(7, 5)] * (mixed != "")
    rates = {"lr": 0.1, "wd": 0.01}
    moments = [np.full((7, 5), 0.1), np.full((7, 5), 0.2)]
    dtype = "float16" if mixed else "float32"
    for scale in (0.5, np.inf, 0.0):
        given = [*own, *moments, *master, np.array([scale])]
        compare(
            bench,
            f"_{mixed}adamw_update",
            {**rates, "eta": 0.7, "clip_gradient": 0.3},
            given,
            dtype,
            requests=(1,),
        )
    for more in ({}, {"bias_correction": False, "clip_gradient": 0.2}):
        given = [*own, *moments, *master]
        compare(
            bench, f"{mixed}lamb_update_phase1", {"wd": 0.01, "t": 3, **more}, given, dtype, requests=(1,)
        )
    for more in ({}, {"lower_bound": 2.0, "upper_bound": 3.0}):
        for norms in (([4.0], [2.0]), ([0.0], [1.0])):
            given = [*own, *map(np.array, norms), *master]
            compare(bench, f"{mixed}lamb_update_phase2", {"lr": 0.1, **more}, given, dtype, requests=(1,))


class Alone(Operator):
    """An operator that nobody has a kernel for."""

    name = "test_alone"
    arguments = ("data",)
    differentiable = False

    def infer_shape(self, p: Any, s: Any) -> None:
        s.unify(["data", "output"])


def test_an_operator_without_a_kernel_names_itself() -> None:
    op, spec = Alone(), TensorSpec((3, 3), 0)
    with pytest.raises(
        NoKernelError, match="'test_alone' on gpu.*neither mx-operators-cuda nor another plug-in"
    ):
        kernels.prepare(op, op.Param.parse({}), [spec], [spec], gpu(0))


def test_rates_need_no_other_kernels(bench: GpuBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another rate is another plan, of the kernels that are there."""
    given = {"num_weights": 1, "wds": (0.0,)}
    compare(bench, "multi_sgd_update", {**given, "lrs": (0.1,)}, [(3,), (3,)], requests=(1,))
    monkeypatch.setattr(nvrtc, "compile_kernel", None)
    compare(bench, "multi_sgd_update", {**given, "lrs": (0.7,)}, [(3,), (3,)], requests=(1,))


def compare_update(case: Case, plan: Any, bench: GpuBench) -> None:
    """An optimizer's step: the new weight, and the states where they lie."""
    states = case.op.mutated_inputs(case.params)
    blank = np.full_like(case.inputs[0], 77)
    found = bench.run(plan, case.inputs, [blank], None, case.params.scalars, states)
    for x, y in zip(found, case.reference([x.astype(np.float64) for x in case.inputs]), strict=True):
        np.testing.assert_allclose(x, y, rtol=2e-4, atol=1e-5, err_msg=case.describe())
