# SPDX-License-Identifier: Apache-2.0
"""cuDNN itself has plans for batch norms, convolutions with what follows them, layer norms, attention: `nox -s cudnn`.

As in `plans.py` no GPU is needed. cuDNN compiles these kernels when it plans them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import mx
from mx_core import dtypes, operators
from mx_core.context import gpu
from mx_core.errors import NoKernelError
from mx_core.kernels import KernelCall, TensorSpec
from mx_core.operator.infer import infer_shapes, infer_types
from mx_gluon.model_zoo import vision
from mx_operators_cuda import cudnn, dnn, dnn_attention, dnn_norms
from mx_operators_cuda.convolution import Result, Shape

HERE = Path(__file__).parent
GPU = (HERE / "h200.json").read_text()
BATCH = 32
NETWORKS = ("resnet18_v1", "resnet50_v2")
#: widths of Transformers, from the first one to BERT's and GPT-2's, and rows: 8 sequences of 512 words
WIDTHS, ROWS = (512, 768, 1024, 1600), 8 * 512


@pytest.fixture(scope="module", autouse=True)
def version(driver: None) -> str:
    """That of cuDNN, which must be there."""
    return cudnn.load()[1]


def batch_norms() -> list[tuple[int, ...]]:
    """Shapes of data in the networks, with the channels last, each once."""
    found = set()
    for name in NETWORKS:
        internals = vision.get_model(name)(mx.sym.Variable("data")).get_internals()
        _, shapes, _ = internals.infer_shape(data=(BATCH, 3, 224, 224))
        shape_of = dict(zip(internals.list_outputs(), shapes, strict=True))
        nodes = json.loads(internals.tojson())["nodes"]
        for node in nodes:
            if node["op"] == "BatchNorm":
                source = nodes[node["inputs"][0][0]]
                n, c, *space = shape_of[
                    source["name"] if source["op"] == "null" else f"{source['name']}_output"
                ]
                found.add((n, *space, c))
    return sorted(found)


def signatures(
    name: str, params: dict[str, Any], shape: tuple[int, ...], dtype: str
) -> list[dnn_norms.Signature]:
    """What cuDNN is asked for: the layer in training, and its gradient."""
    op: Any = operators.get(name)
    p: Any = op.Param.parse({k: str(v) for k, v in params.items()})
    names = [*op.inputs(p), *op.aux(p), *op.outputs(p)]
    n_inputs = len(op.inputs(p)) + len(op.aux(p))
    shapes = [s for part in infer_shapes(op, p, [shape, *[None] * (n_inputs - 1)]) for s in part]
    types = [t for part in infer_types(op, p, [dtypes.code(dtype), *[None] * (n_inputs - 1)]) for t in part]
    known = {n: TensorSpec(tuple(s), t) for n, s, t in zip(names, shapes, types, strict=True)}
    known["out_grad"] = known["output"]
    inputs = [known[n] for n in names[:n_inputs]]
    back = op.backward_operator()
    calls = (
        KernelCall(op, p, tuple(inputs), tuple(known[n] for n in names[n_inputs:]), gpu(0), True),
        KernelCall(back, p, tuple(known[n] for n in back.inputs(p)), tuple(inputs[:3]), gpu(0), True),
    )
    made = [dnn_norms.signature(call) for call in calls]
    assert None not in made
    return [signature for signature in made if signature is not None]


@pytest.mark.timeout(3000)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", ["BatchNorm", "LayerNorm"])
def test_plans(name: str, dtype: str) -> None:
    """Each layer and its gradient; cuDNN has none for 3 channels, which are no multiple of 4."""
    shapes = batch_norms() if name == "BatchNorm" else [(ROWS, width) for width in WIDTHS]
    missing, made, most = [], 0, 0
    for shape in shapes:
        for signature in signatures(name, {"axis": -1, "eps": 1e-5}, shape, dtype):
            try:
                plan = signature.plan(None, GPU)
            except NoKernelError as error:
                missing.append((signature.extents[1], f"{signature}: {error}"))
                continue
            made += 1
            most = max(most, plan.workspace)
    print(f"\n{name} {dtype}: {made} plans of {len(shapes)} shapes, workspace at most {most >> 10} KiB")
    print("\n".join(text for _, text in missing))
    assert {channels for channels, _ in missing} <= {3}


def shapes_of_blocks(last: bool) -> list[Shape]:
    """The second convolutions of the four stages of ResNet-18, and of ResNet-50's bottlenecks."""
    made = []
    for size, channels in ((56, 64), (28, 128), (14, 256), (7, 512)):
        for c, k, side in ((channels, channels, 3), (channels, 4 * channels, 1)):
            image, two = (size, size), (1, 1)
            made.append(
                Shape(BATCH, 1, c, k, image, image, (side, side), two, two, (side // 2, side // 2), last)
            )
    return made


@pytest.mark.timeout(3000)
@pytest.mark.parametrize(("dtype", "last"), [("float16", True), ("bfloat16", True), ("float32", False)])
def test_plans_of_fused_convolutions(dtype: str, last: bool) -> None:
    """bias and relu; with the channels last bias, sum and relu. float32 is multiplied as TensorFloat-32."""
    missing, made, most = [], 0, 0
    for shape in shapes_of_blocks(last):
        for residual in (False, True):
            what = dnn.Signature(
                Result.Y, shape, dtypes.code(dtype), True, False, 1 << 30, True, residual=residual, relu=True
            )
            try:
                plan = what.plan(None, GPU)
            except NoKernelError as error:
                missing.append((residual, f"{what}: {error}"))
                continue
            made += 1
            most = max(most, plan.workspace)
    print(
        f"\nfused convolutions {dtype} {'NHWC' if last else 'NCHW'}: {made} plans, workspace at most {most >> 10} KiB"
    )
    print("\n".join(text for _, text in missing))
    assert {residual for residual, _ in missing} == (set() if last else {True})


#: heads and elements of one: the first Transformer, BERT, GPT-2, and wider heads
HEADS = ((8, 64), (12, 64), (16, 64), (25, 64), (32, 80), (32, 128))
#: rows of the query, and of key and value; the second is no multiple of anything
LENGTHS = ((512, 512), (77, 131), (1, 1000))


@pytest.mark.timeout(3000)
@pytest.mark.parametrize("stage", dnn_attention.Stage, ids=[stage.name for stage in dnn_attention.Stage])
@pytest.mark.parametrize("architecture", [800, 900, 1000])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_plans_of_attention(dtype: str, architecture: int, stage: dnn_attention.Stage) -> None:
    """In inference, in training, and the gradient. The description is that of an H200 but for the architecture."""
    described = json.dumps({**json.loads(GPU), "deviceVer": architecture})
    most, scores = 0, 1.0
    for heads, depth in HEADS:
        for queries, keys in LENGTHS:
            extents = (8, heads, queries, keys, depth, depth)
            what = dnn_attention.Signature(dtypes.code(dtype), extents, depth**-0.5, stage)
            workspace = what.plan(None, described).workspace
            if workspace > most:
                most, scores = workspace, workspace / what.bytes_of_scores
    print(
        f"\nattention {stage.name} {dtype} sm_{architecture // 10}: {len(HEADS) * len(LENGTHS)} plans, "
        f"workspace at most {most} bytes, {scores:.2f} of the scores"
    )
