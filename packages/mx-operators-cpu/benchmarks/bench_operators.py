# SPDX-License-Identifier: Apache-2.0
"""Operators on big arrays beside PyTorch, where it is installed, and the bandwidth of a copy.

python bench_operators.py [--threads 2] [--reference] [name ...]
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from beside import Case, main, torch

#: minutes that `nox -s bench` gives it
MINUTES = 60


def elementwise(x: np.ndarray, y: np.ndarray) -> Iterator[Case]:
    """One pass over memory each."""
    for name in ("exp", "log", "tanh", "sigmoid", "erf", "sqrt", "relu"):
        yield Case(name, name, {}, [x], getattr(torch, name, None))
    yield Case("add", "elemwise_add", {}, [x, y], lambda a, b: a + b)
    yield Case("add a row", "broadcast_add", {}, [x, y[:1].copy()], lambda a, b: a + b)
    yield Case("gelu", "LeakyReLU", {"act_type": "gelu"}, [x], torch and torch.nn.functional.gelu)
    yield Case(
        "where", "where", {}, [(x > 0).astype(np.float32), x, y], lambda c, a, b: torch.where(c != 0, a, b)
    )


def reductions(x: np.ndarray) -> Iterator[Case]:
    """Everything, rows and columns."""
    for axis, name in ((None, "all"), (1, "rows"), (0, "columns")):
        attrs = {} if axis is None else {"axis": axis}
        given = () if axis is None else (axis,)
        yield Case(f"sum, {name}", "sum", attrs, [x], lambda a, g=given: a.sum(*g))
        yield Case(f"max, {name}", "max", attrs, [x], lambda a, g=given: a.amax(*g))
        yield Case(f"norm, {name}", "norm", attrs, [x],
                   lambda a, i=axis: torch.linalg.vector_norm(a, dim=i))  # fmt: skip
        if axis is not None:
            yield Case(f"argmax, {name}", "argmax", attrs, [x], lambda a, g=given: a.argmax(*g))


def rows(x: np.ndarray, rng: np.random.Generator) -> Iterator[Case]:
    """Normalisations and softmax by row."""
    n = x.shape[1]
    gamma, beta = (rng.standard_normal((n,)).astype(np.float32) for _ in range(2))
    yield Case("softmax", "softmax", {}, [x], lambda a: a.softmax(-1))
    yield Case("log softmax", "log_softmax", {}, [x], lambda a: a.log_softmax(-1))
    yield Case("layer norm", "LayerNorm", {}, [x, gamma, beta],
               lambda a, g, b: torch.nn.functional.layer_norm(a, (n,), g, b))  # fmt: skip


def movement(x: np.ndarray, rng: np.random.Generator) -> Iterator[Case]:
    """Nothing computed."""
    images = rng.standard_normal((32, 64, 56, 56)).astype(np.float32)
    weight = rng.standard_normal((50_000, 512)).astype(np.float32)
    words = rng.integers(0, 50_000, (64, 128)).astype(np.float32)
    yield Case("transpose", "transpose", {}, [x], lambda a: a.t().contiguous())
    yield Case("channels last", "transpose", {"axes": (0, 2, 3, 1)}, [images],
               lambda a: a.permute(0, 2, 3, 1).contiguous())  # fmt: skip
    yield Case("flip", "reverse", {"axis": (1,)}, [x], lambda a: a.flip(1))
    yield Case("concat", "Concat", {"num_args": 2, "dim": 1}, [x, x], lambda a, b: torch.cat([a, b], 1))
    yield Case("repeat", "repeat", {"repeats": 2, "axis": 1}, [x[:2048]], lambda a: a.repeat_interleave(2, 1))
    yield Case("pad by reflection", "Pad", {"mode": "reflect", "pad_width": (0, 0, 0, 0, 3, 3, 3, 3)}, [images],
               lambda a: torch.nn.functional.pad(a, (3, 3, 3, 3), mode="reflect"))  # fmt: skip
    yield Case("embedding", "Embedding", {"input_dim": 50_000, "output_dim": 512}, [words, weight],
               lambda i, w: torch.nn.functional.embedding(i.long(), w))  # fmt: skip


def order(rng: np.random.Generator) -> Iterator[Case]:
    """Sorting."""
    long, table = (rng.standard_normal(s).astype(np.float32) for s in ((4_000_000,), (4096, 1024)))
    yield Case("sort, 4 million", "sort", {}, [long], lambda a: a.sort())
    yield Case("sort, rows of 1024", "sort", {}, [table], lambda a: a.sort())
    yield Case("top 10 of 1024", "topk", {"k": 10, "ret_typ": "both"}, [table], lambda a: a.topk(10))


def images(rng: np.random.Generator) -> Iterator[Case]:
    """Resampling."""
    small, large = (rng.standard_normal((32, 64, n, n)).astype(np.float32) for n in (28, 56))
    yield Case("bilinear resize", "_contrib_BilinearResize2D", {"height": 56, "width": 56}, [small],
               lambda a: torch.nn.functional.interpolate(a, size=(56, 56), mode="bilinear", align_corners=True),
               )  # fmt: skip
    yield Case("adaptive pooling", "_contrib_AdaptiveAvgPooling2D", {"output_size": (7, 7)}, [large],
               lambda a: torch.nn.functional.adaptive_avg_pool2d(a, 7))  # fmt: skip


def random() -> Iterator[Case]:
    """Numbers made; the counters are those of Philox, PyTorch's a Mersenne twister's."""
    shape = (4096, 4096)
    yield Case("uniform", "_random_uniform", {"shape": shape}, [], lambda: torch.rand(shape))
    yield Case("normal", "_random_normal", {"shape": shape}, [], lambda: torch.randn(shape))
    few = (1 << 20,)
    rates, ones = (torch and torch.full(few, value) for value in (4.0, 1.0))
    yield Case("gamma", "_random_gamma", {"shape": few, "alpha": 4.0}, [],
               torch and (lambda: torch._standard_gamma(rates)))  # fmt: skip
    yield Case(
        "Poisson", "_random_poisson", {"shape": few, "lam": 4.0}, [], torch and (lambda: torch.poisson(rates))
    )
    yield Case(
        "Poisson of rate 1", "_random_poisson", {"shape": few}, [], torch and (lambda: torch.poisson(ones))
    )
    weights = np.random.default_rng(0).random((64, 1000)).astype(np.float32)
    yield Case("multinomial", "_sample_multinomial", {"shape": (1000,)}, [weights],
               lambda w: torch.multinomial(w, 1000, replacement=True))  # fmt: skip


def losses(rng: np.random.Generator) -> Iterator[Case]:
    """Sequences read: the loss and its slope."""
    data = rng.standard_normal((150, 32, 5000)).astype(np.float32)
    label = rng.integers(1, 5000, (32, 40)).astype(np.float32)

    def ctc(x: Any, labels: Any) -> Any:
        given = x.detach().requires_grad_()
        steps, lengths = [torch.full((32,), n) for n in (150, 40)]
        torch.nn.functional.ctc_loss(given.log_softmax(2), labels.long(), steps, lengths).backward()
        return given.grad

    yield Case("CTC, 5000 classes", "CTCLoss", {}, [data, label], torch and ctc)


def cases() -> Iterator[Case]:
    """All of them."""
    rng = np.random.default_rng(0)
    x, y = (rng.random((4096, 4096), np.float32) + np.float32(0.5) for _ in range(2))
    yield from elementwise(x, y)
    yield from reductions(x)
    yield from rows(x, rng)
    yield from movement(x, rng)
    yield from order(rng)
    yield from images(rng)
    yield from random()
    yield from losses(rng)


if __name__ == "__main__":
    main(cases())
