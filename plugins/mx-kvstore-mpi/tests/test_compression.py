# SPDX-License-Identifier: Apache-2.0
"""Gradients that are exchanged as codes: bit by bit what the algorithm gives on each worker."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.long

PROGRAM = """
import numpy as np
import mx

def model(gradient, residual, threshold):
    residual += gradient
    sent = np.where(residual >= threshold, threshold, np.where(residual <= -threshold, -threshold, 0)).astype("float32")
    residual -= sent
    return sent

store = mx.kv.create("dist_device_sync")
store.set_gradient_compression({"type": "2bit", "threshold": 0.5})
shapes = {"a": (3, 7), "b": (1500,)}
residuals = {key: [np.zeros(shape, "float32") for _ in range(store.num_workers)] for key, shape in shapes.items()}
for key, shape in shapes.items():
    store.init(key, mx.nd.zeros(shape))
for turn in range(5):
    for key, shape in shapes.items():
        gradients = [np.random.default_rng((turn, r)).standard_normal(shape).astype("float32")
                     for r in range(store.num_workers)]
        out = mx.nd.zeros(shape)
        store.pushpull(key, mx.nd.array(gradients[store.rank]), out=out)
        expected = sum(model(g, r, np.float32(0.5)) for g, r in zip(gradients, residuals[key]))
        assert (out.asnumpy() == expected).all(), (turn, key)
store.init("c", mx.nd.zeros((2,), dtype="float64"))
try:
    store.push("c", mx.nd.ones((2,), dtype="float64"))
except mx.MXNetError as error:
    assert "key 'c': gradients of float32 are compressed, got float64" in str(error), error
else:
    raise AssertionError("no error")
store.barrier()
print("same bits", store.rank)
"""


@pytest.mark.parametrize(
    ("servers", "memory"), [("0", "1"), ("2", "1"), pytest.param("0", "0", marks=pytest.mark.slow)]
)
def test_sums_are_those_of_the_codes(start: Any, servers: str, memory: str) -> None:
    more = {
        "MXNET_KVSTORE_BIGARRAY_BOUND": "1000", "MXNET_KVSTORE_SLICE_THRESHOLD": "100", "MX_KVSTORE_SHARED_MEMORY": memory
    }  # fmt: skip
    job = start(PROGRAM, 2, "-s", servers, **more)
    assert job.wait() == 0, job.text
    job.wait_for("same bits", 2)


DIFFER = """
import mx

store = mx.kv.create("dist_sync")
store.init("a", mx.nd.zeros((4,)))
out = mx.nd.zeros((4,))
try:
    if CASE == "thresholds":
        store.set_gradient_compression({"type": "2bit", "threshold": 0.1 + store.rank})
    elif CASE == "kinds":
        store.set_gradient_compression({"type": f"{store.rank + 1}bit", "threshold": 0.5})
    elif store.rank == 0:
        store.set_gradient_compression({"type": "1bit", "threshold": -0.5})
    store.push("a", mx.nd.full((4,), 2.0))
    store.pull("a", out=out)
    out.wait_to_read()
except mx.MXNetError as error:
    print("refused", store.rank, type(error).__name__, error)
else:
    raise AssertionError(f"no error: {out}")
"""


@pytest.mark.parametrize(
    ("case", "servers", "first", "second"),
    [
        pytest.param(
            "thresholds", "0", "2bit with threshold 0.1", "2bit with threshold 1.1", marks=pytest.mark.slow
        ),
        pytest.param(
            "kinds", "0", "1bit with threshold 0.5", "2bit with threshold 0.5", marks=pytest.mark.slow
        ),
        ("one", "0", "none", "1bit with threshold -0.5"),
        pytest.param(
            "thresholds", "1", "2bit with threshold 0.1", "2bit with threshold 1.1", marks=pytest.mark.slow
        ),
        ("one", "1", "none", "1bit with threshold -0.5"),
    ],
)
def test_workers_that_compress_differently_are_refused(
    start: Any, case: str, servers: str, first: str, second: str
) -> None:
    job = start(f"CASE = {case!r}\n{DIFFER}", 2, "-s", servers)
    found = job.wait_for(r"refused (\d) ProtocolError (.*)", 2, 40.0)
    job.wait(40)
    assert {rank for rank, _ in found} == {"0", "1"}
    for _, message in found:
        assert "compress" in message and first in message and second in message, message
