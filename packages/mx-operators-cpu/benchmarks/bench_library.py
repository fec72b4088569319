# SPDX-License-Identifier: Apache-2.0
"""Running sums, counts, windows, images, densities and updates of many weights, beside PyTorch.

python bench_library.py [--threads 2] [--reference] [name ...]

Images are resized in 8 bits on both sides. PyTorch has no deformable convolution of its own: beside
ours stands one of `grid_sample` for each element of the window and a product.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from beside import Case, main, torch

F: Any = torch and torch.nn.functional
Table = np.ndarray


def sums(rng: np.random.Generator) -> Iterator[Case]:
    """What runs along an axis, or counts."""
    x = rng.standard_normal((4096, 2048)).astype(np.float32)
    for axis, name in ((1, "rows"), (0, "columns")):
        yield Case(f"running sums, {name}", "cumsum", {"axis": axis}, [x], lambda a, d=axis: a.cumsum(d))
    yield Case("running sums, all", "cumsum", {}, [x], lambda a: a.reshape(-1).cumsum(0))
    yield Case("histogram", "_histogram", {"bin_cnt": 100, "range": (-3, 3)}, [x],
               lambda a: torch.histc(a, 100, -3, 3))  # fmt: skip
    for axis, name in ((1, "rows"), (0, "columns")):
        yield Case(f"moments, {name}", "moments", {"axes": (axis,)}, [x],
                   lambda a, d=axis: torch.var_mean(a, d, unbiased=False))  # fmt: skip
    yield Case("all finite", "all_finite", {}, [x], lambda a: torch.isfinite(a).all())
    mu, sigma = (rng.random(4096).astype(np.float32) + np.float32(0.5) for _ in range(2))
    yield Case("normal log density", "_random_pdf_normal", {"is_log": True}, [x, mu, sigma],
               lambda a, m, s: torch.distributions.Normal(m[:, None], s[:, None]).log_prob(a))  # fmt: skip


def windows(rng: np.random.Generator) -> Iterator[Case]:
    """Columns of convolutions."""
    x = rng.standard_normal((8, 64, 56, 56)).astype(np.float32)
    attrs: dict[str, Any] = {"kernel": (3, 3), "pad": (1, 1)}
    columns = rng.standard_normal((8, 576, 3136)).astype(np.float32)
    yield Case("im2col", "im2col", attrs, [x], lambda a: F.unfold(a, 3, padding=1))
    yield Case("col2im", "col2im", {**attrs, "output_size": (56, 56)}, [columns],
               lambda a: F.fold(a, (56, 56), 3, padding=1))  # fmt: skip
    data = rng.standard_normal((4, 64, 28, 28)).astype(np.float32)
    offset = rng.standard_normal((4, 18, 28, 28)).astype(np.float32)
    weight = rng.standard_normal((64, 64, 3, 3)).astype(np.float32)
    attrs = {**attrs, "num_filter": 64, "no_bias": True}
    yield Case("deformable", "_contrib_DeformableConvolution", attrs, [data, offset, weight], _deformable)


def _deformable(data: Any, offset: Any, weight: Any) -> Any:
    batch, channels, height, width = data.shape
    rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    taps = []
    for tap in range(9):
        y = rows + tap // 3 - 1 + offset[:, 2 * tap]
        x = columns + tap % 3 - 1 + offset[:, 2 * tap + 1]
        grid = torch.stack((x * 2 / (width - 1) - 1, y * 2 / (height - 1) - 1), -1)
        taps.append(F.grid_sample(data, grid, align_corners=True))
    sampled = torch.stack(taps, 2).reshape(batch, channels * 9, height * width)
    return (weight.reshape(len(weight), -1) @ sampled).reshape(batch, -1, height, width)


def images(rng: np.random.Generator) -> Iterator[Case]:
    """From pixels to a network's input."""
    pixels = rng.integers(0, 256, (8, 480, 640, 3), np.uint8)
    planes = rng.random((8, 3, 480, 640), np.float32)
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    yield Case("to tensor", "_image_to_tensor", {}, [pixels],
               lambda a: a.permute(0, 3, 1, 2).contiguous().float().div(255))  # fmt: skip

    def normal(a: Any) -> Any:
        return (a - torch.tensor(mean)[:, None, None]).div_(torch.tensor(std)[:, None, None])

    yield Case("normalize", "_image_normalize", {"mean": mean, "std": std}, [planes], torch and normal)
    for size in ((224, 224), (1280, 960)):
        yield Case(f"resize, to {size[0]} x {size[1]}", "_image_resize", {"size": size}, [pixels],
                   lambda a, s=size: F.interpolate(a.permute(0, 3, 1, 2), size=s[::-1], mode="bilinear"))  # fmt: skip
    yield Case("flip image", "_image_flip_left_right", {}, [pixels[0]], lambda a: a.flip(1))


def updates(rng: np.random.Generator) -> Iterator[Case]:
    """Forty weights of many sizes at once, about ten million numbers."""
    sizes = [int(n) for n in np.geomspace(64, 2_000_000, 40)]
    adam: list[Table] = []
    momentum: list[Table] = []
    for n in sizes:
        w, g, mean, var = (rng.random(n).astype(np.float32) for _ in range(4))
        adam += [w, g, mean, var]
        momentum += [w, g, mean]
    count = {"num_weights": 40}
    each: dict[str, Any] = {"lrs": (0.1,) * 40, "wds": (0.01,) * 40}
    yield Case("multi AdamW", "_multi_adamw_update", {**count, **each, "etas": (1.0,) * 40},
               [*adam, np.ones(1, np.float32)], _adamw, range(0, 160, 4))  # fmt: skip
    lamb = {"learning_rates": (0.1,) * 40, "wds": (0.01,) * 40, "step_count": (3,) * 40, "num_tensors": 40}
    yield Case("multi LAMB", "_multi_lamb_update", lamb, adam, None, range(0, 160, 4))
    rates = [np.full(40, 0.1, np.float32), np.full(40, 0.01, np.float32)]
    yield Case("preloaded SGD", "preloaded_multi_sgd_mom_update", {**count, "momentum": 0.9},
               [*momentum, *rates], _sgd, range(0, 120, 3))  # fmt: skip
    yield Case("sums of squares", "multi_sum_sq", {"num_arrays": 40}, adam[::4],
               lambda *a: torch._foreach_norm(list(a)))  # fmt: skip


def _adamw(*arrays: Any) -> None:
    weights, grads, means, squares = (list(arrays[i:-1:4]) for i in range(4))
    steps = [torch.tensor(3.0) for _ in weights]
    torch._fused_adamw_(
        weights, grads, means, squares, [], steps, lr=0.1, beta1=0.9, beta2=0.999, weight_decay=0.01, eps=1e-8,
        amsgrad=False, maximize=False,
    )  # fmt: skip


def _sgd(*arrays: Any) -> None:
    weights, grads, momenta = (list(arrays[i:-2:3]) for i in range(3))
    torch._fused_sgd_(
        weights, grads, momenta, weight_decay=0.01, momentum=0.9, lr=0.1, dampening=0.0, nesterov=False,
        maximize=False, is_first_step=False,
    )  # fmt: skip


def cases() -> Iterator[Case]:
    """All of them."""
    rng = np.random.default_rng(0)
    yield from sums(rng)
    yield from windows(rng)
    yield from images(rng)
    yield from updates(rng)


if __name__ == "__main__":
    main(cases())
