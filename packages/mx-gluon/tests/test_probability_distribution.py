# SPDX-License-Identifier: Apache-2.0
"""What all distributions share: contexts, copies, graphs without arrays, distributions of one's own."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

from mx_core import cpu
from mx_core.errors import ArgumentError, DTypeError
from mx_gluon import probability as mgp
from mx_gluon.block import HybridBlock
from mx_gluon.probability.values import Value
from mx_ndarray import autograd, nd, random
from mx_symbol import sym


def ones(*shape: int, ctx: Any = None) -> Any:
    return nd.ones(shape, ctx=ctx)


@pytest.mark.parametrize(
    "make",
    [
        lambda c: mgp.Normal(ones(2, ctx=c), 2.0),
        lambda c: mgp.Uniform(0.0, ones(2, ctx=c)),
        lambda c: mgp.Gamma(ones(2, ctx=c), 2.0),
        lambda c: mgp.StudentT(ones(2, ctx=c)),
        lambda c: mgp.Poisson(ones(2, ctx=c)),
        lambda c: mgp.Categorical(3, logit=ones(2, 3, ctx=c)),
        lambda c: mgp.Multinomial(3, logit=ones(2, 3, ctx=c), total_count=2),
        lambda c: mgp.Dirichlet(ones(2, 3, ctx=c)),
        lambda c: mgp.MultivariateNormal(ones(2, 2, ctx=c), nd.eye(2, ctx=c)),
        lambda c: mgp.MixtureSameFamily(mgp.Categorical(3, logit=ones(2, 3, ctx=c)), mgp.Normal(ones(3, ctx=c), 1.0)),
        lambda c: mgp.TransformedDistribution(mgp.Normal(ones(2, ctx=c), 2.0), mgp.ExpTransform()),
    ],
    ids=lambda make: type(make(None)).__name__,
)  # fmt: skip
def test_contexts_and_copies(make: Any) -> None:
    d = make(cpu(1))
    drawn = d.sample_n(3)
    for found in (drawn, d.log_prob(drawn), d.sample((5, 2)), d.broadcast_to((5, 2)).sample()):
        assert found.context == cpu(1)
    for again in (copy.deepcopy(d), pickle.loads(pickle.dumps(d))):
        assert again.log_prob(drawn).asnumpy().tolist() == d.log_prob(drawn).asnumpy().tolist()
        assert again.F is nd


class Numbers(HybridBlock):
    """Samples of distributions whose parameters are numbers; `F` makes the arrays."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        d = mgp.Normal(0.0, 1.0, F=F)
        return [
            F.broadcast_add(x, d.sample((2, 3))), d.sample(), d.sample_n((4, 5)), d.broadcast_to(5).sample(),
            mgp.Gamma(2.0, 3.0, F=F).sample(2), mgp.Poisson(2.0, F=F).sample_n(3),
            mgp.Binomial(3, prob=0.4, F=F).sample((2, 2)), mgp.Bernoulli(prob=0.4, F=F).enumerate_support(),
        ]  # fmt: skip


def test_numbers_in_graphs() -> None:
    found = []
    for active in (False, True):
        net = Numbers()
        net.hybridize(active)
        random.seed(1)
        found.append(net(nd.ones((1, 3))))
    assert [each.shape for each in found[0]] == [(2, 3), (1,), (4, 5), (5,), (2,), (3,), (2, 2), (2, 1)]
    for left, right in zip(*found):
        assert left.asnumpy().tolist() == right.asnumpy().tolist()


def test_sizes_are_numbers_and_shapes() -> None:
    mixed = mgp.MixtureSameFamily(mgp.Categorical(2, logit=ones(2)), mgp.Normal(0.0, 1.0))
    for d in (mgp.Normal(), mgp.Normal(ones(1), 1.0), mixed):
        for size, shape in ((np.int64(3), (3,)), ([2, 3], (2, 3)), (None, (1,)), ((), (1,))):
            assert d.sample(size).shape == shape
        assert d.sample_n(np.int64(3)).shape[:1] == (3,)
        assert d.sample_n(()).shape == d.sample().shape


