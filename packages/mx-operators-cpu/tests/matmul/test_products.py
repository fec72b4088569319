# SPDX-License-Identifier: Apache-2.0
"""Products of a matrix and its transpose, batches of any size; arrays brought to one type."""

from __future__ import annotations

import numpy as np
import pytest
from plans import array, verify


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("shape", [(7, 5), (3, 4, 33), (2, 2, 1, 6)])
@pytest.mark.parametrize("transpose", [True, False])
def test_syrk(shape: tuple[int, ...], transpose: bool, dtype: str, rng: np.random.Generator) -> None:
    rtol = {"float32": 1e-5, "float64": 1e-12, "float16": 4e-3, "bfloat16": 4e-2}[dtype]
    attrs = {"transpose": transpose, "alpha": 0.7}
    verify("_linalg_syrk", attrs, [array(rng, shape, dtype)], rtol=rtol, threads=2)


@pytest.mark.parametrize("narrow", [True, False])
def test_one_type(narrow: bool, rng: np.random.Generator) -> None:
    shapes = ((3, 4), (0,), (1000,), (5,))
    types = ("float32", "float16", "float16", "int32")
    arrays = [array(rng, shape, dtype) for shape, dtype in zip(shapes, types, strict=True)]
    verify("amp_multicast", {"num_outputs": 4, "cast_narrow": narrow}, arrays)
    verify("_rnn_param_concat", {"num_args": 2, "dim": 0}, [arrays[0].reshape(-1), arrays[0][0]])
