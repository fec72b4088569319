# SPDX-License-Identifier: Apache-2.0
"""Distributions of float16 and bfloat16: formulas compute in float32, and what they give is rounded once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mx_gluon import probability as mgp
from mx_gluon.block import HybridBlock
from mx_ndarray import NDArray, autograd, nd, random

NARROW = ["float16", "bfloat16"]
#: distributions of arrays that `a` makes, each with parameters that are hard for 16 bits
CASES: dict[str, Any] = {
    "Normal": lambda a: mgp.Normal(a(3.0), a(100.0)),
    "HalfNormal": lambda a: mgp.HalfNormal(a(100.0)),
    "Laplace": lambda a: mgp.Laplace(a(3.0), a(100.0)),
    "Cauchy": lambda a: mgp.Cauchy(a(0.5), a(0.1)),
    "HalfCauchy": lambda a: mgp.HalfCauchy(a(0.1)),
    "Uniform": lambda a: mgp.Uniform(a(-1.0), a(2.0)),
    "Exponential": lambda a: mgp.Exponential(a(0.01)),
    "Gumbel": lambda a: mgp.Gumbel(a(0.5), a(2.0)),
    "Weibull": lambda a: mgp.Weibull(a(0.5), a(0.1)),
    "Pareto": lambda a: mgp.Pareto(a(3.0), a(2.0)),
    "Gamma": lambda a: mgp.Gamma(a(0.05), a(2.0)),
    "Chi2": lambda a: mgp.Chi2(a(0.1)),
    "Beta": lambda a: mgp.Beta(a(0.1), a(0.1)),
    "Beta of many": lambda a: mgp.Beta(a(5e4), a(5e4)),
    "FisherSnedecor": lambda a: mgp.FisherSnedecor(a(1.0), a(4.0)),
    "StudentT": lambda a: mgp.StudentT(a(2.0), a(0.5), a(2.0)),
    "Dirichlet": lambda a: mgp.Dirichlet(a([0.05, 0.05, 0.05])),
    "Dirichlet of many": lambda a: mgp.Dirichlet(a([1e4] * 10)),
    "MultivariateNormal": lambda a: mgp.MultivariateNormal(a([0.0, 1.0]), a([[2.0, 0.5], [0.5, 1.0]])),
    "Bernoulli": lambda a: mgp.Bernoulli(prob=a(0.001)),
    "Binomial": lambda a: mgp.Binomial(40, prob=a(0.3)),
    "Geometric": lambda a: mgp.Geometric(prob=a(0.01)),
    "NegativeBinomial": lambda a: mgp.NegativeBinomial(a(2.5), prob=a(0.01)),
    "Poisson": lambda a: mgp.Poisson(a(2e4)),
    "Categorical": lambda a: mgp.Categorical(3, logit=a([0.1, 5.0, -3.0])),
    "OneHotCategorical": lambda a: mgp.OneHotCategorical(3, prob=a([0.25, 0.25, 0.5])),
    "Multinomial": lambda a: mgp.Multinomial(3, prob=a([0.25, 0.25, 0.5]), total_count=20),
    "RelaxedBernoulli": lambda a: mgp.RelaxedBernoulli(a(0.1), prob=a(0.5)),
    "RelaxedOneHotCategorical": lambda a: mgp.RelaxedOneHotCategorical(0.1, 3, logit=a([0.0, 1.0, 2.0])),
    "MixtureSameFamily": lambda a: mgp.MixtureSameFamily(
        mgp.Categorical(2, prob=a([0.5, 0.5])), mgp.Cauchy(a([0.0, 3.0]), a([0.1, 0.1]))
    ),
}


def arrays(dtype: str) -> Any:
    def array(values: Any) -> NDArray:
        return nd.array(np.atleast_1d(np.asarray(values, dtype=np.float32))).astype(dtype)

    return array


def plain(value: NDArray) -> np.ndarray:
    return value.asnumpy().astype(np.float64)


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("name", CASES)
def test_samples_and_their_densities_are_finite(name: str, dtype: str) -> None:
    random.seed(7)
    d = CASES[name](arrays(dtype))
    drawn = d.sample_n(3000)
    assert drawn.dtype.__name__ == ("float32" if name == "Categorical" else dtype)
    assert np.isfinite(plain(drawn)).all()
    found = d.log_prob(drawn)
    assert found.dtype.__name__ == dtype
    assert np.isfinite(plain(found)).all()


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("name", [name for name in CASES if "Relaxed" not in name])
def test_densities_are_those_of_float32_rounded(name: str, dtype: str) -> None:
    random.seed(7)
    array = arrays(dtype)
    narrow, wide = CASES[name](array), CASES[name](lambda values: array(values).astype("float32"))
    drawn = narrow.sample_n(200)
    expected = plain(wide.log_prob(drawn.astype("float32")))
    steps = 2.0**-10 if dtype == "float16" else 2.0**-7
    np.testing.assert_allclose(plain(narrow.log_prob(drawn)), expected, rtol=steps, atol=steps)
    for moment in ("mean", "variance", "stddev"):
        try:
            exact = plain(getattr(wide, moment))
        except NotImplementedError:
            continue
        got = getattr(narrow, moment)
        assert got.dtype.__name__ == dtype
        largest = 65504.0 if dtype == "float16" else 3e38
        inside = np.abs(exact) < largest
        np.testing.assert_allclose(plain(got)[inside], exact[inside], rtol=4 * steps, atol=1e-7)


@pytest.mark.parametrize("dtype", NARROW)
def test_means_of_samples(dtype: str) -> None:
    """Draws in 16 bits have few values, and those of small probability none."""
    random.seed(5)
    array = arrays(dtype)
    for d, mean, error in (
        (mgp.Bernoulli(prob=array(0.001)), 0.001, 0.0002),
        (mgp.Beta(array(0.1), array(0.3)), 0.25, 0.01),
        (mgp.Beta(array(5e4), array(5e4)), 0.5, 0.002),
        (mgp.Dirichlet(array([0.05, 0.15])), [0.25, 0.75], 0.01),
        (mgp.Poisson(array(200.0)), 200.0, 0.5),
    ):
        np.testing.assert_allclose(plain(d.sample_n(40000)).mean(0).ravel(), mean, atol=error)


def test_small_shapes_in_wide_types() -> None:
    """Gamma numbers of shape 0.001 are 0 in float64, their quotients are not NaN."""
    random.seed(5)
    for dtype in ("float32", "float64"):
        tiny = nd.full((5000, 2), 0.001, dtype=dtype)
        for d in (mgp.Beta(tiny, tiny), mgp.Dirichlet(tiny), mgp.Gamma(tiny)):
            drawn = d.sample()
            assert (drawn.asnumpy() > 0).all() and np.isfinite(drawn.asnumpy()).all()
            assert np.isfinite(d.log_prob(drawn).asnumpy()).all()
        means = (
            mgp.Beta(tiny, 3 * tiny).sample().asnumpy().mean(),
            mgp.Dirichlet(tiny).sample().asnumpy().mean(),
        )
        np.testing.assert_allclose(means, [0.25, 0.5], atol=0.03)


@pytest.mark.parametrize("dtype", NARROW)
def test_events_of_many(dtype: str) -> None:
    count = 2100
    logit = np.zeros(count, np.float32)
    logit[2051] = 50.0
    narrow = nd.array(logit).astype(dtype)
    c = mgp.Categorical(count, logit=narrow)
    for label in ("int32", "int64", "float32"):
        assert c.log_prob(nd.array([2051], dtype=label)).asscalar() == 0
    assert c.log_prob(2051).asscalar() == 0
    assert c.sample_n(3).asnumpy().ravel().tolist() == [2051.0] * 3
    assert c.enumerate_support().asnumpy().ravel().tolist() == list(range(count))
    o = mgp.OneHotCategorical(count, logit=narrow)
    assert plain(o.sample()).argmax() == 2051
    assert (plain(o.enumerate_support())[:, 0] == np.eye(count)).all()


@pytest.mark.parametrize("dtype", NARROW)
def test_gradients_flow_in_the_type_of_the_parameters(dtype: str) -> None:
    loc = nd.zeros((2,), dtype=dtype)
    loc.attach_grad()
    with autograd.record():
        found = (
            mgp.Normal(loc, 1.0).log_prob(nd.ones((2,), dtype=dtype)).sum()
            + mgp.Normal(loc, 1.0).sample().sum()
        )
    found.backward()
    assert loc.grad.dtype.__name__ == dtype
    assert plain(loc.grad).tolist() == [2.0, 2.0]


@pytest.mark.parametrize("dtype", NARROW)
def test_divergences_are_those_of_float32_rounded(dtype: str) -> None:
    """Squares of 300 and gammaln(2e4) are beyond float16; the divergences are not."""
    array = arrays(dtype)
    for make in (
        lambda a, k: mgp.Normal(a(300.0 * k), a(400.0)),
        lambda a, k: mgp.Gamma(a(2e4), a(1.0 + k / 128)),
        lambda a, k: mgp.Beta(a(2e4), a(2e4 + 128 * k)),
        lambda a, k: mgp.Categorical(2, prob=a([0.25, 0.75][:: 1 if k else -1])),
        lambda a, k: mgp.Independent(mgp.Normal(a([300.0 * k] * 2), a(400.0)), 1),
    ):
        p, q = (make(array, k) for k in (0, 1))
        exact = mgp.kl_divergence(*(make(lambda v: array(v).astype("float32"), k) for k in (0, 1)))
        found = mgp.kl_divergence(p, q)
        assert found.dtype.__name__ == dtype
        np.testing.assert_allclose(plain(found), plain(exact), rtol=2.0**-7)


class Narrow(HybridBlock):
    """A density of its input, or draws like it."""

    def __init__(self, method: str) -> None:
        super().__init__()
        self._method = method

    def hybrid_forward(self, F: Any, a: Any, x: Any) -> Any:
        if self._method == "events":
            return mgp.Categorical(3, logit=a).log_prob(x)
        if self._method == "relaxed":
            return mgp.RelaxedBernoulli(a, logit=x).sample()
        if self._method == "divergence":
            return mgp.kl_divergence(mgp.Normal(x, a), mgp.Normal(0.0, 40.0))
        d = mgp.Cauchy(a, 0.1) if self._method == "log_prob" else mgp.Beta(a, a)
        return d.log_prob(x) if self._method == "log_prob" else d.sample()


@pytest.mark.parametrize("method", ["log_prob", "sample", "events", "relaxed", "divergence"])
@pytest.mark.filterwarnings("ignore:.*of the HybridBlock are not used")
def test_graphs_of_float16(method: str) -> None:
    a = nd.array([0.1, 0.2, 0.3], dtype="float16")
    x = nd.array([0.0, 2.0, 1.0] if method == "events" else [1000.0, 2.0, 3.0], dtype="float16")
    results = []
    for active in (False, True):
        net = Narrow(method)
        net.hybridize(active)
        random.seed(5)
        results.append(net(a, x))
    assert results[0].dtype == results[1].dtype == np.float16
    assert np.isfinite(plain(results[0])).all()
    np.testing.assert_allclose(plain(results[1]), plain(results[0]), rtol=1e-3)


@pytest.mark.parametrize("dtype", [*NARROW, "float32"])
def test_a_sigmoid_stays_inside(dtype: str) -> None:
    t = mgp.SigmoidTransform()
    ends = nd.array([0.0, 1.0]).astype(dtype)
    assert np.isfinite(plain(t.inv(ends))).all()
    inside = plain(t(nd.array([-500.0, 500.0]).astype(dtype)))
    assert (inside > 0).all() and (inside < 1).all()
