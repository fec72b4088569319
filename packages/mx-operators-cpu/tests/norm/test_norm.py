# SPDX-License-Identifier: Apache-2.0
"""Normalisations against their references."""

from typing import Any

import layer_plans
import numpy as np
import pytest

from mx_core import dtypes, operators
from mx_core.context import cpu
from mx_core.kernels import TensorSpec, prepare
from mx_core.operator import Operator, gradient_of, infer_shapes, infer_types
from mx_operators_cpu.library import native


def _batch_inputs(rng: np.random.Generator, shape: tuple[int, ...], axis: int) -> list[np.ndarray]:
    n = shape[axis]
    data = 3 + 2 * rng.standard_normal(shape)
    vectors = [rng.standard_normal(n), rng.standard_normal(n), rng.standard_normal(n), rng.uniform(0.5, 2, n)]
    return [a.astype(np.float32) for a in (data, *vectors)]


@pytest.mark.parametrize("is_train", [True, False])
@pytest.mark.parametrize("attrs", [{}, {"fix_gamma": False}, {"fix_gamma": False, "use_global_stats": True}])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((4, 3, 5, 5), 1), ((6, 130), 1), ((3, 5, 70), -1), ((300, 2), 1), ((2, 3, 4), 0), ((2, 4, 1), 1)],
)
def test_batch_norm(
    rng: np.random.Generator, shape: tuple[int, ...], axis: int, attrs: dict, is_train: bool
) -> None:
    layer_plans.verify(
        "BatchNorm", {"axis": axis, **attrs}, _batch_inputs(rng, shape, axis), is_train=is_train
    )


@pytest.mark.long
@pytest.mark.parametrize(("shape", "axis"), [((3, 5, 1031, 207), 1), ((100_003, 33), 1)])
def test_batch_norm_of_what_no_cache_holds(
    rng: np.random.Generator, shape: tuple[int, ...], axis: int
) -> None:
    inputs = _batch_inputs(rng, shape, axis)
    layer_plans.verify("BatchNorm", {"axis": axis, "fix_gamma": False}, inputs, is_train=False)


def test_batch_norm_of_one_device_among_several(rng: np.random.Generator) -> None:
    attrs = {"key": "a", "ndev": 1, "fix_gamma": False}
    layer_plans.verify("_contrib_SyncBatchNorm", attrs, _batch_inputs(rng, (4, 3, 5, 5), 1))


@pytest.mark.parametrize(("shape", "axis"), [((8, 2, 40, 40), 1), ((8, 40, 40, 2), 3), ((5000, 3), 1)])
def test_batch_norm_keeps_precision_far_from_zero(
    rng: np.random.Generator, shape: tuple[int, ...], axis: int
) -> None:
    inputs = _batch_inputs(rng, shape, axis)
    inputs[0] = (1000 + rng.standard_normal(inputs[0].shape)).astype(np.float32)
    layer_plans.verify("BatchNorm", {"axis": axis, "fix_gamma": False}, inputs, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("shape", "axis"),
    [((3, 4), -1), ((2, 3, 4), 1), ((5, 129), -1), ((2, 3, 70), 0), ((1, 9000), -1), ((4, 5, 1), 1)],
)
def test_layer_norm(rng: np.random.Generator, shape: tuple[int, ...], axis: int) -> None:
    n = shape[axis]
    inputs = [
        a.astype(np.float32)
        for a in (rng.standard_normal(shape), rng.standard_normal(n), rng.standard_normal(n))
    ]
    layer_plans.verify("LayerNorm", {"axis": axis, "eps": 1e-3}, inputs)


@pytest.mark.parametrize("shape", [(2, 6, 4, 5), (1, 6, 3), (3, 6, 70)])
@pytest.mark.parametrize(("name", "groups"), [("InstanceNorm", 6), ("GroupNorm", 1), ("GroupNorm", 3)])
def test_group_norm(rng: np.random.Generator, name: str, groups: int, shape: tuple[int, ...]) -> None:
    inputs = [a.astype(np.float32) for a in map(rng.standard_normal, (shape, groups, groups))]
    layer_plans.verify(name, {"num_groups": groups} if name == "GroupNorm" else {}, inputs)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize(
    ("name", "shape", "parameters"),
    [("LayerNorm", (331, 300), 2), ("GroupNorm", (40, 4, 1500), 2), ("BatchNorm", (5, 8, 3000), 4),
     ("BatchNorm", (3001, 40), 4)],
)  # fmt: skip
def test_any_number_of_threads_gives_the_same_bits(
    rng: np.random.Generator, name: str, shape: tuple[int, ...], parameters: int, dtype: str
) -> None:
    op = operators.get(name)
    p = op.Param.parse({"num_groups": 4} if name == "GroupNorm" else {}, op=name)
    kind = dtypes.numpy_dtype(dtypes.code(dtype))
    types = infer_types(op, p, [dtypes.code(dtype)] + [None] * parameters)
    shapes = infer_shapes(op, p, [shape] + [None] * parameters)
    inputs = [
        (1 + rng.random(s)).astype(dtypes.numpy_dtype(t)) for s, t in zip(shapes[0], types[0], strict=True)
    ]
    outputs = [np.zeros(s, dtypes.numpy_dtype(t)) for s, t in zip(shapes[1], types[1], strict=True)]
    results = _on_threads(op, p, inputs, outputs)
    arrays = {"out_grad": [rng.standard_normal(shape).astype(kind)], "input": inputs, "output": results}
    (node,) = gradient_of(op, p).nodes
    kept = [arrays[e.kind][e.index] for e in node.inputs]
    backward = operators.get(node.op)
    shapes = infer_shapes(backward, node.params, [x.shape for x in kept])
    types = infer_types(backward, node.params, [dtypes.code(x.dtype) for x in kept])
    grads = [np.zeros(s, dtypes.numpy_dtype(t)) for s, t in zip(shapes[1], types[1], strict=True)]
    _on_threads(backward, node.params, kept, grads)