def test_axes_of_one_outcome() -> None:
    numbers = [
        mgp.Normal(),
        mgp.Gamma(1.0),
        mgp.Bernoulli(0.5),
        mgp.Categorical(2, logit=ones(2)),
        mgp.Poisson(),
    ]
    assert [d.event_dim for d in numbers] == [0] * 5
    assert mgp.RelaxedBernoulli(1.0, 0.5).event_dim == 0
    vectors = [
        mgp.OneHotCategorical(2, logit=ones(2)), mgp.Multinomial(2, logit=ones(2)), mgp.Dirichlet(ones(2)),
        mgp.MultivariateNormal(ones(2), nd.eye(2)), mgp.RelaxedOneHotCategorical(1.0, 2, logit=ones(2)),
        mgp.Independent(mgp.Normal(ones(2), 1.0), 1),
        mgp.TransformedDistribution(mgp.Normal(ones(2), 1.0), mgp.SoftmaxTransform()),
    ]  # fmt: skip
    assert [d.event_dim for d in vectors] == [1] * 7
    assert mgp.Independent(mgp.Dirichlet(ones(3, 2)), 1).event_dim == 2


def test_numbers_without_bounds() -> None:
    assert mgp.Normal().log_prob(1e200) == -np.inf
    assert mgp.Normal().pdf(-np.inf) == 0.0
    assert np.isnan(mgp.Normal(np.inf).log_prob(np.inf))
    assert mgp.Bernoulli(1.0).logit == np.inf


def test_graphs_draw_anew_in_each_call() -> None:
    net = Numbers()
    net.hybridize()
    first, second = (net(nd.zeros((1, 3)))[0].asnumpy() for _ in range(2))
    assert (first != second).all()


def test_parameters_of_two_kinds_are_refused() -> None:
    with pytest.raises(ArgumentError, match="NDArrays and symbols are mixed: Symbol, NDArray"):
        mgp.Normal(sym.Variable("loc"), nd.ones((1,)))
    with pytest.raises(ArgumentError, match="NDArrays and symbols are mixed; in hybrid_forward"):
        mgp.Normal(sym.Variable("loc"), 1.0).log_prob(nd.ones((1,)))
    with pytest.raises(
        DTypeError, match=r"\[Normal\] loc: expected a floating-point type, got int32; convert"
    ):
        mgp.Normal(nd.array([0, 1], dtype="int32"))
    with pytest.raises(ArgumentError, match="got array.*nd.array"):
        mgp.Normal().log_prob(np.ones(2))


class Triangular(mgp.Distribution):
    """The sum of two uniform numbers, times a width."""

    has_grad = True
    support = mgp.constraint.NonNegative()
    arg_constraints = {"width": mgp.constraint.Positive()}

    def __init__(self, width: Any, F: Any = None, validate_args: bool | None = None) -> None:
        self.width = width
        super().__init__(F, 0, validate_args)

    def _draw(self, zeros: Value) -> Value:
        unit = mgp.Uniform(0.0, 1.0)
        return (unit._draw(zeros) + unit._draw(zeros)) * Value(self.width)


def test_a_distribution_of_ones_own() -> None:
    random.seed(2)
    width = nd.array([1.0, 10.0])
    width.attach_grad()
    with autograd.record():
        mean = Triangular(width, validate_args=True).sample_n(4000).mean(0)
    mean.backward()
    np.testing.assert_allclose(mean.asnumpy(), [1.0, 10.0], rtol=0.05)
    np.testing.assert_allclose(width.grad.asnumpy(), mean.asnumpy() / [1.0, 10.0], rtol=1e-5)
    for method, args in (("log_prob", (1.0,)), ("cdf", (1.0,)), ("icdf", (0.5,)), ("entropy", ())):
        with pytest.raises(NotImplementedError, match=rf"\[Triangular\] there is no formula for {method}"):
            getattr(Triangular(1.0), method)(*args)
    with pytest.raises(ArgumentError, match=r"\[Triangular\] width: expected > 0, got -1.0"):
        Triangular(-1.0, validate_args=True)


def test_attributes_that_are_computed_once() -> None:
    class Counted:
        count = 0

        @mgp.cached_property
        def value(self) -> int:
            """What is counted."""
            self.count += 1
            return self.count

    counted = Counted()
    assert (counted.value, counted.value, counted.count) == (1, 1, 1)
    assert Counted.value.__doc__ == "What is counted."
    assert mgp.getF(1.0) is nd
    assert mgp.getF(1.0, sym.Variable("x")) is sym
    np.testing.assert_allclose(mgp.logit2prob(mgp.prob2logit(nd.array([0.3]))).asnumpy(), [0.3], rtol=1e-5)
    np.testing.assert_allclose(
        mgp.logit2prob(mgp.prob2logit(nd.array([0.3, 0.7]), False), False).asnumpy(), [0.3, 0.7], rtol=1e-5
    )


