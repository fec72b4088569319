# SPDX-License-Identifier: Apache-2.0
"""Operators on big arrays beside PyTorch, where it is installed, and the bandwidth of a copy.

Both sides run in turns, the fastest run of each counts. Ours write to arrays that exist, as planned
programs do; freed memory stays with the process, so that PyTorch's new arrays cost no page faults
either. Bytes are those of inputs and outputs. With one thread its CPU time is taken, which other load
on the machine hardly changes.

    python bench_operators.py [--threads 2] [--reference] [name ...]
"""

from __future__ import annotations

import argparse
import ctypes
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from calls import THREADS, aligned, caller, referee

try:
    import torch
except ImportError:
    torch = None  # type: ignore[assignment]

ROUNDS = 5


class Case(NamedTuple):
    """An operator of ours and the function of PyTorch's that does the same to the same arrays."""

    name: str
    op: str
    attrs: dict[str, Any]
    inputs: Sequence[np.ndarray]
    theirs: Callable[..., Any] | None


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
    gamma, beta = (rng.standard_normal(n).astype(np.float32) for _ in range(2))
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


def vision(rng: np.random.Generator) -> Iterator[Case]:
    """Boxes, regions, samples; PyTorch has only the samplers."""
    corners = rng.random((1, 8732, 4)).astype(np.float32)
    corners[..., 2:] = corners[..., :2] + rng.random((1, 8732, 2)).astype(np.float32) / 8
    scores = rng.random((1, 8732, 2)).astype(np.float32)
    yield Case("suppression, 8732 boxes", "_contrib_box_nms", {"overlap_thresh": 0.45, "valid_thresh": 0.01},
               [np.concatenate((scores, corners), 2)], None)  # fmt: skip
    yield Case("overlaps", "_contrib_box_iou", {}, [corners[0], corners[0, :500]], None)
    labels = np.concatenate((rng.integers(0, 20, (8, 20, 1)), corners[:, :160].reshape(8, 20, 4)), 2)
    predicted = rng.standard_normal((8, 21, 8732)).astype(np.float32)
    yield Case("box targets", "_contrib_MultiBoxTarget", {"negative_mining_ratio": 3.0},
               [corners, labels.astype(np.float32), predicted], None)  # fmt: skip
    offsets = rng.standard_normal((8, 4 * 8732)).astype(np.float32)
    yield Case("box detection", "_contrib_MultiBoxDetection", {"nms_topk": 400},
               [abs(predicted) / 4, offsets, corners], None)  # fmt: skip
    maps = rng.standard_normal((2, 256, 50, 68)).astype(np.float32)
    rois = rng.random((256, 5)).astype(np.float32) * np.array([2, 400, 400, 0, 0], np.float32)
    rois[:, 3:] = rois[:, 1:3] + rng.random((256, 2)) * 300
    attrs = {"pooled_size": (7, 7), "spatial_scale": 1 / 16}
    yield Case("region means", "_contrib_ROIAlign", {**attrs, "sample_ratio": 2}, [maps, rois], None)
    yield Case("region maxima", "ROIPooling", attrs, [maps, rois], None)
    images = rng.standard_normal((16, 32, 64, 64)).astype(np.float32)
    grid = (rng.random((16, 2, 64, 64), np.float32) * 2 - 1).astype(np.float32)
    sample = partial(torch.nn.functional.grid_sample, align_corners=True) if torch else None
    yield Case("samples", "BilinearSampler", {}, [images, grid],
               sample and (lambda x, g: sample(x, g.permute(0, 2, 3, 1))))  # fmt: skip

    def pulled(head: Any, x: Any, g: Any) -> Any:
        given = [t.detach().requires_grad_() for t in (x, g)]
        return torch.autograd.grad(sample(given[0], given[1].permute(0, 2, 3, 1)), given, head)  # type: ignore[misc]

    yield Case(
        "samples and gradients", "_backward_BilinearSampler", {}, [images, images, grid], sample and pulled
    )
    flow = rng.standard_normal((1, 64, 48, 64)).astype(np.float32)
    yield Case("correlation", "Correlation", {"max_displacement": 20, "stride2": 2, "pad_size": 20},
               [flow, flow], None)  # fmt: skip


def seconds(runs: Sequence[Callable[[], object] | None], threads: int, rounds: int = ROUNDS) -> list[float]:
    """The fastest of each, in turns."""
    clock = time.thread_time if threads == 1 else time.perf_counter
    times = [float("inf")] * len(runs)
    for _ in range(rounds + 1):
        for i, run in enumerate(runs):
            if run is not None:
                start = clock()
                run()
                times[i] = min(times[i], clock() - start)
    return times


def report(case: Case, copy: float, threads: int, reference: bool) -> None:
    """One line: milliseconds, bandwidth, ratios of speeds; with `reference` to NumPy's, too."""
    inputs = [aligned(x) for x in case.inputs]
    run, outputs, variant = caller(case.op, case.attrs, inputs, threads=threads)
    theirs = None
    if torch is not None and case.theirs is not None:
        given, function = [torch.from_numpy(x) for x in inputs], case.theirs
        theirs = partial(function, *given)
    ours, other = seconds([run, theirs], threads)
    size = sum(a.nbytes for a in (*inputs, *outputs))
    versus = f"{other / ours:8.2f} x PyTorch" if theirs is not None else ""
    if reference:
        versus += f"{seconds([referee(case.op, case.attrs, inputs)], threads, 0)[0] / ours:10.1f} x reference"
    speed = size / ours / 1e9
    print(
        f"{case.name:22}{variant:10}{ours * 1e3:9.2f} ms{speed:8.1f} GB/s{speed / copy:7.2f} x copy{versus}"
    )


def keep_freed_memory() -> None:
    """Tells the C library to give nothing back to the system."""
    trim_threshold, mmap_threshold = -1, -3  # M_ constants of glibc
    for option in (trim_threshold, mmap_threshold):
        ctypes.CDLL(None).mallopt(option, 2**31 - 1)


def main() -> None:
    keep_freed_memory()
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=THREADS)
    parser.add_argument("--reference", action="store_true", help="beside NumPy's references, too")
    parser.add_argument("names", nargs="*", help="cases, up to a comma")
    options = parser.parse_args()
    threads, wanted = options.threads, options.names
    rng = np.random.default_rng(0)
    x, y = (rng.random((4096, 4096), np.float32) + np.float32(0.5) for _ in range(2))
    copy_run, _, _ = caller("_copy", {}, [aligned(x)], threads=threads)
    copy = 2 * x.nbytes / seconds([copy_run], threads)[0] / 1e9
    if torch is not None:
        torch.set_num_threads(threads)
    print(f"{threads} threads, copy {copy:.1f} GB/s; ratios of speeds")
    for cases in (
        elementwise(x, y),
        reductions(x),
        rows(x, rng),
        movement(x, rng),
        order(rng),
        images(rng),
        random(),
        losses(rng),
        vision(rng),
    ):
        for case in cases:
            if not wanted or case.name.split(",")[0] in wanted:
                report(case, copy, threads, options.reference)


if __name__ == "__main__":
    main()
