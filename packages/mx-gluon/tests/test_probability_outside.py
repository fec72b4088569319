# SPDX-License-Identifier: Apache-2.0
"""What is outside of a support, has no weight, or is no size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from mx_core.errors import ArgumentError
from mx_gluon import probability as mgp
from mx_ndarray import autograd, nd, random

TYPES = ["float16", "bfloat16", "float32", "float64"]


def of(values: Any, dtype: str = "float64") -> Any:
    return nd.array(np.asarray(values, dtype=np.float64), dtype="float64").astype(dtype)


def test_components_that_are_not_drawn_do_not_count() -> None:
    random.seed(3)
    weights = mgp.Categorical(2, prob=of([0.9, 0.1], "float32"))
    drawn = mgp.MixtureSameFamily(weights, mgp.Pareto(of([2.0, 0.005], "float32"))).sample((4000,)).asnumpy()
    assert not np.isnan(drawn).any()
    assert np.isinf(drawn).any()
    first = mgp.MixtureSameFamily(mgp.Categorical(2, prob=of([1.0, 0.0])), mgp.Pareto(of([3.0, 0.5])))
    assert first.mean.asnumpy().tolist() == [1.5]
    assert first.variance.asscalar() == pytest.approx(0.75)


def test_a_component_of_weight_zero_has_a_gradient() -> None:
    prob = of([1.0, 0.0])
    prob.attach_grad()
    with autograd.record():
        mean = mgp.MixtureSameFamily(mgp.Categorical(2, prob=prob), mgp.Normal(of([2.0, 5.0]), 1.0)).mean
    mean.backward()
    assert prob.grad.asnumpy().tolist() == [2.0, 5.0]


@pytest.mark.parametrize("dtype", TYPES)
def test_a_mixture_outside_of_its_support(dtype: str) -> None:
    prob, scale = of([0.5, 0.5], dtype), of([1.0, 2.0], dtype)
    for each in (prob, scale):
        each.attach_grad()
    with autograd.record():
        d = mgp.MixtureSameFamily(mgp.Categorical(2, prob=prob), mgp.Exponential(scale))
        found = d.log_prob(of([-1.0, 1.0], dtype))
    found.backward()
    assert found.dtype == scale.dtype
    expected = np.log(0.5 * np.exp(-1) + 0.25 * np.exp(-0.5))
    np.testing.assert_allclose(found.asnumpy().astype(float), [-np.inf, expected], rtol=1e-2)
    for each in (prob, scale):
        assert np.isfinite(each.grad.asnumpy().astype(float)).all()


def test_counts_outside_of_the_support() -> None:
    prob = of([0.25])
    for d, outside in (
        (mgp.Geometric(prob), [-1.0]),
        (mgp.NegativeBinomial(1.0, prob), [-1.0, -2.0]),
        (mgp.Binomial(3, prob), [-1.0, 4.0]),
        (mgp.Poisson(of([2.0])), [-1.0, -3.0]),
        (mgp.Categorical(3, prob=of([0.25, 0.25, 0.5])), [-1.0, 3.0]),
    ):
        assert np.isneginf(d.log_prob(of(outside)).asnumpy()).all(), d
        assert (d.pdf(of(outside)).asnumpy() == 0).all()


def test_a_rate_of_zero() -> None:
    found = mgp.Poisson(of([0.0])).log_prob(of([0.0, 1.0]))
    assert found.asnumpy().tolist() == [0.0, -np.inf]
    assert mgp.Poisson(0.0).log_prob(0.0) == 0.0


TRANSFORMED = [
    (mgp.ExpTransform(), [-1.0, 0.0], [], stats.lognorm(1.0)),
    (mgp.SigmoidTransform(), [-0.5], [1.5], None),
    (mgp.ComposeTransform([mgp.ExpTransform(), mgp.AffineTransform(1.0, 2.0)]), [0.5], [], None),
    (mgp.ComposeTransform([mgp.ExpTransform(), mgp.AffineTransform(1.0, -2.0)]), [], [1.5], None),
    (mgp.ComposeTransform([mgp.ExpTransform(), mgp.PowerTransform(-0.5)]), [-1.0], [], None),
]


@pytest.mark.parametrize("base", [mgp.Normal, mgp.Cauchy], ids=lambda base: base.__name__)
@pytest.mark.parametrize(("transform", "below", "above", "known"), TRANSFORMED)
def test_what_a_transformation_never_gives(
    base: Any, transform: Any, below: list[float], above: list[float], known: Any
) -> None:
    loc = of([0.0])
    loc.attach_grad()
    outside = below + above
    with autograd.record():
        d = mgp.TransformedDistribution(base(loc, 1.0), transform)
        found = d.log_prob(of(outside))
    found.backward()
    assert np.isneginf(found.asnumpy()).all()
    assert loc.grad.asscalar() == 0.0
    assert d.cdf(of(outside)).asnumpy().tolist() == [0.0] * len(below) + [1.0] * len(above)
    if base is mgp.Cauchy:
        return  # exp of its samples overflows
    inside = d.sample_n(20)
    assert np.isfinite(d.log_prob(inside).asnumpy()).all()
    if known is not None:
        np.testing.assert_allclose(d.log_prob(inside).asnumpy(), known.logpdf(inside.asnumpy()))


def test_vectors_that_a_transformation_never_gives() -> None:
    base = mgp.MultivariateNormal(of([0.0, 0.0]), of(np.eye(2)))
    d = mgp.TransformedDistribution(base, mgp.ExpTransform())
    found = d.log_prob(of([[1.0, 2.0], [1.0, -2.0]])).asnumpy()
    np.testing.assert_allclose(found, [stats.lognorm(1.0).logpdf([1.0, 2.0]).sum(), -np.inf])


@pytest.mark.parametrize("size", [2.5, "ab", (2, 2.5), -1, (3, -1)])
def test_what_is_no_size(size: Any) -> None:
    for method in ("sample", "sample_n", "broadcast_to"):
        with pytest.raises(
            ArgumentError, match="size: expected an integer from 0 or a shape of them, got "
        ) as error:
            getattr(mgp.Normal(), method)(size)
        assert repr(size) in str(error.value)


def slopes(make: Any, values: Any, outcomes: Any = None) -> list[float]:
    """Derivatives of log-probabilities, or of the entropy, by parameters."""
    given = of(values)
    given.attach_grad()
    with autograd.record():
        d = make(given)
        total = d.entropy().sum() if outcomes is None else d.log_prob(of(outcomes)).sum()
    total.backward()
    assert np.isfinite(total.asscalar())
    return list(given.grad.asnumpy())


def test_gradients_at_probabilities_of_zero_and_one() -> None:
    """0 * log 0 is 0, and so is its derivative by what is not drawn."""
    assert slopes(mgp.Bernoulli, [0.0, 1.0], [0.0, 1.0]) == [-1.0, 1.0]
    assert slopes(lambda p: mgp.Binomial(2, prob=p), [0.0, 1.0], [0.0, 2.0]) == [-2.0, 2.0]
    assert slopes(mgp.Geometric, [1.0], [0.0]) == [1.0]
    assert slopes(lambda p: mgp.NegativeBinomial(2.0, prob=p), [1.0], [0.0]) == [2.0]
    assert slopes(mgp.Poisson, [0.0], [0.0]) == [-1.0]
    events = [0.0, 0.5, 0.5]
    assert slopes(lambda p: mgp.Categorical(3, prob=p), events, [1.0]) == [0.0, 2.0, 0.0]
    assert slopes(lambda p: mgp.OneHotCategorical(3, prob=p), events, [0.0, 1.0, 0.0]) == [0.0, 2.0, 0.0]
    counts = [0.0, 1.0, 2.0]
    assert slopes(lambda p: mgp.Multinomial(3, prob=p, total_count=3), events, counts) == [0.0, 2.0, 4.0]
    for make, values in ((mgp.Bernoulli, [0.0, 1.0]), (lambda p: mgp.Categorical(3, prob=p), events)):
        assert np.isfinite(slopes(make, values)).all()


def test_divergences_at_probabilities_of_zero() -> None:
    events, others = of([0.0, 0.5, 0.5]), of([0.0, 0.25, 0.75])
    ones, rates = of([0.0, 1.0]), of([0.0, 0.0])
    given = [events, others, ones, rates]
    for each in given:
        each.attach_grad()
    with autograd.record():
        found = [
            mgp.kl_divergence(mgp.Categorical(3, prob=events), mgp.Categorical(3, prob=others)),
            mgp.kl_divergence(mgp.Bernoulli(prob=ones), mgp.Bernoulli(prob=of([0.25, 0.25]))),
            mgp.kl_divergence(mgp.Poisson(rates), mgp.Poisson(of([2.0, 0.0]))),
        ]
        total = sum((each.sum() for each in found), of([0.0]))
    total.backward()
    np.testing.assert_allclose(found[0].asnumpy(), 0.5 * np.log(4 / 3))
    np.testing.assert_allclose(found[1].asnumpy(), -np.log([0.75, 0.25]))
    assert found[2].asnumpy().tolist() == [2.0, 0.0]
    for each in given:
        assert np.isfinite(each.grad.asnumpy()).all()


def test_no_event_of_nan() -> None:
    d = mgp.Categorical(2, prob=of([0.25, 0.75]))
    assert np.isnan(d.log_prob(of([np.nan])).asscalar())


def test_outcomes_have_gradients() -> None:
    """Programs put relaxed outcomes in place of drawn ones; an outcome of 0 has its slope, too."""
    x = of([0.0, 1.0, 0.5])
    x.attach_grad()
    for d in (mgp.Bernoulli(prob=of([0.25])), mgp.Bernoulli(logit=of([-np.log(3.0)]))):
        with autograd.record():
            total = d.log_prob(x).sum()
        total.backward()
        np.testing.assert_allclose(x.grad.asnumpy(), -np.log(3.0))
