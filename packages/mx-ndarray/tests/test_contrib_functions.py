# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from mx_core.errors import ArgumentError
from mx_ndarray import nd

RATES = {"lrs": [0.1, 0.2], "wds": [0.01, 0.02]}


def states(count: int, dtype: str = "float32") -> list[list[nd.NDArray]]:
    """Weights, gradients, means and variances of arrays of different shapes."""
    rng = np.random.default_rng(3)
    shapes = [(3, 2), (4,)][:count]
    draw: list[Callable[[tuple[int, ...]], np.ndarray]] = [rng.normal, rng.normal, rng.normal, rng.random]
    groups = [[np.asarray(rng.normal(size=shape)) for shape in shapes] for _ in draw]
    groups[3] = [np.abs(value) for value in groups[3]]
    types = [dtype, dtype, "float32", "float32"]
    return [[nd.array(value, dtype=t) for value in group] for group, t in zip(groups, types, strict=True)]


def adamw(
    weight: np.ndarray, grad: np.ndarray, mean: np.ndarray, var: np.ndarray, lr: float, wd: float
) -> np.ndarray:
    mean = 0.9 * mean + 0.1 * grad
    var = 0.999 * var + 0.001 * grad**2
    return weight - 0.5 * (lr * mean / (np.sqrt(var) + 1e-8) + wd * weight)


def test_several_weights_take_the_step_of_each() -> None:
    weights, grads, means, variances = states(2)
    host = [[a.asnumpy() for a in group] for group in (weights, grads, means, variances)]
    nd.contrib.multi_adamw_update(
        weights, grads, means, variances, rescale_grad=2.0, etas=[0.5, 0.5], out=weights, **RATES
    )
    for i, weight in enumerate(weights):
        w, g, m, v = (group[i] for group in host)
        want = adamw(w, 2 * g, m, v, RATES["lrs"][i], RATES["wds"][i])
        np.testing.assert_allclose(weight.asnumpy(), want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("many", [False, True])
def test_a_step_with_a_master_copy_moves_both(many: bool) -> None:
    weights, grads, means, variances = states(2 if many else 1, "float16")
    masters = [w.astype("float32") for w in weights]
    before = [m.asnumpy() for m in masters]
    if many:
        nd.contrib.multi_mp_adamw_update(
            weights, grads, means, variances, masters, nd.array([1.0]), etas=[1.0, 1.0], out=weights, **RATES
        )
    else:
        nd.contrib.mp_adamw_update(
            weights[0],
            grads[0],
            means[0],
            variances[0],
            masters[0],
            1.0,
            lr=0.1,
            eta=1.0,
            wd=0.01,
            out=weights[0],
        )
    for weight, master, old in zip(weights, masters, before, strict=True):
        assert (master.asnumpy() != old).all()
        np.testing.assert_array_equal(weight.asnumpy(), master.asnumpy().astype(np.float16))


def test_a_step_is_left_out_when_the_scale_is_not_finite() -> None:
    weight, grad, mean, var = (group[0] for group in states(1))
    before = weight.asnumpy()
    nd.contrib.adamw_update(weight, grad, mean, var, float("inf"), lr=0.1, eta=1.0, out=weight)
    np.testing.assert_array_equal(weight.asnumpy(), before)


@pytest.mark.parametrize("master", [False, True])
def test_lamb_of_several_weights_is_lamb_of_each(master: bool) -> None:
    weights, grads, means, variances = states(2, "float16" if master else "float32")
    masters = [w.astype("float32") for w in weights]
    apart = []
    for i in range(2):
        g, m, v = grads[i].astype("float32"), means[i].copy(), variances[i].copy()
        direction = nd.lamb_update_phase1(masters[i], g, m, v, t=i + 1, wd=RATES["wds"][i])
        lr = RATES["lrs"][i]
        apart.append(
            nd.lamb_update_phase2(masters[i], direction, masters[i].norm(), direction.norm(), lr=lr).asnumpy()
        )
    more = [masters] if master else []
    step = nd.contrib.multi_mp_lamb_update if master else nd.contrib.multi_lamb_update
    step(weights, grads, means, variances, *more, step_count=[1, 2], out=weights, **RATES)
    for weight, want in zip(masters if master else weights, apart, strict=True):
        np.testing.assert_allclose(weight.asnumpy(), want, rtol=1e-4, atol=1e-5)


def test_lists_of_different_lengths_are_refused() -> None:
    weights, grads, means, variances = states(2)
    with pytest.raises(ArgumentError, match=r"multi_lamb_update.*\[2, 1, 2, 2\]"):
        nd.contrib.multi_lamb_update(weights, grads[:1], means, variances, [1, 1], [0.1, 0.1], [0, 0])


def test_zipfian_candidates_come_as_often_as_expected() -> None:
    drawn, true_count, count = nd.contrib.rand_zipfian(nd.array([0, 3]), 20000, 8)
    assert drawn.dtype == np.int64
    got = drawn.asnumpy()
    assert 0 <= got.min() and got.max() < 8
    k = np.arange(8)
    expected = 20000 * np.log((k + 2) / (k + 1)) / np.log(9)
    np.testing.assert_allclose(true_count.asnumpy(), expected[[0, 3]])
    np.testing.assert_allclose(count.asnumpy(), expected[got])
    np.testing.assert_allclose(np.bincount(got, minlength=8), expected, atol=6 * 70)
    with pytest.raises(ArgumentError, match="range_max"):
        nd.contrib.rand_zipfian(nd.array([0]), 4, 0)
