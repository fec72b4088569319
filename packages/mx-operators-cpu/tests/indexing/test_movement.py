# SPDX-License-Identifier: Apache-2.0
"""Copies between views equal NumPy's."""

from __future__ import annotations

import numpy as np
import pytest
from plans import FLOATS, INTEGERS, array, verify

CASES = [
    ("Reshape", {"shape": (6, -1)}, (2, 3, 5)),
    ("Flatten", {}, (2, 3, 5)),
    ("expand_dims", {"axis": 1}, (4, 3)),
    ("squeeze", {}, (4, 1, 3)),
    ("transpose", {}, (3, 5)),
    ("transpose", {}, (37, 91)),
    ("transpose", {"axes": (2, 0, 1)}, (3, 4, 5)),
    ("transpose", {"axes": (0, 2, 3, 1)}, (2, 17, 6, 7)),
    ("transpose", {"axes": (0, 2, 1)}, (2, 133, 75)),
    ("transpose", {"axes": (0, 2, 3, 1)}, (2, 3, 6, 7)),
    ("transpose", {"axes": (1, 0)}, (0, 3)),
    ("SwapAxis", {"dim1": 0, "dim2": 2}, (3, 4, 5)),
    ("reverse", {"axis": (0, 2)}, (3, 4, 5)),
    ("reverse", {"axis": (1,)}, (3, 0)),
    ("depth_to_space", {"block_size": 2}, (2, 8, 3, 5)),
    ("space_to_depth", {"block_size": 2}, (2, 3, 4, 6)),
    ("broadcast_to", {"shape": (4, 3, 5)}, (1, 3, 1)),
    ("broadcast_axis", {"axis": (1,), "size": (7,)}, (3, 1, 2)),
    ("repeat", {"repeats": 3}, (2, 4)),
    ("repeat", {"repeats": 2, "axis": 1}, (2, 4, 3)),
    ("tile", {"reps": (2, 3)}, (2, 4)),
    ("tile", {"reps": (2, 1, 3)}, (4,)),
    ("slice", {"begin": (1, None), "end": (None, 4), "step": (1, 2)}, (4, 5, 3)),
    ("slice", {"begin": (None, 4), "end": (None, None), "step": (-1, -2)}, (4, 5)),
    ("slice_axis", {"axis": -1, "begin": 1, "end": -1}, (4, 5)),
    ("Pad", {"mode": "constant", "pad_width": (0, 0, 0, 0, 1, 2, 3, 0), "constant_value": 2.0}, (1, 2, 3, 4)),
    ("Pad", {"mode": "edge", "pad_width": (0, 0, 0, 0, 1, 2, 3, 1)}, (1, 2, 3, 4)),
    ("Pad", {"mode": "reflect", "pad_width": (0, 0, 0, 0, 1, 2, 3, 1)}, (1, 2, 3, 4)),
    ("Pad", {"mode": "reflect", "pad_width": (0, 0, 0, 0, 4, 3, 3, 5)}, (5, 30, 40, 67)),
    ("Pad", {"mode": "edge", "pad_width": (0, 0, 0, 0, 0, 3, 1, 0)}, (5, 30, 40, 67)),
    ("Pad", {"mode": "constant", "pad_width": (0, 0, 0, 0, 0, 0, 0, 0, 1, 1)}, (2, 3, 4, 5, 6)),
]


@pytest.mark.parametrize(("name", "attrs", "shape"), CASES)
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "int64"])
def test_one_input(
    name: str, attrs: dict[str, object], shape: tuple[int, ...], dtype: str, rng: np.random.Generator
) -> None:
    verify(name, attrs, [array(rng, shape, dtype)])


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, "bool"])
def test_every_type(dtype: str, rng: np.random.Generator) -> None:
    verify("transpose", {}, [array(rng, (5, 7), dtype)])


def test_joins_and_splits(rng: np.random.Generator) -> None:
    parts = [array(rng, (2, n, 3)) for n in (1, 4, 2)]
    verify("Concat", {"num_args": 3, "dim": 1}, parts)
    verify("_backward_Concat", {"num_args": 3, "dim": 1}, [array(rng, (2, 7, 3)), *parts])
    verify("stack", {"num_args": 2, "axis": 1}, [array(rng, (2, 3)), array(rng, (2, 3))])
    verify("stack", {"num_args": 2, "axis": -1}, [array(rng, (2, 3)), array(rng, (2, 3))])
    verify("SliceChannel", {"num_outputs": 3, "axis": 1}, [array(rng, (2, 6, 3))])
    verify("SliceChannel", {"num_outputs": 3, "axis": 0, "squeeze_axis": True}, [array(rng, (3, 4))])
    verify("_split_v2", {"indices": (0, 2, 5), "axis": 1}, [array(rng, (2, 6))])
    verify("_split_v2", {"indices": (-9, -2), "axis": 1}, [array(rng, (2, 6))])


def test_gradients(rng: np.random.Generator) -> None:
    bounds = {"begin": (1, None), "end": (None, 4), "step": (1, 2)}
    verify("_backward_slice", bounds, [array(rng, (3, 2, 3)), array(rng, (4, 5, 3))])
    verify(
        "_backward_slice_axis", {"axis": 1, "begin": 1, "end": 3}, [array(rng, (4, 2)), array(rng, (4, 5))]
    )
    verify("_backward_slice_like", {}, [array(rng, (2, 3)), array(rng, (4, 5))])
    verify("_slice_assign", bounds, [array(rng, (4, 5, 3)), array(rng, (3, 2, 3))])
    verify("slice_like", {}, [array(rng, (4, 5)), array(rng, (2, 3))])
    verify("_backward_sum", {"axis": (0, 2)}, [array(rng, (4,)), array(rng, (3, 4, 5))])
    width = (0, 0, 0, 0, 1, 2)
    verify(
        "_backward_Pad",
        {"mode": "constant", "pad_width": width},
        [array(rng, (1, 2, 6)), array(rng, (1, 2, 3))],
    )


def test_constants() -> None:
    verify("_zeros", {"shape": (3, 4)}, [])
    verify("_ones", {"shape": (3,), "dtype": "float16"}, [])
    verify("_full", {"shape": (2, 2), "value": 2.75, "dtype": "int32"}, [])


@pytest.mark.parametrize("threads", [1, 2])
def test_large_arrays_use_threads(threads: int, rng: np.random.Generator) -> None:
    verify("transpose", {}, [array(rng, (700, 900))], threads=threads)
    verify(
        "Concat", {"num_args": 2, "dim": 0}, [array(rng, (300, 500)), array(rng, (200, 500))], threads=threads
    )
