# SPDX-License-Identifier: Apache-2.0
"""Distributions of events and vectors, relaxed ones, and those made of others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from mx_core.errors import ArgumentError
from mx_gluon import probability as mgp
from mx_gluon.block import HybridBlock
from mx_ndarray import NDArray, autograd, nd, random

PROBS = np.array([[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]])
ALPHA = np.array([[0.5, 1.0, 3.0], [2.0, 2.0, 2.0]])
COV = np.array([[2.0, 0.5], [0.5, 1.0]])
LOC = np.array([1.0, -1.0])
POINT = np.array([0.2, 0.3, 0.5])


def double(values: Any) -> NDArray:
    return nd.array(np.asarray(values), dtype="float64")


def by(way: str) -> dict[str, NDArray]:
    """Probabilities as such, or as logarithms that are not normalised."""
    return {"prob": double(PROBS)} if way == "prob" else {"logit": double(np.log(PROBS) + 1.5)}


def near(samples: NDArray, mean: Any, variance: Any) -> None:
    """Means within five standard errors."""
    x = samples.asnumpy()
    variance = np.asarray(variance)
    assert (np.abs(x.mean(0) - mean) <= 5 * np.sqrt(variance / len(x)) + 1e-12).all()
    np.testing.assert_allclose(x.var(0), variance, rtol=0.05, atol=1e-12)


@pytest.mark.parametrize("way", ["prob", "logit"])
def test_categorical(way: str) -> None:
    random.seed(4)
    d = mgp.Categorical(3, **by(way), validate_args=True)
    np.testing.assert_allclose(d.log_prob(double([2, 0])).asnumpy(), np.log([0.5, 0.1]))
    np.testing.assert_allclose(d.log_prob(1).asnumpy(), np.log([0.3, 0.1]))
    np.testing.assert_allclose(d.entropy().asnumpy(), stats.entropy(PROBS.T))
    np.testing.assert_allclose(d.prob.asnumpy(), PROBS)
    assert d.enumerate_support().asnumpy().tolist() == [[0, 0], [1, 1], [2, 2]]
    drawn = d.sample_n(20000)
    assert drawn.shape == (20000, 2)
    near(nd.one_hot(drawn, depth=3), PROBS, PROBS * (1 - PROBS))
    assert d.sample().shape == (2,)
    assert d.sample((5, 2)).shape == (5, 2)
    assert d.broadcast_to((5, 2)).log_prob(d.sample_n(5)).shape == (5, 2)
    assert d.log_prob(d.sample_n((4, 5))).shape == (4, 5, 2)
    with pytest.raises(ArgumentError, match="expected an integer >= 0 and < 3, got 3.0"):
        d.log_prob(double([0, 3]))


def test_impossible_events() -> None:
    d = mgp.Categorical(3, prob=double([0.0, 0.25, 0.75]))
    assert d.log_prob(double([0.0])).asscalar() == -np.inf
    np.testing.assert_allclose(d.entropy().asscalar(), stats.entropy([0.25, 0.75]))
    assert (d.sample_n(500).asnumpy() > 0).all()
    with pytest.raises(ArgumentError, match="num_events: expected an integer from 1, got 0"):
        mgp.Categorical(0, prob=double([1.0]))
    with pytest.raises(ArgumentError, match=r"num_events=4 numbers along the last axis, got shape \(3,\)"):
        mgp.Categorical(4, prob=double([0.0, 0.25, 0.75]))
    with pytest.raises(ArgumentError, match="numbers from 0 with a sum of 1 along the last axis, got 0.5"):
        mgp.OneHotCategorical(2, prob=double([0.5, 0.6]), validate_args=True)


@pytest.mark.parametrize("way", ["prob", "logit"])
def test_one_hot_categorical(way: str) -> None:
    random.seed(4)
    d = mgp.OneHotCategorical(3, **by(way), validate_args=True)
    drawn = d.sample_n(20000)
    assert drawn.shape == (20000, 2, 3)
    assert drawn.dtype == np.float64
    near(drawn, PROBS, PROBS * (1 - PROBS))
    np.testing.assert_allclose(d.variance.asnumpy(), PROBS * (1 - PROBS))
    np.testing.assert_allclose(d.log_prob(double([0, 1, 0])).asnumpy(), np.log([0.3, 0.1]))
    np.testing.assert_allclose(d.entropy().asnumpy(), stats.entropy(PROBS.T))
    assert d.enumerate_support().asnumpy()[1].tolist() == [[0, 1, 0], [0, 1, 0]]
    assert d.sample((5, 2)).shape == (5, 2, 3)


@pytest.mark.parametrize("way", ["prob", "logit"])
def test_multinomial(way: str) -> None:
    random.seed(4)
    d = mgp.Multinomial(3, **by(way), total_count=5, validate_args=True)
    known = [stats.multinomial(5, row) for row in PROBS]
    drawn = d.sample_n(20000)
    assert (drawn.sum(-1).asnumpy() == 5).all()
    near(drawn, 5 * PROBS, 5 * PROBS * (1 - PROBS))
    np.testing.assert_allclose(d.mean.asnumpy(), 5 * PROBS)
    np.testing.assert_allclose(d.variance.asnumpy(), 5 * PROBS * (1 - PROBS))
    x = [1.0, 2.0, 2.0]
    np.testing.assert_allclose(d.log_prob(double(x)).asnumpy(), [each.logpmf(x) for each in known], rtol=1e-6)
    with pytest.raises(ArgumentError, match="total_count: expected an integer from 0, got 1.5"):
        mgp.Multinomial(3, **by(way), total_count=1.5)  # type: ignore[arg-type]


def test_dirichlet() -> None:
    random.seed(4)
    d = mgp.Dirichlet(double(ALPHA), validate_args=True)
    known = [stats.dirichlet(row) for row in ALPHA]
    drawn = d.sample_n(20000)
    near(drawn, d.mean.asnumpy(), d.variance.asnumpy())
    np.testing.assert_allclose(d.mean.asnumpy(), [each.mean() for each in known])
    np.testing.assert_allclose(d.variance.asnumpy(), [each.var() for each in known])
    np.testing.assert_allclose(d.log_prob(double(POINT)).asnumpy(), [each.logpdf(POINT) for each in known])
    np.testing.assert_allclose(d.entropy().asnumpy(), [each.entropy() for each in known])
    assert d.broadcast_to((4, 2)).sample().shape == (4, 2, 3)


@pytest.mark.parametrize("matrix", ["cov", "precision", "scale_tril"])
def test_multivariate_normal(matrix: str) -> None:
    random.seed(4)
    value = {"cov": COV, "precision": np.linalg.inv(COV), "scale_tril": np.linalg.cholesky(COV)}[matrix]
    d = mgp.MultivariateNormal(double(LOC), **{matrix: double(value)}, validate_args=True)
    known = stats.multivariate_normal(LOC, COV)
    x = np.random.default_rng(0).normal(size=(5, 2))
    np.testing.assert_allclose(d.log_prob(double(x)).asnumpy(), known.logpdf(x))
    np.testing.assert_allclose(d.entropy().asnumpy(), known.entropy())
    np.testing.assert_allclose(d.cov.asnumpy(), COV)
    np.testing.assert_allclose(d.precision.asnumpy(), np.linalg.inv(COV))
    np.testing.assert_allclose(d.scale_tril.asnumpy(), np.linalg.cholesky(COV), atol=1e-12)
    np.testing.assert_allclose(d.variance.asnumpy(), np.diag(COV))
    drawn = d.sample_n(20000)
    near(drawn, LOC, np.diag(COV))
    assert abs(np.cov(drawn.asnumpy().T)[0, 1] - 0.5) < 0.06
    assert d.sample((3,)).shape == (3, 2)
    assert d.broadcast_to((4, 3)).log_prob(double(x[:3])).shape == (4, 3)


def test_gradients_of_a_multivariate_normal() -> None:
    loc, cov = double(LOC), double(COV)
    loc.attach_grad()
    cov.attach_grad()
    x = double([[0.3, 0.4], [1.0, 2.0]])
    with autograd.record():
        total = mgp.MultivariateNormal(loc, cov).log_prob(x).sum()
    total.backward()
    inverse = np.linalg.inv(COV)
    whitened = (x.asnumpy() - LOC) @ inverse
    np.testing.assert_allclose(loc.grad.asnumpy(), whitened.sum(0), rtol=1e-9)
    expected = 0.5 * (whitened.T @ whitened - 2 * inverse)
    symmetric = 0.5 * (cov.grad.asnumpy() + cov.grad.asnumpy().T)
    np.testing.assert_allclose(symmetric, expected, rtol=1e-9)
    with autograd.record():
        total = mgp.MultivariateNormal(loc, cov).sample((7,)).sum()
    total.backward()
    assert loc.grad.asnumpy().tolist() == [7.0, 7.0]


def test_which_matrix_is_given() -> None:
    with pytest.raises(ArgumentError, match="one of cov, precision and scale_tril, got none of them"):
        mgp.MultivariateNormal(double(LOC))
    with pytest.raises(ArgumentError, match=r"got \['cov', 'scale_tril'\]"):
        mgp.MultivariateNormal(double(LOC), double(COV), scale_tril=double(COV))
    for given, said in (
        ({"cov": double([[1.0, 2.0], [2.0, 1.0]])}, "a symmetric matrix with positive eigenvalues, got 1.0"),
        ({"scale_tril": double(COV)}, "zeros above its diagonal and positive numbers on it, got 0.5"),
        ({"precision": double(LOC)}, r"got an array of shape \(2,\)"),
    ):
        with pytest.raises(ArgumentError, match=said):
            mgp.MultivariateNormal(double(LOC), **given, validate_args=True)


def test_relaxed_bernoulli() -> None:
    random.seed(4)
    d = mgp.RelaxedBernoulli(0.8, prob=double([0.3, 0.7]), validate_args=True)
    drawn = d.sample_n(20000).asnumpy()
    assert (np.abs((drawn > 0.5).mean(0) - [0.3, 0.7]) < 5 * np.sqrt(0.21 / 20000)).all()
    inner = (np.arange(100000) + 0.5) / 100000
    density = np.exp(d.log_prob(double(np.stack([inner, inner], 1))).asnumpy())
    np.testing.assert_allclose(density.mean(0), 1.0, rtol=2e-3)
    for k in (2500, 50000, 90000):  # the distribution of samples is that of the density
        assert (np.abs((drawn < inner[k]).mean(0) - density[:k].sum(0) / 100000) < 0.02).all()
    assert (d.T, d.broadcast_to((3, 2)).sample().shape) == (0.8, (3, 2))
    np.testing.assert_allclose(d.logit.asnumpy(), np.log([0.3 / 0.7, 0.7 / 0.3]))


def test_relaxed_one_hot_categorical() -> None:
    random.seed(4)
    d = mgp.RelaxedOneHotCategorical(0.7, 3, prob=double(PROBS))
    drawn = d.sample_n(20000)
    np.testing.assert_allclose(drawn.sum(-1).asnumpy(), 1.0)
    largest = drawn.argmax(-1).asnumpy()
    for event in range(3):
        assert (np.abs((largest == event).mean(0) - PROBS[:, event]) < 5 * np.sqrt(0.25 / 20000)).all()
    assert d.log_prob(drawn).shape == (20000, 2)
    assert (d.num_events, d.T, d.sample((4, 2)).shape) == (3, 0.7, (4, 2, 3))
    # two events: the first is a relaxed Bernoulli variable
    pair = mgp.RelaxedOneHotCategorical(0.7, 2, logit=double([1.0, 0.2]))
    single = mgp.RelaxedBernoulli(0.7, logit=0.8)
    x = np.array([0.1, 0.6, 0.9])
    np.testing.assert_allclose(
        pair.log_prob(double(np.stack([x, 1 - x], 1))).asnumpy(), single.log_prob(double(x)).asnumpy()
    )


def test_gradients_of_relaxed_samples() -> None:
    logit = double([0.3, -0.2, 0.5])
    logit.attach_grad()
    weights = double([1.0, 2.0, 4.0])

    def total(value: NDArray) -> NDArray:
        random.seed(9)
        return (mgp.RelaxedOneHotCategorical(0.7, 3, logit=value).sample_n(10) * weights).sum()

    with autograd.record():
        found = total(logit)
    found.backward()
    for k in range(3):
        step = double(np.eye(3)[k] * 1e-6)
        expected = (total(logit + step) - total(logit - step)).asscalar() / 2e-6
        np.testing.assert_allclose(logit.grad[k].asscalar(), expected, rtol=1e-6, atol=1e-6)


def test_independent() -> None:
    base = mgp.Normal(double(np.arange(6.0).reshape(2, 3)), 2.0)
    d = mgp.Independent(base, 1)
    x = d.sample_n(4)
    assert x.shape == (4, 2, 3)
    np.testing.assert_allclose(d.log_prob(x).asnumpy(), base.log_prob(x).asnumpy().sum(-1))
    np.testing.assert_allclose(d.entropy().asnumpy(), [3 * base.entropy()] * 2)
    assert (d.event_dim, d.has_grad, d.mean.shape, d.variance) == (1, True, (2, 3), 4.0)
    assert d.broadcast_to((5, 2)).sample().shape == (5, 2, 3)
    with pytest.raises(NotImplementedError, match="enumerate_support"):
        mgp.Independent(mgp.Bernoulli(prob=double([0.5])), 1).enumerate_support()
    assert mgp.Independent(mgp.Bernoulli(prob=double([0.5])), 0).enumerate_support().shape == (2, 1)
    with pytest.raises(ArgumentError, match="expected a Distribution, got 3"):
        mgp.Independent(3, 1)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="expected an integer from 0, got -1"):
        mgp.Independent(base, -1)


def test_mixture() -> None:
    random.seed(4)
    weights, loc, scale = np.array([0.3, 0.7]), np.array([-1.0, 2.0]), np.array([0.5, 1.0])
    d = mgp.MixtureSameFamily(
        mgp.Categorical(2, prob=double(weights)), mgp.Normal(double(loc), double(scale))
    )
    x = np.linspace(-3, 4, 9)
    known = stats.norm(loc, scale)
    np.testing.assert_allclose(d.log_prob(double(x)).asnumpy(), np.log(known.pdf(x[:, None]) @ weights))
    np.testing.assert_allclose(d.cdf(double(x)).asnumpy(), known.cdf(x[:, None]) @ weights)
    mean = weights @ loc
    np.testing.assert_allclose(d.mean.asnumpy(), [mean])
    np.testing.assert_allclose(d.variance.asnumpy(), [weights @ (scale**2 + loc**2) - mean**2])
    drawn = d.sample_n(20000).asnumpy().ravel()
    assert stats.kstest(drawn, lambda at: known.cdf(np.asarray(at)[:, None]) @ weights).pvalue > 1e-4
    assert d.log_prob(double([1e6])).asscalar() < -1e9  # and not minus infinity by underflow
    assert d.broadcast_to((5,)).sample().shape == (5,)
    assert d.sample((3, 4)).shape == (3, 4)
    with pytest.raises(ArgumentError, match="mixture_dist: expected a Categorical"):
        mgp.MixtureSameFamily(mgp.Normal(), mgp.Normal())  # type: ignore[arg-type]


def test_mixture_of_vectors() -> None:
    base = mgp.Independent(mgp.Normal(double(np.arange(24.0).reshape(4, 2, 3)), 1.0), 1)
    d = mgp.MixtureSameFamily(mgp.Categorical(2, prob=double([[0.0, 1.0]] * 4)), base)
    x = d.sample_n(7)
    assert (x.shape, d.log_prob(x).shape, d.sample().shape) == ((7, 4, 3), (7, 4), (4, 3))
    np.testing.assert_allclose(d.mean.asnumpy(), np.arange(24.0).reshape(4, 2, 3)[:, 1])
    second = mgp.Independent(mgp.Normal(double(np.arange(24.0).reshape(4, 2, 3)[:, 1]), 1.0), 1)
    np.testing.assert_allclose(d.log_prob(x).asnumpy(), second.log_prob(x).asnumpy())


@pytest.mark.parametrize(
    "component",
    [
        mgp.Normal(double([-1.0, 1.0]), 0.1),
        mgp.Independent(mgp.Normal(double([[-1.0] * 3, [1.0] * 3]), 0.1), 1),
        mgp.TransformedDistribution(mgp.Normal(double([-1.0, 1.0]), 0.1), mgp.AffineTransform(0.0, 1.0)),
        mgp.Normal(0.0, 1.0),
    ],
    ids=["numbers", "vectors", "transformed", "equal"],
)
def test_rows_of_a_mixture_are_drawn_apart(component: Any) -> None:
    """Components that broadcast with the mixture's weights: each row has draws of its own."""
    random.seed(8)
    d = mgp.MixtureSameFamily(mgp.Categorical(2, prob=double([[0.5, 0.5]] * 2)), component)
    event = (3,) if component.event_dim else ()
    assert d.sample().shape == (2, *event)
    assert d.sample((4, 2)).shape == (4, 2, *event)
    drawn = d.sample_n(4000)
    assert drawn.shape == (4000, 2, *event)
    assert abs(np.corrcoef(drawn.asnumpy().reshape(4000, 2, -1)[:, :, 0].T)[0, 1]) < 5 / np.sqrt(4000)


