# SPDX-License-Identifier: Apache-2.0
"""Kullback-Leibler divergences against quadrature, sums and SciPy, and their registry."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from mx_core.errors import ArgumentError
from mx_gluon import probability as mgp
from mx_gluon.block import HybridBlock
from mx_ndarray import NDArray, autograd, nd, random

#: of one family: two sets of parameters
FAMILIES: list[tuple[Any, dict[str, float], dict[str, float]]] = [
    (mgp.Normal, {"loc": 0.5, "scale": 2.0}, {"loc": -0.5, "scale": 1.2}),
    (mgp.HalfNormal, {"scale": 2.0}, {"scale": 1.2}),
    (mgp.Laplace, {"loc": 0.5, "scale": 2.0}, {"loc": -0.5, "scale": 1.2}),
    (mgp.Cauchy, {"loc": 0.5, "scale": 2.0}, {"loc": -0.5, "scale": 1.2}),
    (mgp.Uniform, {"low": 0.0, "high": 1.0}, {"low": -1.0, "high": 1.5}),
    (mgp.Exponential, {"scale": 2.0}, {"scale": 1.2}),
    (mgp.Pareto, {"alpha": 3.0, "scale": 2.0}, {"alpha": 2.0, "scale": 1.5}),
    (mgp.Gumbel, {"loc": 0.5, "scale": 2.0}, {"loc": -0.5, "scale": 1.7}),
    (mgp.Gamma, {"shape": 1.7, "scale": 2.0}, {"shape": 2.5, "scale": 1.2}),
    (mgp.Chi2, {"df": 3.0}, {"df": 5.0}),
    (mgp.Beta, {"alpha": 1.7, "beta": 2.0}, {"alpha": 2.5, "beta": 1.2}),
]
COUNTS: list[tuple[Any, dict[str, Any], dict[str, Any]]] = [
    (mgp.Poisson, {"rate": 2.0}, {"rate": 3.0}),
    (mgp.Geometric, {"prob": 0.3}, {"prob": 0.5}),
    (mgp.Bernoulli, {"prob": 0.3}, {"prob": 0.5}),
    (mgp.Binomial, {"n": 5, "prob": 0.3}, {"n": 5, "prob": 0.5}),
    (mgp.Binomial, {"n": 3, "prob": 0.3}, {"n": 5, "prob": 0.5}),
]
#: of two families
BETWEEN: list[tuple[Any, Any]] = [
    (mgp.Uniform(-1.0, 2.0), mgp.Normal(0.5, 1.5)),
    (mgp.Uniform(-1.0, 2.0), mgp.Gumbel(0.5, 1.5)),
    (mgp.Exponential(0.7), mgp.Normal(0.5, 1.5)),
    (mgp.Exponential(0.7), mgp.Gumbel(0.5, 1.5)),
    (mgp.Exponential(0.7), mgp.Gamma(1.7, 1.5)),
    (mgp.Chi2(3.0), mgp.Gamma(1.7, 1.5)),
]


def double(values: Any) -> NDArray:
    return nd.array(np.asarray(values), dtype="float64")


def number(value: Any) -> float:
    return float(value.asscalar()) if isinstance(value, NDArray) else float(value)


def by_quadrature(p: Any, q: Any) -> float:
    ends = {
        mgp.Uniform: lambda: (p.low, p.high),
        mgp.Pareto: lambda: (p.scale, np.inf),
        mgp.Beta: lambda: (0.0, 1.0),
    }
    positive = (mgp.HalfNormal, mgp.Exponential, mgp.Gamma)
    low, high = (
        ends[type(p)]() if type(p) in ends else ((0.0 if isinstance(p, positive) else -np.inf), np.inf)
    )

    def integrand(x: float) -> float:
        log_p = p.log_prob(x)
        return float(np.exp(log_p) * (log_p - q.log_prob(x))) if np.exp(log_p) > 0 else 0.0

    middle = [0.0] if low == -np.inf else []
    edges = [low, *middle, high]
    return sum(integrate.quad(integrand, a, b, limit=200)[0] for a, b in itertools.pairwise(edges))


@pytest.mark.parametrize("case", FAMILIES, ids=lambda case: case[0].__name__)
def test_of_one_family(case: Any) -> None:
    kind, first, second = case
    p, q = kind(**first), kind(**second)
    expected = by_quadrature(p, q)
    assert expected > 1e-3
    np.testing.assert_allclose(mgp.kl_divergence(p, q), expected, rtol=1e-6)
    arrays = [kind(**{name: double([value]) for name, value in each.items()}) for each in (first, second)]
    np.testing.assert_allclose(number(mgp.kl_divergence(*arrays)), expected, rtol=1e-6)
    assert abs(number(mgp.kl_divergence(p, p))) < 1e-12


@pytest.mark.parametrize(
    "case", BETWEEN, ids=lambda case: f"{type(case[0]).__name__}-{type(case[1]).__name__}"
)
def test_of_two_families(case: Any) -> None:
    np.testing.assert_allclose(number(mgp.kl_divergence(*case)), by_quadrature(*case), rtol=1e-6)


@pytest.mark.parametrize("case", COUNTS, ids=lambda case: case[0].__name__)
def test_of_counts(case: Any) -> None:
    kind, first, second = case
    p, q = kind(**first), kind(**second)
    last = {mgp.Bernoulli: 1, mgp.Binomial: first.get("n", 0)}.get(kind, 150)
    counts = double(np.arange(last + 1.0))
    log_p, log_q = p.log_prob(counts).asnumpy(), q.log_prob(counts).asnumpy()
    np.testing.assert_allclose(number(mgp.kl_divergence(p, q)), np.exp(log_p) @ (log_p - log_q), rtol=1e-9)


def test_of_events() -> None:
    a, b = np.array([[0.2, 0.3, 0.5], [0.0, 0.1, 0.9]]), np.array([0.3, 0.3, 0.4])
    for kind in (mgp.Categorical, mgp.OneHotCategorical):
        found = mgp.kl_divergence(kind(3, prob=double(a)), kind(3, logit=double(np.log(b) - 1)))
        np.testing.assert_allclose(found.asnumpy(), stats.entropy(a.T, b[:, None] * np.ones((3, 2))))


def test_of_dirichlet() -> None:
    p, q = double([1.5, 2.0, 0.7]), double([1.0, 0.5, 2.5])
    random.seed(2)
    exact = mgp.kl_divergence(mgp.Dirichlet(p), mgp.Dirichlet(q)).asscalar()
    estimates = [mgp.empirical_kl(mgp.Dirichlet(p), mgp.Dirichlet(q), 4000).asscalar() for _ in range(10)]
    assert abs(np.mean(estimates) - exact) < 5 * np.std(estimates, ddof=1) / np.sqrt(10)
    # two parameters are those of a beta distribution
    np.testing.assert_allclose(
        mgp.kl_divergence(mgp.Dirichlet(double([1.5, 2.0])), mgp.Dirichlet(double([0.5, 2.5]))).asscalar(),
        mgp.kl_divergence(mgp.Beta(1.5, 2.0), mgp.Beta(0.5, 2.5)),
    )


def test_of_multivariate_normals() -> None:
    rng = np.random.default_rng(3)
    covs = [a @ a.swapaxes(-1, -2) + np.eye(3) for a in rng.normal(size=(2, 4, 3, 3))]
    locs = rng.normal(size=(2, 4, 3))
    p = mgp.MultivariateNormal(double(locs[0]), double(covs[0]))
    q = mgp.MultivariateNormal(double(locs[1][:1]), precision=double(np.linalg.inv(covs[1][:1])))
    inverse, difference = np.linalg.inv(covs[1][:1]), locs[1][:1] - locs[0]
    expected = 0.5 * (
        np.trace(inverse @ covs[0], axis1=-2, axis2=-1)
        + np.einsum("ni,nij,nj->n", difference, inverse + np.zeros((4, 3, 3)), difference)
        - 3
        + np.linalg.slogdet(covs[1][:1])[1]
        - np.linalg.slogdet(covs[0])[1]
    )
    np.testing.assert_allclose(mgp.kl_divergence(p, q).asnumpy(), expected, rtol=1e-9)


def test_of_independent_variables() -> None:
    loc = double([[0.0, 1.0], [2.0, 3.0]])
    p, q = mgp.Normal(loc, 1.0), mgp.Normal(0.0, 2.0)
    inner = mgp.kl_divergence(p, q).asnumpy()
    found = mgp.kl_divergence(mgp.Independent(p, 1), mgp.Independent(q, 1))
    np.testing.assert_allclose(found.asnumpy(), inner.sum(-1))
    same = mgp.kl_divergence(
        mgp.Independent(mgp.HalfNormal(nd.ones((2, 3))), 1), mgp.Independent(mgp.HalfNormal(2.0), 1)
    )
    assert same.shape == (2,)
    with pytest.raises(NotImplementedError, match="have to be equal, got 1 and 2"):
        mgp.kl_divergence(mgp.Independent(p, 1), mgp.Independent(p, 2))


def test_where_it_is_infinite() -> None:
    p = mgp.Uniform(double([0.0, 0.0]), 1.0)
    found = mgp.kl_divergence(p, mgp.Uniform(double([0.0, 0.5]), 1.0)).asnumpy()
    assert found.tolist() == [0.0, np.inf]
    assert mgp.kl_divergence(mgp.Pareto(2.0, 1.0), mgp.Pareto(2.0, 1.5)) == np.inf
    assert mgp.kl_divergence(mgp.Binomial(5, 0.5), mgp.Binomial(4, 0.5)) == np.inf
    assert mgp.kl_divergence(mgp.Bernoulli(0.5), mgp.Bernoulli(1.0)) == np.inf
    assert mgp.kl_divergence(mgp.Bernoulli(1.0), mgp.Bernoulli(1.0)) == 0.0


def test_pairs_are_registered() -> None:
    class Mine(mgp.Normal):
        pass

    assert mgp.kl_divergence(Mine(1.0, 1.0), mgp.Normal(0.0, 1.0)) == 0.5  # as its base class

    @mgp.register_kl(Mine, mgp.Normal)
    def divergence(p: Any, q: Any) -> Any:
        return 7.0

    assert mgp.kl_divergence(Mine(), mgp.Normal()) == 7.0
    assert mgp.kl_divergence(mgp.Normal(), Mine()) == 0.0
    with pytest.raises(ArgumentError, match="Mine and Normal have .* already"):
        mgp.register_kl(Mine, mgp.Normal)(divergence)
    with pytest.raises(ArgumentError, match="two parameters, p and q, got 1"):
        mgp.register_kl(Mine, Mine)(lambda p: p)
    with pytest.raises(ArgumentError, match="expected a class of distributions, got 3"):
        mgp.register_kl(3, Mine)  # type: ignore[arg-type]
    with pytest.raises(NotImplementedError, match="no formula for Cauchy and Normal; register_kl adds one"):
        mgp.kl_divergence(mgp.Cauchy(), mgp.Normal())


def test_an_estimate_from_samples() -> None:
    random.seed(1)
    p, q = mgp.Normal(double([0.0, 1.0]), 1.0), mgp.StudentT(4.0)
    estimates = mgp.empirical_kl(p, q, 20000)
    assert estimates.shape == (2,)
    for loc, found in zip((0.0, 1.0), estimates.asnumpy()):
        assert abs(found - by_quadrature(mgp.Normal(loc, 1.0), mgp.StudentT(4.0))) < 0.02


class Between(HybridBlock):
    """The divergence of normal variables from a standard one."""

    def hybrid_forward(self, F: Any, loc: Any, scale: Any) -> Any:
        return mgp.kl_divergence(mgp.Normal(loc, scale), mgp.Normal(0.0, 1.0))


def test_graphs_and_gradients() -> None:
    loc, scale = double([0.5, -1.0]), double([0.5, 2.0])
    found = []
    for active in (False, True):
        net = Between()
        net.hybridize(active)
        for each in (loc, scale):
            each.attach_grad()
        with autograd.record():
            divergence = net(loc, scale)
        divergence.backward()
        found.append((divergence.asnumpy(), loc.grad.asnumpy(), scale.grad.asnumpy()))
    for left, right in zip(*found):
        np.testing.assert_allclose(right, left)
    np.testing.assert_allclose(found[0][1], loc.asnumpy())
    np.testing.assert_allclose(found[0][2], scale.asnumpy() - 1 / scale.asnumpy())
