# SPDX-License-Identifier: Apache-2.0
"""ExponentialFamily: distributions with natural parameters."""

from __future__ import annotations

from typing import Any

from mx_gluon.probability.distributions.distribution import Distribution


class ExponentialFamily(Distribution):
    """Distributions whose density is exp(<t(x), theta> - A(theta) + k(x)).

    t is the sufficient statistic, theta are the natural parameters, A normalises, and k is the carrier measure.

    Threads: as `Distribution`.
    """

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        raise self._missing("natural parameters")
