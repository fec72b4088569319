# SPDX-License-Identifier: Apache-2.0
"""Transformations, their Jacobians, maps to constraints, and transformed distributions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from mx_core.errors import ArgumentError
from mx_gluon import probability as mgp
from mx_gluon.block import HybridBlock
from mx_gluon.probability import constraint
from mx_ndarray import NDArray, autograd, nd, random


def double(values: Any) -> NDArray:
    return nd.array(np.asarray(values), dtype="float64")


ELEMENTWISE = [
    mgp.ExpTransform(),
    mgp.AffineTransform(1.0, -2.0),
    mgp.AffineTransform(double([1.0, 2.0, 3.0]), 0.5),
    mgp.PowerTransform(1.7),
    mgp.SigmoidTransform(),
    mgp.ComposeTransform([mgp.ExpTransform(), mgp.AffineTransform(0.5, -2.0)]),
    mgp.ComposeTransform([]),
]


@pytest.mark.parametrize("transform", ELEMENTWISE, ids=lambda t: type(t).__name__)
def test_inverse_and_jacobian(transform: Any) -> None:
    x = double([0.3, 0.9, 1.6])
    y = transform(x)
    np.testing.assert_allclose(transform.inv(y).asnumpy(), x.asnumpy(), rtol=1e-9)
    slope = (transform(x + 1e-6) - transform(x - 1e-6)).asnumpy() / 2e-6
    found = transform.log_det_jacobian(x, y).asnumpy()
    np.testing.assert_allclose(found, np.log(np.abs(slope)), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(transform.inv.log_det_jacobian(y, x).asnumpy(), -found, atol=1e-12)
    assert transform.inv.inv(x).asnumpy().tolist() == y.asnumpy().tolist()
    assert transform.bijective and transform.inv.bijective
    assert (np.sign(slope) == transform.sign).all()
    assert transform.inv.sign == transform.sign


def test_what_has_no_inverse() -> None:
    x = double([[1.0, -2.0, 0.5]])
    y = mgp.SoftmaxTransform()(x)
    np.testing.assert_allclose(y.sum(-1).asscalar(), 1.0)
    np.testing.assert_allclose(mgp.SoftmaxTransform()(mgp.SoftmaxTransform().inv(y)).asnumpy(), y.asnumpy())
    assert mgp.AbsTransform()(x).asnumpy().tolist() == [[1.0, 2.0, 0.5]]
    for transform in (mgp.SoftmaxTransform(), mgp.AbsTransform()):
        assert not transform.bijective
        with pytest.raises(NotImplementedError, match=rf"\[{type(transform).__name__}\].*log_det_jacobian"):
            transform.log_det_jacobian(x, y)


def test_far_values_stay_inside() -> None:
    y = mgp.SigmoidTransform()(nd.array([-200.0, 200.0])).asnumpy()
    assert (y > 0).all() and (y < 1).all()
    assert np.isfinite(mgp.SigmoidTransform().inv(nd.array([0.0, 1.0])).asnumpy()).all()


@pytest.mark.parametrize(
    "to",
    [
        constraint.Real(), constraint.Positive(), constraint.NonNegative(), constraint.GreaterThan(2.0),
        constraint.GreaterThanEq(-1.0), constraint.LessThan(2.0), constraint.LessThanEq(-1.0),
        constraint.UnitInterval(), constraint.Interval(-2.0, 3.0), constraint.OpenInterval(0.0, 1.0),
        constraint.HalfOpenInterval(-2.0, 3.0), constraint.Interval(double([0.0, 0.0, 1.0]), 3.0),
    ],
    ids=lambda to: type(to).__name__,
)  # fmt: skip
def test_maps_to_constraints(to: constraint.Constraint) -> None:
    x = double([-3.0, 0.1, 3.0])
    for mapping in (mgp.biject_to, mgp.transform_to):
        transform = mapping(to)
        to.check(transform(x))
        np.testing.assert_allclose(transform.inv(transform(x)).asnumpy(), x.asnumpy(), rtol=1e-9)


def test_other_maps() -> None:
    constraint.Simplex().check(mgp.transform_to(constraint.Simplex())(double([1.0, 2.0])))
    with pytest.raises(
        NotImplementedError, match="no transformation to Simplex is registered; there are .*Positive"
    ):
        mgp.biject_to(constraint.Simplex())
    mine = mgp.domain_map()

    @mine.register(constraint.Boolean)
    def to_boolean(of: Any) -> Any:
        return mgp.AbsTransform()

    assert isinstance(mine(constraint.Boolean()), mgp.AbsTransform)
    with pytest.raises(ArgumentError, match="expected a Constraint or a class of them, got 3"):
        mine.register(3, to_boolean)  # type: ignore[arg-type]


def log_normal(loc: Any, scale: Any) -> Any:
    return mgp.TransformedDistribution(
        mgp.Normal(0.0 * loc, 1.0), [mgp.AffineTransform(loc, scale), mgp.ExpTransform()]
    )


def test_transformed_distribution() -> None:
    d = log_normal(double([0.5]), double([2.0]))
    known = stats.lognorm(2.0, scale=np.exp(0.5))
    x, p = np.array([0.2, 1.0, 5.0]), np.array([0.1, 0.5, 0.9])
    np.testing.assert_allclose(d.log_prob(double(x)).asnumpy(), known.logpdf(x))
    np.testing.assert_allclose(d.cdf(double(x)).asnumpy(), known.cdf(x))
    np.testing.assert_allclose(d.icdf(double(p)).asnumpy(), known.ppf(p))
    falling = mgp.TransformedDistribution(mgp.Normal(0.0, 1.0), mgp.AffineTransform(1.0, -2.0))
    np.testing.assert_allclose(falling.cdf(double(x)).asnumpy(), stats.norm(1, 2).cdf(x))
    np.testing.assert_allclose(falling.icdf(double(p)).asnumpy(), stats.norm(1, 2).ppf(p))
    random.seed(1)
    drawn = d.sample_n(5000)
    assert drawn.shape == (5000, 1)
    assert stats.kstest(drawn.asnumpy().ravel(), known.cdf).pvalue > 1e-4
    assert d.broadcast_to((3, 4)).sample().shape == (3, 4)
    with pytest.raises(ArgumentError, match="transforms: expected Transformations, got 3"):
        mgp.TransformedDistribution(mgp.Normal(), [3])  # type: ignore[list-item]
    with pytest.raises(ArgumentError, match="parts: expected Transformations, got 3"):
        mgp.ComposeTransform([3])  # type: ignore[list-item]


def test_axes_of_one_outcome() -> None:
    base = mgp.Normal(double(np.zeros((2, 3))), 1.0)
    whole = mgp.TransformedDistribution(base, mgp.AffineTransform(0.0, 2.0, event_dim=1))
    x = double(np.ones((2, 3)))
    np.testing.assert_allclose(whole.log_prob(x).asnumpy(), stats.norm(0, 2).logpdf(1.0) * np.full(2, 3))
    mixed = mgp.ComposeTransform([mgp.ExpTransform(), mgp.AffineTransform(0.0, 2.0, event_dim=1)])
    assert mixed.event_dim == 1
    np.testing.assert_allclose(mixed.log_det_jacobian(x, mixed(x)).asnumpy(), 3 + 3 * np.log([2.0, 2.0]))
    assert whole.broadcast_to((4, 2)).sample().shape == (4, 2, 3)
    rows = mgp.Independent(mgp.Dirichlet(double(np.ones((2, 3)))), 1)
    assert rows.broadcast_to(4).base_dist.alpha.shape == (4, 2, 3)


class Logarithm(HybridBlock):
    """The density of a log-normal variable."""

    def hybrid_forward(self, F: Any, loc: Any, scale: Any, x: Any) -> Any:
        return log_normal(loc, scale).log_prob(x)


def test_graphs_and_gradients() -> None:
    loc, scale, x = double([0.5, 1.0]), double([2.0, 0.5]), double([1.5, 2.0])
    for active in (False, True):
        net = Logarithm()
        net.hybridize(active)
        for each in (loc, scale):
            each.attach_grad()
        with autograd.record():
            found = net(loc, scale, x)
        found.backward()
        z = (np.log(x.asnumpy()) - loc.asnumpy()) / scale.asnumpy()
        known = stats.lognorm(scale.asnumpy(), scale=np.exp(loc.asnumpy()))
        np.testing.assert_allclose(found.asnumpy(), known.logpdf(x.asnumpy()))
        np.testing.assert_allclose(loc.grad.asnumpy(), z / scale.asnumpy())
        np.testing.assert_allclose(scale.grad.asnumpy(), (z**2 - 1) / scale.asnumpy())


class Scaling(mgp.TransformBlock):
    """A transformation that learns a factor."""

    bijective = True

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.log_factor = self.params.get("log_factor", shape=(1,), init="zeros")

    def _forward_compute(self, x: Any) -> Any:
        return self.F.broadcast_mul(x, self.F.exp(self.parameters_for(x)["log_factor"]))

    def _inverse_compute(self, y: Any) -> Any:
        return self.F.broadcast_div(y, self.F.exp(self.parameters_for(y)["log_factor"]))

    def log_det_jacobian(self, x: Any, y: Any) -> Any:
        return self.F.broadcast_add(self.F.zeros_like(x), self.parameters_for(x)["log_factor"])


class Flow(HybridBlock):
    """Minus the log density of a transformed normal variable."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.scaling = Scaling()

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return -mgp.TransformedDistribution(mgp.Normal(0.0, 1.0, F=F), self.scaling).log_prob(x)


@pytest.mark.parametrize("active", [False, True])
def test_a_transformation_learns(active: bool) -> None:
    from mx_gluon import Trainer

    x = nd.array(np.random.default_rng(0).normal(0, 3, (400,)))
    net = Flow()
    net.initialize()
    net.hybridize(active)
    trainer = Trainer(net.collect_params(), "sgd", {"learning_rate": 0.3})
    for _ in range(40):
        with autograd.record():
            loss = net(x)
        loss.backward()
        trainer.step(400)
    factor = np.exp(net.scaling.log_factor.data().asscalar())
    np.testing.assert_allclose(factor, np.sqrt((x.asnumpy() ** 2).mean()), rtol=1e-3)
