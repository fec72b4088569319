# SPDX-License-Identifier: Apache-2.0
"""Distributions and divergences between them."""

import mx_gluon.probability.distributions.divergences
import mx_gluon.probability.distributions.divergences_between  # noqa: F401
from mx_gluon.probability.distributions.bernoulli import Bernoulli as Bernoulli
from mx_gluon.probability.distributions.beta import Beta as Beta
from mx_gluon.probability.distributions.binomial import Binomial as Binomial
from mx_gluon.probability.distributions.categorical import Categorical as Categorical
from mx_gluon.probability.distributions.cauchy import Cauchy as Cauchy
from mx_gluon.probability.distributions.chi2 import Chi2 as Chi2
from mx_gluon.probability.distributions.dirichlet import Dirichlet as Dirichlet
from mx_gluon.probability.distributions.distribution import Distribution as Distribution
from mx_gluon.probability.distributions.divergence import empirical_kl as empirical_kl
from mx_gluon.probability.distributions.divergence import kl_divergence as kl_divergence
from mx_gluon.probability.distributions.divergence import register_kl as register_kl
from mx_gluon.probability.distributions.exp_family import ExponentialFamily as ExponentialFamily
from mx_gluon.probability.distributions.exponential import Exponential as Exponential
from mx_gluon.probability.distributions.fishersnedecor import FisherSnedecor as FisherSnedecor
from mx_gluon.probability.distributions.gamma import Gamma as Gamma
from mx_gluon.probability.distributions.geometric import Geometric as Geometric
from mx_gluon.probability.distributions.gumbel import Gumbel as Gumbel
from mx_gluon.probability.distributions.half_cauchy import HalfCauchy as HalfCauchy
from mx_gluon.probability.distributions.half_normal import HalfNormal as HalfNormal
from mx_gluon.probability.distributions.independent import Independent as Independent
from mx_gluon.probability.distributions.laplace import Laplace as Laplace
from mx_gluon.probability.distributions.mixture_same_family import MixtureSameFamily as MixtureSameFamily
from mx_gluon.probability.distributions.multinomial import Multinomial as Multinomial
from mx_gluon.probability.distributions.multivariate_normal import MultivariateNormal as MultivariateNormal
from mx_gluon.probability.distributions.negative_binomial import NegativeBinomial as NegativeBinomial
from mx_gluon.probability.distributions.normal import Normal as Normal
from mx_gluon.probability.distributions.one_hot_categorical import OneHotCategorical as OneHotCategorical
from mx_gluon.probability.distributions.pareto import Pareto as Pareto
from mx_gluon.probability.distributions.poisson import Poisson as Poisson
from mx_gluon.probability.distributions.relaxed_bernoulli import RelaxedBernoulli as RelaxedBernoulli
from mx_gluon.probability.distributions.relaxed_one_hot_categorical import (
    RelaxedOneHotCategorical as RelaxedOneHotCategorical,
)
from mx_gluon.probability.distributions.studentT import StudentT as StudentT
from mx_gluon.probability.distributions.transformed_distribution import (
    TransformedDistribution as TransformedDistribution,
)
from mx_gluon.probability.distributions.uniform import Uniform as Uniform
from mx_gluon.probability.distributions.weibull import Weibull as Weibull
