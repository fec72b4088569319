# SPDX-License-Identifier: Apache-2.0
"""Products of multi-head attention against their references, with gradients and in all types."""

import layer_plans
import numpy as np
import pytest
from ml_dtypes import bfloat16

EXTENTS = [(5, 2, 3, 4, 7), (1, 1, 1, 1, 1), (33, 2, 4, 16, 20)]  # L, N, H, D, Q
TOLERANCES = {
    np.float32: {"rtol": 1e-4, "atol": 1e-4},
    np.float64: {"rtol": 1e-12, "atol": 1e-12},
    bfloat16: {"rtol": 0.05, "atol": 0.1},
}


def _arrays(rng: np.random.Generator, dtype: type, *shapes: tuple[int, ...]) -> list[np.ndarray]:
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("extents", EXTENTS)
def test_self_attention(rng: np.random.Generator, dtype: type, extents: tuple[int, ...]) -> None:
    length, batch, heads, size, _ = extents
    x, attention = _arrays(rng, dtype, (length, batch, heads * 3 * size), (batch * heads, length, length))
    tolerance = TOLERANCES[dtype]
    prefix = "_contrib_interleaved_matmul_selfatt"
    layer_plans.verify(f"{prefix}_qk", {"heads": heads}, [x], **tolerance)
    layer_plans.verify(f"{prefix}_valatt", {"heads": heads}, [x, attention], **tolerance)


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("extents", EXTENTS)
def test_cross_attention(rng: np.random.Generator, dtype: type, extents: tuple[int, ...]) -> None:
    length, batch, heads, size, queries = extents
    q, kv, attention = _arrays(
        rng, dtype, (queries, batch, heads * size), (length, batch, heads * 2 * size),
        (batch * heads, queries, length),
    )  # fmt: skip
    tolerance = TOLERANCES[dtype]
    prefix = "_contrib_interleaved_matmul_encdec"
    layer_plans.verify(f"{prefix}_qk", {"heads": heads}, [q, kv], **tolerance)
    layer_plans.verify(f"{prefix}_valatt", {"heads": heads}, [kv, attention], **tolerance)
