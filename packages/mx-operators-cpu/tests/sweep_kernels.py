# SPDX-License-Identifier: Apache-2.0
"""Random calls of the kernels that the framework chooses, judged by float64 references.

    python sweep_kernels.py SEED COUNT

Prints the number of results, and each wrong one. The instruction set is that of the process: see
ONEDNN_MAX_CPU_ISA and MX_VECTOR_ISA.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from mx_core import _native, dtypes, operators
from mx_core.context import cpu
from mx_core.kernels import TensorSpec, prepare
from mx_core.operator import ReferenceContext, gradient_of, infer_shapes, infer_types

#: of the largest result: a rounding of the result, and what sums in float32 lose
TOLERANCE = {"float64": 1e-11, "float32": 2e-5, "bfloat16": 8e-3, "float16": 2e-3}
#: outputs that are computed for backward, and of which type
_FLOATS = ("float64", "float32", "bfloat16", "float16")


def _specs(arrays: Sequence[np.ndarray]) -> list[TensorSpec]:
    return [TensorSpec(a.shape, dtypes.code(a.dtype)) for a in arrays]


def _buffers(arrays: Sequence[np.ndarray]) -> list[Any]:
    return [(a.view(np.uint16), dtypes.code(a.dtype)) if a.dtype.kind == "V" else a for a in arrays]


def _judged(
    op: Any, p: Any, inputs: Sequence[np.ndarray], tolerance: float, wrong: list[str]
) -> list[np.ndarray]:
    """Runs the kernel, compares it with the reference of the same numbers in float64, gives its outputs."""
    context = ReferenceContext(True, p.scalars)
    shapes = infer_shapes(op, p, [x.shape for x in inputs])[1]
    types = infer_types(op, p, [dtypes.code(x.dtype) for x in inputs])[1]
    outputs = [np.full(s, 7, dtypes.numpy_dtype(t)) for s, t in zip(shapes, types, strict=True)]
    made = prepare(op, p, _specs(inputs), _specs(outputs), cpu(), True)
    want = op.reference(p, [x.astype(np.float64) for x in inputs], context)
    if made.plan is None:
        wrong.append(f"{op.name} {inputs[0].dtype}: only a reference computes it")
        return [np.asarray(w).astype(o.dtype) for w, o in zip(want, outputs, strict=False)]
    _native.run_plan(
        made.plan,
        _buffers(inputs),
        _buffers(outputs),
        [1] * len(outputs),
        is_train=True,
        scalars=p.scalars,
        threads=2,
    )
    for name, got, exact in zip(op.outputs(p), outputs, want, strict=False):
        scale = max(1e-3, float(np.abs(exact).max(initial=0)))
        error = float(np.abs(got.astype(np.float64) - exact).max(initial=0)) / scale
        if not error <= tolerance:
            wrong.append(
                f"{op.name} {name} {made.variant} {p} {[(x.shape, x.dtype.name) for x in inputs]}: {error:.2g}"
            )
    return outputs


def judge(
    name: str, attrs: dict[str, Any], inputs: Sequence[np.ndarray], rng: np.random.Generator, wrong: list[str]
) -> int:
    """Judges an operator and its gradients; gives the number of calls."""
    op = operators.get(name)
    p = op.Param.parse(attrs, op=name)
    tolerance = TOLERANCE[inputs[0].dtype.name]
    outputs = _judged(op, p, inputs, tolerance, wrong)
    heads = [rng.uniform(-1, 1, o.shape).astype(o.dtype) for o in outputs]
    arrays = {"out_grad": heads, "input": inputs, "output": outputs}
    nodes = [n for n in gradient_of(op, p).nodes if n.op.startswith("_backward")]
    calls = 1
    for node in nodes:
        if all(e.kind in arrays for e in node.inputs):
            backward = operators.get(node.op)
            _judged(
                backward, node.params, [arrays[e.kind][e.index] for e in node.inputs], 2 * tolerance, wrong
            )
            calls += 1
    return calls


def windows(rng: np.random.Generator, dtype: Any) -> tuple[str, dict[str, Any], list[np.ndarray]] | None:
    """A convolution or deconvolution in one to three dimensions, with unusual windows as often as usual ones."""
    rank, transposed = int(rng.integers(1, 4)), bool(rng.random() < 0.3)
    kernel, stride = rng.integers(1, 6, rank), rng.integers(1, 4 if rng.random() < 0.6 else 9, rank)
    if rng.random() < 0.3:
        stride = kernel
    pad, dilate = rng.integers(0, 4, rank), rng.integers(1, 3 if rng.random() < 0.3 else 2, rank)
    groups = int(rng.choice([1, 1, 1, 2, 16]))
    channels, filters = (int(rng.choice([1, 2, 3, 8, 16, 17, 32, 48])) * groups for _ in range(2))
    last = rank > 1 and not transposed and rng.random() < 0.3
    if groups == 16:
        channels = filters = 16
    sizes = rng.integers(1, {1: 40, 2: 16, 3: 7}[rank], rank)
    extent = (kernel - 1) * dilate + 1
    small = (sizes - 1) * stride + extent - 2 * pad if transposed else sizes + 2 * pad - extent + 1
    if (small < 1).any() or np.prod(sizes) * np.prod(kernel) * channels * filters // groups > 3e6:
        return None
    data = (
        (int(rng.integers(1, 4)), *sizes, channels) if last else (int(rng.integers(1, 4)), channels, *sizes)
    )
    if transposed:
        weight = (channels, filters // groups, *kernel)
    else:
        weight = (filters, *kernel, channels // groups) if last else (filters, channels // groups, *kernel)
    attrs: dict[str, Any] = {
        "kernel": tuple(map(int, kernel)), "stride": tuple(map(int, stride)), "pad": tuple(map(int, pad)),
        "dilate": tuple(map(int, dilate)), "num_filter": filters, "num_group": groups,
        "no_bias": bool(rng.random() < 0.5), **({"layout": {2: "NHWC", 3: "NDHWC"}[rank]} if last else {}),
    }  # fmt: skip
    shapes = [data, weight] + ([] if attrs["no_bias"] else [(filters,)])
    arrays = [rng.uniform(-1, 1, [int(e) for e in s]).astype(dtype) for s in shapes]
    return "Deconvolution" if transposed else "Convolution", attrs, arrays


def others(rng: np.random.Generator, dtype: Any) -> tuple[str, dict[str, Any], list[np.ndarray]]:
    """Products, normalisations, poolings, indexing, functions of elements, reductions."""
    n, c, h = (int(v) for v in rng.integers(1, 70, 3))

    def draw(*shape: int) -> np.ndarray:
        return rng.uniform(-1, 1, shape).astype(dtype)

    several: list[tuple[str, dict[str, Any], list[np.ndarray]]] = [
        ("FullyConnected", {"num_hidden": h}, [draw(n, c), draw(h, c), draw(h)]),
        ("dot", {}, [draw(n, c), draw(c, h)]),
        ("dot", {"transpose_b": True}, [draw(n, c), draw(h, c)]),
        ("LayerNorm", {}, [draw(n, c + 1) + dtype(3), np.ones(c + 1, dtype), draw(c + 1)]),
        ("GroupNorm", {"num_groups": 2}, [draw(2, 2 * (c % 9 + 1), h + 1), np.ones(2, dtype), draw(2)]),
        (
            "Pooling",
            {"kernel": (3, 2), "pool_type": "avg", "stride": (2, 1)},
            [draw(2, n, c % 20 + 3, h % 20 + 2)],
        ),
        (
            "Pooling",
            {"kernel": (3, 3), "pool_type": "sum", "pad": (1, 1)},
            [draw(2, n, c % 20 + 3, h % 20 + 3)],
        ),
        ("softmax", {}, [draw(n, c)]),
        ("log_softmax", {"axis": 1}, [draw(n, c, h)]),
        ("take", {}, [draw(n, c), rng.integers(0, n, h).astype(np.float32)]),
        ("tanh", {}, [draw(n, c)]),
        ("sigmoid", {}, [draw(n, c)]),
        ("broadcast_mul", {}, [draw(n, c), draw(1, c)]),
        ("sum", {"axis": (int(rng.integers(0, 2)),)}, [draw(n, c, 3)]),
        ("mean", {}, [draw(n, c)]),
    ]
    return several[int(rng.integers(len(several)))]


def main(seed: int, count: int) -> None:
    """Prints what was judged."""
    rng, wrong, calls, done = np.random.default_rng(seed), [], 0, 0
    while done < count:
        dtype = dtypes.numpy_dtype(dtypes.code(str(rng.choice(_FLOATS)))).type
        case = windows(rng, dtype) if rng.random() < 0.6 else others(rng, dtype)
        if case is not None:
            calls += judge(*case, rng, wrong)
            done += 1
    print(f"{calls} results, {len(wrong)} wrong", *wrong, sep="\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
