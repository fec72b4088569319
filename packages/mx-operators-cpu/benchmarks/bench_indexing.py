# SPDX-License-Identifier: Apache-2.0
"""Elements chosen, placed, joined, cut, converted and compared, beside PyTorch.

python bench_indexing.py [--threads 2] [--reference] [name ...]
"""

from __future__ import annotations

from collections.abc import Iterator

import ml_dtypes
import numpy as np
from beside import Case, main, torch

ROWS, WIDTH = 50_000, 256


def indexing(rng: np.random.Generator) -> Iterator[Case]:
    """By indices, which are numbers of float32 in MXNet: PyTorch's are int64 from the start."""
    table = rng.standard_normal((ROWS, WIDTH)).astype(np.float32)
    rows = rng.integers(0, ROWS, 20_000)
    picked = rows.astype(np.float32)
    long = torch and torch.from_numpy(rows)
    yield Case("take rows", "take", {}, [table, picked], lambda a, _: a.index_select(0, long))
    columns = rng.integers(0, WIDTH, 128)
    across = torch and torch.from_numpy(columns)
    yield Case("take columns", "take", {"axis": 1}, [table, columns.astype(np.float32)],
               lambda a, _: a.index_select(1, across))  # fmt: skip
    places = np.stack([rows, rng.integers(0, WIDTH, len(rows))])
    pair = torch and tuple(torch.from_numpy(places))
    yield Case("gather_nd", "gather_nd", {}, [table, places.astype(np.float32)], lambda a, _: a[pair])
    values = rng.standard_normal(len(rows)).astype(np.float32)
    yield Case("scatter_nd", "scatter_nd", {"shape": (ROWS, WIDTH)}, [values, places.astype(np.float32)],
               lambda v, _: torch.zeros(ROWS, WIDTH).index_put_(pair, v))  # fmt: skip
    chosen = rng.integers(0, WIDTH, ROWS)
    one = torch and torch.from_numpy(chosen)
    yield Case("pick", "pick", {}, [table, chosen.astype(np.float32)], lambda a, _: a.gather(1, one[:, None]))
    yield Case("one-hot", "one_hot", {"depth": WIDTH}, [chosen.astype(np.float32)],
               lambda _: torch.nn.functional.one_hot(one, WIDTH).float())  # fmt: skip
    yield Case("gradient of take", "_backward_take", {}, [table[:20_000], table, picked],
               lambda g, a, _: torch.zeros_like(a).index_add_(0, long, g))  # fmt: skip
    lengths = rng.integers(1, 128, 64)
    sequences = rng.standard_normal((128, 64, 512)).astype(np.float32)
    steps = torch and (torch.arange(128)[:, None, None] >= torch.from_numpy(lengths)[None, :, None])
    yield Case("mask of sequences", "SequenceMask", {"use_sequence_length": True},
               [sequences, lengths.astype(np.float32)], lambda s, _: s.masked_fill(steps, 0))  # fmt: skip


def joined(rng: np.random.Generator) -> Iterator[Case]:
    """Joined, cut, repeated."""
    parts = [rng.standard_normal((2048, 1024)).astype(np.float32) for _ in range(4)]
    whole = np.concatenate(parts, 1)
    yield Case("concat 4, axis 0", "Concat", {"num_args": 4, "dim": 0}, parts, lambda *a: torch.cat(a, 0))
    yield Case("concat 4, axis 1", "Concat", {"num_args": 4, "dim": 1}, parts, lambda *a: torch.cat(a, 1))
    for axis in (0, 1, 2):
        yield Case(f"stack 4, axis {axis}", "stack", {"num_args": 4, "axis": axis}, parts,
                   lambda *a, d=axis: torch.stack(a, d))  # fmt: skip
    yield Case("split 4, axis 1", "SliceChannel", {"num_outputs": 4, "axis": 1}, [whole],
               lambda a: [p.clone() for p in a.chunk(4, 1)])  # fmt: skip
    yield Case("slice", "slice", {"begin": (100, 100), "end": (1900, 3900)}, [whole],
               lambda a: a[100:1900, 100:3900].clone())  # fmt: skip
    yield Case("slice with steps", "slice", {"begin": (0, 0), "end": (2048, 4096), "step": (2, 2)}, [whole],
               lambda a: a[::2, ::2].clone())  # fmt: skip
    yield Case("tile", "tile", {"reps": (2, 2)}, [parts[0]], lambda a: a.repeat(2, 2))
    yield Case("broadcast rows", "broadcast_to", {"shape": (4096, 4096)}, [whole[:1].copy()],
               lambda a: a.expand(4096, 4096).contiguous())  # fmt: skip
    yield Case("broadcast columns", "broadcast_to", {"shape": (2048, 4096)}, [whole[:, :1].copy()],
               lambda a: a.expand(2048, 4096).contiguous())  # fmt: skip
    images = rng.standard_normal((32, 64, 56, 56)).astype(np.float32)
    for mode, theirs in (("edge", "replicate"), ("reflect", "reflect"), ("constant", "constant")):
        yield Case(f"pad by 1, {mode}", "Pad", {"mode": mode, "pad_width": (0, 0, 0, 0, 1, 1, 1, 1)}, [images],
                   lambda a, m=theirs: torch.nn.functional.pad(a, (1, 1, 1, 1), mode=m))  # fmt: skip


