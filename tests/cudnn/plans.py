# SPDX-License-Identifier: Apache-2.0
"""cuDNN itself has a plan for every convolution of the model zoo, forward and backward: `nox -s cudnn`.

No GPU is needed and nothing is run: `h200.json` describes one, in cuDNN's words. Its numbers are those of an H200's
data sheet, not read from one.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

import mx
from mx_core import dtypes, operators
from mx_core.context import gpu
from mx_core.errors import NoKernelError
from mx_core.kernels import KernelCall, TensorSpec
from mx_core.operator.infer import infer_shapes
from mx_gluon.model_zoo import vision
from mx_operators_cuda import convolution, cudnn, dnn

GPU = (Path(__file__).parent / "h200.json").read_text()
BATCH = 32
#: parameters of the operator and shape of the data
Layer = tuple[tuple[tuple[str, str], ...], tuple[int, ...]]


def layers_of(name: str) -> set[Layer]:
    """The convolutions of a network of the zoo."""
    size = 299 if name == "inceptionv3" else 224
    symbol = vision.get_model(name)(mx.sym.Variable("data"))
    internals = symbol.get_internals()
    _, shapes, _ = internals.infer_shape(data=(BATCH, 3, size, size))
    shape_of = dict(zip(internals.list_outputs(), shapes, strict=True))
    nodes = json.loads(symbol.tojson())["nodes"]
    found = set()
    for node in nodes:
        if node["op"] == "Convolution":
            source = nodes[node["inputs"][0][0]]
            data = shape_of[source["name"] if source["op"] == "null" else f"{source['name']}_output"]
            params = {k: v for k, v in node["attrs"].items() if not k.startswith("__")}
            found.add((tuple(sorted(params.items())), tuple(data)))
    return found


@cache
def layers() -> tuple[Layer, ...]:
    """Those of all networks, each once."""
    return tuple(sorted(set().union(*map(layers_of, vision._MODELS))))


def channels_last(layer: Layer) -> Layer:
    """The same layer on (N, H, W, C)."""
    params, (n, c, *space) = layer
    return tuple(sorted({**dict(params), "layout": "NHWC"}.items())), (n, *space, c)


def signatures(layer: Layer, code: int) -> list[dnn.Signature]:
    """What cuDNN is asked for: the layer, and the gradients of its data and weights."""
    op = operators.get("Convolution")
    given, data = layer
    p: Any = op.Param.parse(dict(given))
    x, w, *bias, y = _specs(op, p, data, code)
    forward = KernelCall(op, p, (x, w, *bias), (y,), gpu(0))
    backward = KernelCall(op.backward_operator(), p, (y, x, w), (x, w, *bias), gpu(0))
    made = []
    for call, work in (
        (forward, convolution.convolution_work(forward)),
        (backward, convolution.backward_convolution_work(backward)),
    ):
        assert work is not None
        made += dnn.signatures(call, work)
    return made


def _specs(op: Any, p: Any, data: tuple[int, ...], code: int) -> list[TensorSpec]:
    """The inputs and the output."""
    shapes = infer_shapes(op, p, [data, *[None] * (len(op.inputs(p)) - 1)])
    return [TensorSpec(tuple(shape), code) for shape in chain(*shapes) if shape is not None]


@pytest.fixture(scope="module", autouse=True)
def version() -> str:
    """That of cuDNN, which must be there."""
    return cudnn.load()[1]


def test_the_zoo_has_its_convolutions() -> None:
    assert len(vision._MODELS) == 34
    assert len(layers()) > 300
    widths = {dict(params).get("num_group", "1") for params, _ in layers()}
    assert len(widths) > 10  # depthwise ones of MobileNet


@pytest.mark.timeout(3000)
@pytest.mark.parametrize("last", [False, True], ids=["NCHW", "NHWC"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_plans(dtype: str, last: bool) -> None:
    """Results that are written; those without a bias are added, too."""
    missing, made, most = [], 0, 0
    for layer in layers():
        for signature in signatures(channels_last(layer) if last else layer, dtypes.code(dtype)):
            for add in (False, True) if not signature.bias else (False,):
                try:
                    plan = replace(signature, add=add).plan(None, GPU)
                except NoKernelError as error:
                    missing.append(f"{signature} add={add}: {error}")
                    continue
                made += 1
                most = max(most, plan.workspace)
    print(
        f"\n{dtype} {'NHWC' if last else 'NCHW'}: {made} plans, {len(missing)} missing, workspace at most {most >> 20} MiB"
    )
    print("\n".join(missing))
    assert not missing