def of_inputs(name: str, a: Any, b: Any) -> Any:
    """A distribution of arrays or symbols."""
    if name == "Mixture":
        return mgp.MixtureSameFamily(mgp.Categorical(3, logit=a), mgp.Normal(b, 1.0))
    if name == "Independent":
        return mgp.Independent(mgp.Normal(b, 0.5), 1)
    if name == "Transformed":
        return mgp.TransformedDistribution(
            mgp.Normal(b, 0.5), [mgp.ExpTransform(), mgp.AffineTransform(0.0, a)]
        )
    if name == "Dirichlet":
        return mgp.Dirichlet(a)
    if name == "MultivariateNormal":
        return mgp.MultivariateNormal(b, scale_tril=a)
    if name == "RelaxedOneHotCategorical":
        return mgp.RelaxedOneHotCategorical(0.6, 3, logit=b)
    if name == "RelaxedBernoulli":
        return mgp.RelaxedBernoulli(0.6, logit=b)
    if name == "Multinomial":
        return mgp.Multinomial(3, logit=b, total_count=4)
    return getattr(mgp, name)(3, logit=b)


#: whose `sample` takes a shape with all axes
WIDE = {"Independent", "RelaxedBernoulli", "Transformed"}


class Density(HybridBlock):
    """Samples and the density of other outcomes."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def hybrid_forward(self, F: Any, a: Any, b: Any, x: Any) -> Any:
        d = of_inputs(self._name, a, b)
        return d.sample(), d.sample_n(4), d.sample((5, 2, 3) if self._name in WIDE else (5, 2)), d.log_prob(x)


@pytest.mark.parametrize(
    "name",
    ["Categorical", "OneHotCategorical", "Multinomial", "Dirichlet", "MultivariateNormal", "Independent",
     "RelaxedBernoulli", "RelaxedOneHotCategorical", "Transformed", "Mixture"],
)  # fmt: skip
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.filterwarnings("ignore:.*of the HybridBlock are not used")
def test_graphs_compute_the_same(name: str, dtype: str) -> None:
    rng = np.random.default_rng(2)
    a = rng.uniform(0.5, 2.0, (2, 3))
    if name == "MultivariateNormal":
        a = np.tril(rng.uniform(0.5, 1.0, (2, 3, 3)))
    b = rng.normal(size=(2, 3))
    x = {"Categorical": [1.0, 2.0], "Mixture": [1.0, 2.0]}.get(name, np.tile(POINT, (2, 1)))
    x = np.ones((2, 3)) if name in ("OneHotCategorical", "Multinomial") else x
    inputs = [nd.array(each, dtype=dtype) for each in (a, b, x)]
    found = []
    for active in (False, True):
        net = Density(name)
        net.hybridize(active)
        random.seed(5)
        found.append(net(*inputs))
    for left, right in zip(*found):
        assert left.dtype == right.dtype == np.dtype(dtype)
        tolerance = 2e-5 if dtype == "float32" else 1e-10
        np.testing.assert_allclose(right.asnumpy(), left.asnumpy(), rtol=tolerance, atol=tolerance)