def transposes(rng: np.random.Generator) -> Iterator[Case]:
    """Axes permuted."""
    heads = rng.standard_normal((32, 128, 16, 64)).astype(np.float32)
    channels = rng.standard_normal((32, 56, 56, 64)).astype(np.float32)
    tall = rng.standard_normal((1 << 20, 8)).astype(np.float32)
    for name, array, axes in (
        ("transpose heads", heads, (0, 2, 1, 3)),
        ("transpose keys", heads, (0, 2, 3, 1)),
        ("channels first", channels, (0, 3, 1, 2)),
        ("transpose tall", tall, (1, 0)),
        ("transpose long", np.ascontiguousarray(tall.T), (1, 0)),
        ("turn 4 axes round", heads, (3, 2, 1, 0)),
        ("transpose halves", heads.astype(np.float16).reshape(4096, 1024), (1, 0)),
    ):
        yield Case(name, "transpose", {"axes": axes}, [array], lambda a, p=axes: a.permute(p).contiguous())


def converted(rng: np.random.Generator) -> Iterator[Case]:
    """Types and comparisons."""
    x, y = (rng.standard_normal((2048, 4096)).astype(np.float32) for _ in range(2))
    types = torch and {"float16": torch.float16, "bfloat16": torch.bfloat16, "int32": torch.int32,
                       "float64": torch.float64, "uint8": torch.uint8}  # fmt: skip
    for name in ("float16", "bfloat16", "int32", "float64", "uint8"):
        yield Case(f"cast to {name}", "Cast", {"dtype": name}, [np.abs(x) if name == "uint8" else x],
                   lambda a, t=types and types[name]: a.to(t))  # fmt: skip
    yield Case("cast from float16", "Cast", {"dtype": "float32"}, [x.astype(np.float16)], lambda a: a.float())
    yield Case("cast from bfloat16", "Cast", {"dtype": "float32"}, [x.astype(ml_dtypes.bfloat16)],
               lambda a: a.float())  # fmt: skip
    yield Case("greater", "broadcast_greater", {}, [x, y], lambda a, b: (a > b).float())
    yield Case("equal to a number", "_equal_scalar", {"scalar": 0.5}, [x], lambda a: (a == 0.5).float())
    yield Case("clip", "clip", {"a_min": -1.0, "a_max": 1.0}, [x], lambda a: a.clamp(-1, 1))
    for axis in (0, 1):
        yield Case(f"cumulative sum, axis {axis}", "cumsum", {"axis": axis}, [x],
                   lambda a, d=axis: a.cumsum(d))  # fmt: skip


def spread(rng: np.random.Generator) -> Iterator[Case]:
    """Broadcast operands, and moments over each axis."""
    x = rng.standard_normal((2048, 4096)).astype(np.float32)
    row, column = x[:1].copy(), x[:, :1].copy()
    images = rng.standard_normal((32, 64, 56, 56)).astype(np.float32)
    channel = rng.standard_normal((1, 64, 1, 1)).astype(np.float32)
    for name, a, b in (("row", x, row), ("column", x, column), ("channel", images, channel)):
        yield Case(f"add a {name}", "broadcast_add", {}, [a, b], lambda a, b: a + b)
        yield Case(f"multiply by a {name}", "broadcast_mul", {}, [a, b], lambda a, b: a * b)
    yield Case("outer sum", "broadcast_add", {}, [row, column], lambda a, b: a + b)
    for axis in (0, 1):
        yield Case(f"mean, axis {axis}", "mean", {"axis": axis}, [x], lambda a, d=axis: a.mean(d))
        yield Case(f"variance, axis {axis}", "moments", {"axes": (axis,)}, [x],
                   lambda a, d=axis: torch.var_mean(a, d, correction=0))  # fmt: skip
        yield Case(f"min, axis {axis}", "min", {"axis": axis}, [x], lambda a, d=axis: a.amin(d))
        yield Case(f"product, axis {axis}", "prod", {"axis": axis}, [x], lambda a, d=axis: a.prod(d))
        yield Case(f"argmin, axis {axis}", "argmin", {"axis": axis}, [x], lambda a, d=axis: a.argmin(d))
    for axes in ((0, 2, 3), (2, 3), (1,), (0,), (3,)):
        yield Case(f"mean of images, axes {axes}", "mean", {"axis": axes}, [images],
                   lambda a, d=axes: a.mean(d))  # fmt: skip


def cases(rng: np.random.Generator) -> Iterator[Case]:
    """All of them."""
    yield from indexing(rng)
    yield from joined(rng)
    yield from transposes(rng)
    yield from converted(rng)
    yield from spread(rng)


if __name__ == "__main__":
    main(cases(np.random.default_rng(0)))