def _on_threads(
    op: Operator, p: Any, inputs: list[np.ndarray], outputs: list[np.ndarray]
) -> list[np.ndarray]:
    """What a plan gives on one thread; as on others."""
    specs = [[TensorSpec(x.shape, dtypes.code(x.dtype)) for x in arrays] for arrays in (inputs, outputs)]
    made = prepare(op, p, *specs, cpu(), True)
    assert made.plan is not None
    found = []
    for threads in (1, 2, 3, 5):
        given, got = [x.copy() for x in inputs], [x.copy() for x in outputs]
        layer_plans.run(made.plan, given, got, threads=threads, scalars=p.scalars)
        found.append(got)
    for others in found[1:]:
        for a, b in zip(found[0], others, strict=True):
            np.testing.assert_array_equal(a.view(np.uint8), b.view(np.uint8))
    return found[0]


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("float64", 1e-13)])
@pytest.mark.parametrize("shape", [(2, 7, 9, 8), (1, 2, 3), (2, 5)])
@pytest.mark.parametrize(
    "attrs", [{"nsize": 3}, {"nsize": 5, "alpha": 0.5, "beta": 0.6, "knorm": 1}, {"nsize": 1}]
)
def test_lrn(
    rng: np.random.Generator, attrs: dict, shape: tuple[int, ...], dtype: str, tolerance: float
) -> None:
    data = rng.standard_normal(shape).astype(dtype)
    layer_plans.verify("LRN", attrs, [data], rtol=10 * tolerance, atol=tolerance)


@pytest.mark.parametrize("shape", [(), (7,)])
def test_lrn_without_channels_is_left_to_others(shape):
    spec = [(shape, 0)]
    assert native.lrn(spec, spec * 2, size=3, alpha=1.0, beta=0.75, knorm=2.0) is None
    assert native.lrn_backward(spec * 3, spec, size=3, alpha=1.0, beta=0.75, knorm=2.0) is None
    assert (
        native.lrn([((2, 3), 0)], [((2, 3), 0), ((2, 2), 0)], size=3, alpha=1.0, beta=0.75, knorm=2.0) is None
    )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    ("name", "attrs", "shape", "n"),
    [
        ("LayerNorm", {}, (64, 512), 512),
        ("LayerNorm", {"axis": 1}, (8, 64, 32), 64),
        ("GroupNorm", {"num_groups": 2}, (16, 4, 256), 2),
        ("InstanceNorm", {}, (16, 3, 512), 3),
    ],
)
def test_gradients_where_the_mean_is_a_hundred_deviations(
    rng: np.random.Generator, name: str, attrs: dict, shape: tuple[int, ...], n: int, dtype: str
) -> None:
    """Statistics rounded to bfloat16 gave gamma's gradient an error of 47 %."""
    kind = dtypes.numpy_dtype(dtypes.code(dtype))
    data = (rng.normal(size=shape) + 100.3).astype(kind)
    inputs = [data, np.ones(n, kind), np.zeros(n, kind)]
    op = operators.get(name)
    p = op.Param.parse(attrs, op=name)
    specs = [TensorSpec(x.shape, dtypes.code(x.dtype)) for x in inputs]
    shapes = infer_shapes(op, p, [x.shape for x in inputs])[1]
    types = infer_types(op, p, [s.dtype for s in specs])[1]
    assert types == (dtypes.code(dtype), dtypes.code("float32"), dtypes.code("float32"))
    outputs = [np.zeros(s, dtypes.numpy_dtype(t)) for s, t in zip(shapes, types, strict=True)]
    made = prepare(op, p, specs, [TensorSpec(x.shape, dtypes.code(x.dtype)) for x in outputs], cpu(), True)
    layer_plans.run(made.plan, inputs, outputs)
    head = (rng.normal(size=shape) + 0.5).astype(kind)
    node = gradient_of(op, p).nodes[0]
    backward = operators.get(node.op)
    kept = [{"out_grad": [head], "input": inputs, "output": outputs}[e.kind][e.index] for e in node.inputs]
    exact = [head.astype(float), *(x.astype(float) for x in inputs[:2])]
    stats = op.reference(p, [x.astype(float) for x in inputs], None)[1:]
    want = backward.reference(node.params, [*exact, *stats], None)
    grads = [np.zeros(w.shape, kind) for w in want]
    specs = [[TensorSpec(x.shape, dtypes.code(x.dtype)) for x in arrays] for arrays in (kept, grads)]
    layer_plans.run(prepare(backward, node.params, *specs, cpu(), True).plan, kept, grads)
    for got, w in zip(grads, want, strict=True):
        np.testing.assert_allclose(got.astype(float), w, atol=5e-3 * np.abs(w).max(), rtol=0)
