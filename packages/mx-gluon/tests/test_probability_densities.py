# SPDX-License-Identifier: Apache-2.0
"""Distributions of numbers: densities, quantiles, entropies and moments against SciPy, samples against both."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from mx_core.errors import ArgumentError
from mx_gluon import probability as mgp
from mx_gluon.block import HybridBlock
from mx_ndarray import NDArray, autograd, nd, random

#: distribution, its parameters, SciPy's
CONTINUOUS: list[tuple[Any, dict[str, float], Any]] = [
    (mgp.Normal, {"loc": 0.5, "scale": 2.0}, stats.norm(0.5, 2.0)),
    (mgp.HalfNormal, {"scale": 2.0}, stats.halfnorm(0, 2.0)),
    (mgp.Laplace, {"loc": 0.5, "scale": 2.0}, stats.laplace(0.5, 2.0)),
    (mgp.Cauchy, {"loc": 0.5, "scale": 2.0}, stats.cauchy(0.5, 2.0)),
    (mgp.HalfCauchy, {"scale": 2.0}, stats.halfcauchy(0, 2.0)),
    (mgp.Uniform, {"low": -1.0, "high": 2.0}, stats.uniform(-1.0, 3.0)),
    (mgp.Exponential, {"scale": 2.0}, stats.expon(0, 2.0)),
    (mgp.Gumbel, {"loc": 0.5, "scale": 2.0}, stats.gumbel_r(0.5, 2.0)),
    (mgp.Weibull, {"concentration": 1.5, "scale": 2.0}, stats.weibull_min(1.5, 0, 2.0)),
    (mgp.Pareto, {"alpha": 3.5, "scale": 2.0}, stats.pareto(3.5, 0, 2.0)),
    (mgp.Gamma, {"shape": 0.7, "scale": 2.0}, stats.gamma(0.7, 0, 2.0)),
    (mgp.Chi2, {"df": 3.0}, stats.chi2(3.0)),
    (mgp.Beta, {"alpha": 0.7, "beta": 2.0}, stats.beta(0.7, 2.0)),
    (mgp.FisherSnedecor, {"df1": 3.0, "df2": 9.0}, stats.f(3.0, 9.0)),
    (mgp.StudentT, {"df": 5.0, "loc": 0.5, "scale": 2.0}, stats.t(5.0, 0.5, 2.0)),
]
DISCRETE: list[tuple[Any, dict[str, float], Any]] = [
    (mgp.Bernoulli, {"prob": 0.3}, stats.bernoulli(0.3)),
    (mgp.Binomial, {"prob": 0.3}, stats.binom(6, 0.3)),
    (mgp.Geometric, {"prob": 0.3}, stats.geom(0.3, loc=-1)),
    (mgp.NegativeBinomial, {"n": 2.5, "prob": 0.3}, stats.nbinom(2.5, 0.3)),
    (mgp.Poisson, {"rate": 2.5}, stats.poisson(2.5)),
]
#: no formula for the distribution function, in MXNet neither
WITHOUT_CDF = {mgp.Gamma, mgp.Chi2, mgp.Beta, mgp.FisherSnedecor, mgp.StudentT}
WITHOUT_ENTROPY = {mgp.Binomial, mgp.NegativeBinomial, mgp.Poisson}
QUANTILES = np.array([0.03, 0.2, 0.5, 0.8, 0.99])


def made(kind: Any, params: dict[str, Any], **more: Any) -> Any:
    return kind(6, **params, **more) if kind is mgp.Binomial else kind(**params, **more)


def arrays(params: dict[str, float], dtype: str = "float64") -> dict[str, NDArray]:
    return {name: nd.array([value], dtype=dtype) for name, value in params.items()}


def numbers(value: Any) -> np.ndarray:
    return value.asnumpy() if isinstance(value, NDArray) else np.asarray(value)


def names(case: Any) -> str:
    return case.__name__ if isinstance(case, type) else ""


def outcomes(known: Any) -> np.ndarray:
    return np.asarray(known.ppf(QUANTILES), dtype=np.float64)


@pytest.mark.parametrize(("kind", "params", "known"), CONTINUOUS + DISCRETE, ids=names)
@pytest.mark.parametrize("dtype", ["float32", "float64", None])
def test_density_and_moments(kind: Any, params: dict[str, float], known: Any, dtype: str | None) -> None:
    d = made(kind, params if dtype is None else arrays(params, dtype), validate_args=True)
    tolerance = {"rtol": 2e-5, "atol": 2e-5} if dtype == "float32" else {"rtol": 1e-10, "atol": 1e-12}
    x = outcomes(known)
    density = known.logpdf if (kind, params, known) in CONTINUOUS else known.logpmf
    found = d.log_prob(nd.array(x, dtype=dtype or "float64"))
    assert found.dtype == np.dtype(dtype or "float64")
    np.testing.assert_allclose(numbers(found), density(x), **tolerance)
    np.testing.assert_allclose(numbers(d.pdf(x[1])).item(), np.exp(density(x[1])), **tolerance)
    mean, variance = known.stats("mv")
    np.testing.assert_allclose(numbers(d.mean).item(), mean, **tolerance)
    np.testing.assert_allclose(numbers(d.variance).item(), variance, **tolerance)
    np.testing.assert_allclose(numbers(d.stddev).item(), np.sqrt(variance), **tolerance)
    if kind in WITHOUT_ENTROPY:
        with pytest.raises(NotImplementedError, match=f"{kind.__name__}.*entropy"):
            d.entropy()
    else:
        np.testing.assert_allclose(numbers(d.entropy()).item(), known.entropy(), **tolerance)
        np.testing.assert_allclose(numbers(d.perplexity()).item(), np.exp(known.entropy()), **tolerance)


@pytest.mark.parametrize(("kind", "params", "known"), CONTINUOUS, ids=names)
def test_distribution_function_and_its_inverse(kind: Any, params: dict[str, float], known: Any) -> None:
    d = kind(**arrays(params))
    x, p = nd.array(outcomes(known), dtype="float64"), nd.array(QUANTILES, dtype="float64")
    if kind in WITHOUT_CDF:
        for method, value in ((d.cdf, x), (d.icdf, p)):
            with pytest.raises(NotImplementedError, match=kind.__name__):
                method(value)
        return
    np.testing.assert_allclose(d.cdf(x).asnumpy(), QUANTILES, rtol=1e-9)
    np.testing.assert_allclose(d.icdf(p).asnumpy(), x.asnumpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("kind", "params", "known"), CONTINUOUS, ids=names)
def test_outside_of_the_support(kind: Any, params: dict[str, float], known: Any) -> None:
    low, high = known.support()
    beyond = [end + sign for end, sign in ((low, -1.0), (high, 1.0)) if np.isfinite(end)]
    parameters = arrays(params)
    for each in parameters.values():
        each.attach_grad()
    for x in beyond:
        with autograd.record():
            found = kind(**parameters).log_prob(nd.array([x], dtype="float64"))
        assert found.asscalar() == -np.inf
        found.backward()
        for each in parameters.values():
            assert np.isfinite(each.grad.asscalar())
        if kind not in WITHOUT_CDF:
            assert numbers(kind(**params).cdf(x)) == known.cdf(x)
        with pytest.raises(ArgumentError, match=rf"\[{kind.__name__}\] value: expected .*, got {x}"):
            kind(**params, validate_args=True).log_prob(x)
    assert np.isnan(kind(**params).log_prob(float("nan")))


@pytest.mark.parametrize(("kind", "params", "known"), CONTINUOUS + DISCRETE, ids=names)
def test_samples(kind: Any, params: dict[str, float], known: Any) -> None:
    """A test of level 1e-4 with a fixed seed: a wrong distribution of this size fails, a right one does not by chance."""
    random.seed(11)
    drawn = made(kind, arrays(params)).sample_n(20000)
    assert drawn.shape == (20000, 1)
    assert drawn.dtype == np.float64
    x = drawn.asnumpy().ravel()
    if (kind, params, known) in CONTINUOUS:
        assert stats.kstest(x, known.cdf).pvalue > 1e-4
    else:
        largest = int(known.ppf(0.99))
        seen = np.append(np.bincount(np.minimum(x, largest + 1).astype(int), minlength=largest + 2), 0)
        expected = 20000 * np.append(known.pmf(np.arange(largest + 1)), known.sf(largest))
        likely = expected > 0
        assert not seen[: len(expected)][~likely].any()
        assert stats.chisquare(seen[: len(expected)][likely], expected[likely]).pvalue > 1e-4


@pytest.mark.parametrize(("kind", "params", "known"), CONTINUOUS + DISCRETE, ids=names)
def test_shapes_of_samples(kind: Any, params: dict[str, float], known: Any) -> None:
    assert made(kind, params).sample().shape == (1,)
    assert made(kind, params).sample((2, 3)).shape == (2, 3)
    assert made(kind, params).sample_n(4).shape == (4,)
    rows = {name: nd.ones((3,)) * value for name, value in params.items()}
    first = next(iter(rows))
    rows[first] = nd.ones((2, 1)) * params[first]
    together = (2, 3) if len(params) > 1 else (2, 1)
    d = made(kind, rows)
    assert d.sample().shape == together
    assert d.sample((5, 2, 3)).shape == (5, 2, 3)
    assert d.sample_n(4).shape == (4, *together)
    assert d.sample_n((4, 5)).shape == (4, 5, *together)
    wide = d.broadcast_to((5, 2, 3))
    assert wide.sample().shape == (5, 2, 3)
    assert wide.log_prob(d.sample((5, 2, 3))).shape == (5, 2, 3)
    assert d.log_prob(d.sample_n(4)).shape == (4, *together)
    with pytest.raises(ArgumentError, match=r"do not broadcast to \(5,\)"):
        d.sample(5)


class Called(HybridBlock):
    """A block that calls methods of a distribution of its inputs."""

    def __init__(self, kind: Any, keys: list[str], method: str) -> None:
        super().__init__()
        self._kind, self._keys, self._method = kind, keys, method

    def hybrid_forward(self, F: Any, *inputs: Any) -> Any:
        params = dict(zip(self._keys, inputs))
        found = getattr(made(self._kind, params, validate_args=True), self._method)
        return found if self._method in ("mean", "variance") else found(*inputs[len(params) :])


@pytest.mark.parametrize(("kind", "params", "known"), CONTINUOUS + DISCRETE, ids=names)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.filterwarnings("ignore:.*of the HybridBlock are not used")
def test_graphs_compute_the_same(kind: Any, params: dict[str, float], known: Any, dtype: str) -> None:
    inputs = [nd.array(np.full((2, 1), value), dtype=dtype) for value in params.values()]
    x = nd.array(outcomes(known), dtype=dtype)
    methods = {"log_prob": [x], "mean": [], "variance": [], "sample": []}
    if kind not in WITHOUT_ENTROPY:
        methods["entropy"] = []
    if kind not in WITHOUT_CDF and known.__class__.__name__ == "rv_continuous_frozen":
        methods["cdf"] = [x]
    for method, more in methods.items():
        results = []
        for active in (False, True):
            net = Called(kind, list(params), method)
            net.hybridize(active)
            random.seed(5)
            results.append(net(*inputs, *more))
        assert results[0].dtype == results[1].dtype == np.dtype(dtype)
        tolerance = 1e-5 if dtype == "float32" else 1e-10
        np.testing.assert_allclose(
            results[1].asnumpy(), results[0].asnumpy(), rtol=tolerance, atol=tolerance, err_msg=method
        )


@pytest.mark.parametrize(("kind", "params", "known"), CONTINUOUS + DISCRETE, ids=names)
def test_gradients_of_densities(kind: Any, params: dict[str, float], known: Any) -> None:
    x = nd.array(outcomes(known)[1:4], dtype="float64")
    if (kind, params, known) not in CONTINUOUS:
        x = nd.array([0.0, 1.0, 1.0], dtype="float64")
    parameters = arrays(params)
    for each in parameters.values():
        each.attach_grad()
    with autograd.record():
        total = made(kind, parameters).log_prob(x).sum()
    total.backward()
    for name, value in params.items():
        step = 1e-6
        ends = [made(kind, {**params, name: value + s}).log_prob(x).sum().asscalar() for s in (step, -step)]
        np.testing.assert_allclose(
            parameters[name].grad.asscalar(), (ends[0] - ends[1]) / (2 * step), rtol=1e-5, atol=1e-6
        )


@pytest.mark.parametrize(("kind", "params", "known"), CONTINUOUS + DISCRETE, ids=names)
def test_gradients_of_samples(kind: Any, params: dict[str, float], known: Any) -> None:
    """With the same noise, samples are functions of the parameters; without has_grad nothing flows."""
    parameters = arrays(params)
    for each in parameters.values():
        each.attach_grad()
        each.grad[:] = 7.0

    def drawn(given: dict[str, Any]) -> NDArray:
        random.seed(3)
        return made(kind, given).sample((20,)).sum()

    with autograd.record():
        total = drawn(parameters)
        if not kind.has_grad:
            total = total + sum((each * 0.0).sum() for each in parameters.values())
    total.backward()
    for name, value in params.items():
        found = parameters[name].grad.asscalar()
        if not kind.has_grad:
            assert found == 0.0
            continue
        ends = [drawn(arrays({**params, name: value + s})).asscalar() for s in (1e-6, -1e-6)]
        np.testing.assert_allclose(found, (ends[0] - ends[1]) / 2e-6, rtol=1e-5, atol=1e-5)


def test_probabilities_of_zero_and_one() -> None:
    sure = mgp.Bernoulli(prob=nd.array([0.0, 1.0], dtype="float64"))
    assert sure.log_prob(nd.array([0.0, 1.0], dtype="float64")).asnumpy().tolist() == [0.0, 0.0]
    assert sure.log_prob(nd.array([1.0, 0.0], dtype="float64")).asnumpy().tolist() == [-np.inf, -np.inf]
    assert sure.entropy().asnumpy().tolist() == [0.0, 0.0]
    far = mgp.Bernoulli(logit=nd.array([-200.0, 0.0, 200.0]))
    np.testing.assert_allclose(far.log_prob(1.0).asnumpy(), [-200.0, -np.log(2), 0.0], rtol=1e-6)
    logit = nd.zeros((1,))
    logit.attach_grad()
    with autograd.record():
        found = mgp.Bernoulli(logit=logit).log_prob(1.0)
    found.backward()
    assert logit.grad.asscalar() == 0.5


def test_log_odds_are_probabilities() -> None:
    for kind, params, known in DISCRETE[:4]:
        logit = float(np.log(0.3 / 0.7))
        given = {name: value for name, value in params.items() if name != "prob"}
        d = made(kind, arrays({**given, "logit": logit}))
        x = np.arange(4.0) if kind is not mgp.Bernoulli else np.arange(2.0)
        np.testing.assert_allclose(d.log_prob(nd.array(x, dtype="float64")).asnumpy(), known.logpmf(x))
        np.testing.assert_allclose(d.mean.asnumpy(), known.mean())
        np.testing.assert_allclose(d.variance.asnumpy(), known.var())
        with pytest.raises(ArgumentError, match="either prob or logit"):
            made(kind, {**params, "logit": 0.0})


def test_outcomes_can_be_listed() -> None:
    assert mgp.Bernoulli(prob=nd.array([0.1, 0.2])).enumerate_support().asnumpy().tolist() == [[0, 0], [1, 1]]
    assert mgp.Binomial(3, prob=0.5).enumerate_support().shape == (4, 1)
    with pytest.raises(NotImplementedError, match=r"\[Normal\] there is no formula for enumerate_support"):
        mgp.Normal().enumerate_support()


def test_integers_are_outcomes() -> None:
    counts = nd.array([2, 3], dtype="int32")
    found = mgp.Poisson(nd.array([0.5, 3.0], dtype="float64")).log_prob(counts)
    np.testing.assert_allclose(found.asnumpy(), stats.poisson([0.5, 3.0]).logpmf([2, 3]))


def test_moments_that_do_not_exist() -> None:
    assert np.isnan(mgp.Cauchy(nd.ones((2,)), 1.0).mean.asnumpy()).all()
    assert mgp.Pareto(nd.array([0.5, 1.5]), 1.0).mean.asnumpy().tolist() == [np.inf, 3.0]
    assert mgp.Pareto(nd.array([0.5, 1.5]), 1.0).variance.asnumpy().tolist() == [np.inf, np.inf]
    t = mgp.StudentT(nd.array([0.5, 1.5, 4.0]))
    np.testing.assert_array_equal(t.mean.asnumpy(), [np.nan, 0.0, 0.0])
    np.testing.assert_array_equal(t.variance.asnumpy(), [np.nan, np.inf, 2.0])
    f = mgp.FisherSnedecor(2.0, nd.array([2.0, 4.0]))
    np.testing.assert_array_equal(f.mean.asnumpy(), [np.nan, 2.0])
    assert np.isnan(f.variance.asnumpy()).all()


def test_parameters_are_checked_on_request() -> None:
    with pytest.raises(ArgumentError, match=r"\[Normal\] scale: expected > 0, got -1.0 at index \(1,\)"):
        mgp.Normal(0.0, nd.array([1.0, -1.0]), validate_args=True)
    with pytest.raises(ArgumentError, match=r"\[Bernoulli\] prob: expected >= 0 and <= 1, got 1.5"):
        mgp.Bernoulli(prob=1.5, validate_args=True)
    with pytest.raises(ArgumentError, match="loc: expected a number, got nan"):
        mgp.Laplace(float("nan"), validate_args=True)
    with pytest.raises(ArgumentError, match=r"value: expected an integer >= 0, got 0.5 at index \(0,\)"):
        mgp.Poisson(1.0, validate_args=True).log_prob(nd.array([0.5]))
    mgp.Distribution.set_default_validate_args(True)
    try:
        with pytest.raises(ArgumentError, match="scale: expected > 0, got 0.0"):
            mgp.Exponential(0.0)
        mgp.Exponential(0.0, validate_args=False)
    finally:
        mgp.Distribution.set_default_validate_args(False)
    with pytest.raises(ArgumentError, match="expected True or False, got 1"):
        mgp.Distribution.set_default_validate_args(1)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match=r"expected a number, an NDArray or a symbol, got \[1.0\]"):
        mgp.Normal([1.0])
    with pytest.raises(ArgumentError, match="n: expected an integer from 0, got -1"):
        mgp.Binomial(-1, prob=0.5)


def test_what_is_shown() -> None:
    assert repr(mgp.Normal(nd.ones((2, 3)), 1.0)) == "Normal(loc=<float32 of shape (2, 3)>, scale=1.0)"