def test_attributes_follow_their_arrays() -> None:
    """What was looked at outside of `record` has its gradient in it, and a write to a parameter is seen."""

    def slope(look: bool) -> list[float]:
        logit = nd.array([0.3, -1.0])
        logit.attach_grad()
        d = mgp.Bernoulli(logit=logit)
        if look:
            _ = d.mean, d.prob
        for _ in range(2):  # a second backward finds the first one's graph freed
            with autograd.record():
                entropy = d.entropy().sum()
            entropy.backward()
        return logit.grad.asnumpy().tolist()

    assert slope(True) == slope(False)
    logit = nd.array([0.0])
    d = mgp.Bernoulli(logit=logit)
    assert d.prob.asscalar() == 0.5
    logit[:] = np.log(3.0)
    np.testing.assert_allclose(d.prob.asscalar(), 0.75, rtol=1e-6)
    events = mgp.Categorical(2, prob=nd.array([0.5, 0.5]))
    assert events.logit.shape == (2,)
    events.prob[:] = [0.25, 0.75]
    np.testing.assert_allclose(np.exp(events.log_prob(1.0).asnumpy()), 0.75, rtol=1e-6)


@pytest.mark.parametrize("matrix", ["cov", "precision", "scale_tril"])
def test_a_multivariate_normal_is_recorded_anew(matrix: str) -> None:
    given = nd.array([[2.0, 0.0], [0.0, 1.0]])
    given.attach_grad()
    d = mgp.MultivariateNormal(nd.zeros((2,)), **{matrix: given})
    for look in ("scale_tril", "cov", "precision", "variance"):
        assert getattr(d, look).shape[0] == 2
    slopes = []
    for _ in range(2):
        with autograd.record():
            density = d.log_prob(nd.array([1.0, 2.0]))
        density.backward()
        slopes.append(given.grad.asnumpy().tolist())
    assert slopes[0] == slopes[1]
    assert np.abs(slopes[0]).max() > 0


@pytest.mark.parametrize(
    ("d", "statistic", "pair"),
    [
        (mgp.Normal(0.5, 2.0), lambda x: (x, x**2), (0.3, 1.7)),
        (mgp.Exponential(2.0), lambda x: (x,), (0.3, 1.7)),
        (mgp.Gamma(1.5, 2.0), lambda x: (np.log(x), x), (0.3, 1.7)),
        (mgp.Chi2(3.0), lambda x: (np.log(x), x), (0.3, 1.7)),
        (mgp.Beta(1.5, 2.0), lambda x: (np.log(x), np.log1p(-x)), (0.3, 0.7)),
        (mgp.Bernoulli(0.3), lambda x: (x,), (0.0, 1.0)),
        (mgp.Poisson(2.5), lambda x: (x,), (0.0, 1.0)),  # 0! and 1! are equal
    ],
    ids=lambda case: type(case).__name__ if isinstance(case, mgp.Distribution) else "",
)
def test_natural_parameters(d: Any, statistic: Any, pair: tuple[float, float]) -> None:
    """Differences of log densities are products of natural parameters and differences of the statistic."""
    assert isinstance(d, mgp.ExponentialFamily)
    first, second = (np.array(statistic(x)) for x in pair)
    difference = d.log_prob(pair[1]) - d.log_prob(pair[0])
    np.testing.assert_allclose(np.array(d._natural_params) @ (second - first), difference)


def test_natural_parameters_of_vectors() -> None:
    d = mgp.Dirichlet(nd.array([1.5, 2.0, 0.7], dtype="float64"))
    points = nd.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]], dtype="float64")
    logs = np.log(points.asnumpy())
    (natural,) = d._natural_params
    density = d.log_prob(points).asnumpy()
    np.testing.assert_allclose(natural.asnumpy() @ (logs[1] - logs[0]), density[1] - density[0])
    with pytest.raises(
        NotImplementedError, match=r"\[Geometric\] there is no formula for natural parameters"
    ):
        _ = mgp.Geometric(0.5)._natural_params
