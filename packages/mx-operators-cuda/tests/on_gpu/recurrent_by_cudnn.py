# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers by cuDNN, real or the stand-in, against the operator's reference; see `plans.py`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mx_core import dtypes, kernels
from mx_core.testing.case import Case, make_case
from mx_operators_cuda import cudnn
from testkit.device_memory import GpuBench
from testkit.fake_cudnn_log import REFUSED, told, told_all
from testkit.gpu_kernels import ADD, FAKE, NULL, RTOL, WRITE

pytestmark = pytest.mark.skipif(not cudnn.installed(), reason="cuDNN is not installed")

#: further parameters, and extents of data (T, N, I)
STACKS: list[tuple[dict[str, Any], tuple[int, int, int]]] = [
    ({"num_layers": 2, "bidirectional": True, "state_outputs": True}, (4, 3, 8)),
    ({"num_layers": 1}, (1, 2, 3)),
    ({"num_layers": 3, "state_outputs": True}, (3, 4, 4)),
]
MODES = ("lstm", "gru", "rnn_tanh", "rnn_relu")
UNITS = 4


@pytest.fixture(scope="module")
def bench() -> GpuBench:
    return GpuBench()


def given(mode: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"state_size": UNITS, "mode": mode, **params}


def prepared(case: Case, bench: GpuBench) -> Any:
    return kernels.prepare(case.op, case.params, case.specs, case.outputs, bench.context, case.is_train)


def outputs_of(case: Case) -> list[np.ndarray]:
    """Threes, of which a request to add leaves what it adds to."""
    return [np.full(spec.shape, 3, dtypes.numpy_dtype(spec.dtype)) for spec in case.outputs]


def close(found: np.ndarray, wanted: Any, dtype: str) -> None:
    np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=RTOL[dtype], atol=RTOL[dtype])


def gradient(params: dict[str, Any], shape: tuple[int, int, int], dtype: str) -> tuple[Case, list[Any]]:
    """A case of the gradient, whose reserve is NaN, and the gradients in float64."""
    case = make_case("RNN", params, [shape], dtype=dtype)
    wide = [x.astype(np.float64) for x in case.inputs]
    known: dict[str, Any] = dict(zip(case.op.inputs(case.params), wide, strict=True))
    known |= dict(zip(case.op.outputs(case.params), case.reference(wide), strict=True))
    if "reserve" in known:
        known["reserve"] = np.full_like(known["reserve"], np.nan)
    rng = np.random.default_rng(0)
    back = case.op.backward_operator()
    assert back is not None
    inputs = []
    for name in back.inputs(case.params):
        of = "output" if name == "out_grad" else name.removesuffix("_grad")
        inputs.append(known[name] if name in known else rng.uniform(-1, 1, size=known[of].shape))
    made = make_case(back.name, params, inputs, dtype=dtype)
    return made, [
        np.asarray(y, np.float64) for y in made.reference([x.astype(np.float64) for x in made.inputs])
    ]


CASES = [("lstm", "float32"), ("gru", "float32")] if FAKE else [
    *((mode, "float32") for mode in MODES), ("lstm", "float16"), ("gru", "bfloat16")]  # fmt: skip


if not REFUSED:

    @pytest.mark.parametrize(("mode", "dtype"), CASES)
    def test_layers(mode: str, dtype: str, bench: GpuBench) -> None:
        for params, shape in STACKS:
            case = make_case("RNN", given(mode, params), [shape], dtype=dtype)
            made = prepared(case, bench)
            assert made.variant == "cudnn"
            before = outputs_of(case)
            wanted = case.reference([x.astype(np.float64) for x in case.inputs])
            shown = len(case.inputs) - 1 if params.get("state_outputs") else 1
            for request in (WRITE, ADD):
                found = bench.run(
                    made.plan, case.inputs, before, [request] * len(before), case.params.scalars, []
                )
                for y, expected in zip(found[:shown], wanted[:shown], strict=True):
                    close(y, expected + (3 if request == ADD else 0), dtype)

    @pytest.mark.parametrize(("mode", "dtype"), CASES)
    def test_gradients(mode: str, dtype: str, bench: GpuBench) -> None:
        """What is added, or not all in one way, is our own kernels': they do not read the reserve either."""
        for params, shape in STACKS:
            case, wanted = gradient(given(mode, params), shape, dtype)
            made = prepared(case, bench)
            assert made.variant == "cudnn"
            before, n = outputs_of(case), len(case.outputs)
            for requests in ([WRITE] * n, [NULL, WRITE] + [NULL] * (n - 2), [WRITE, NULL] + [WRITE] * (n - 2),
                             [NULL, ADD] + [WRITE] * (n - 2)):  # fmt: skip
                found = bench.run(made.plan, case.inputs, before, requests, case.params.scalars, [])
                for y, expected, request in zip(found, wanted, requests, strict=True):
                    close(y, 3 if request == NULL else expected + (3 if request == ADD else 0), dtype)


@told_all
def test_arguments(bench: GpuBench) -> None:
    """Extents; which requests cuDNN serves."""
    told()
    params = given("lstm", {"num_layers": 2, "bidirectional": True, "state_outputs": True})
    case = make_case("RNN", params, [(4, 3, 8)], dtype="float32")
    made, what = prepared(case, bench), "lstm float32 x=4,3,8 units=4 layers=2 both math=3"
    n = len(case.outputs)
    for requests, runs in (
        ([WRITE] * n, [what]), ([WRITE, NULL, NULL, WRITE], [what]), ([NULL, NULL, WRITE, WRITE], [what]),
        ([ADD] * n, []), ([WRITE, ADD, WRITE, WRITE], []),
    ):  # fmt: skip
        bench.run(made.plan, case.inputs, outputs_of(case), requests, case.params.scalars, [])
        assert told() == runs
    case, _ = gradient(params, (4, 3, 8), "float32")
    made, n = prepared(case, bench), len(case.outputs)
    both = [f"training of {what}", f"gradient of {what}"]
    for requests, runs in (
        ([WRITE] * n, [*both, f"parameters of {what}"]), ([NULL, WRITE, NULL, NULL], [*both, f"parameters of {what}"]),
        ([WRITE, NULL, WRITE, NULL], both), ([WRITE, ADD, WRITE, WRITE], []),
    ):  # fmt: skip
        bench.run(made.plan, case.inputs, outputs_of(case), requests, case.params.scalars, [])
        assert told() == runs


def test_what_our_own_kernels_serve(bench: GpuBench) -> None:
    def variant(params: dict[str, Any], dtype: str = "float32", is_train: bool = True) -> str:
        case = make_case("RNN", given("lstm", params), [(2, 3, 4)], dtype=dtype, is_train=is_train)
        return str(prepared(case, bench).variant)

    assert variant({"num_layers": 1, "p": 0.5}) == (
        "cublas" if REFUSED else "cudnn"
    )  # there is nothing to drop
    assert (
        variant({"num_layers": 2, "p": 0.5})
        == variant({"num_layers": 2, "p": 0.5}, is_train=False)
        == "cublas"
    )
    assert variant({"num_layers": 1}, "float64") == "cublas"
