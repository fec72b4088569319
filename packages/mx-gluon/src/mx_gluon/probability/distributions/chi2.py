# SPDX-License-Identifier: Apache-2.0
"""The chi-squared distribution."""

from __future__ import annotations

from typing import Any

from mx_gluon.probability.constraint import Positive
from mx_gluon.probability.distributions.gamma import Gamma
from mx_gluon.probability.values import Value


class Chi2(Gamma):
    """The chi-squared distribution: the sum of `df` squares of standard normal variables.

    Threads: as `Distribution`.

    Parameters
    ----------
    df : number, NDArray or Symbol
        Degrees of freedom.
    """

    arg_constraints = {"df": Positive()}

    def __init__(self, df: Any, F: Any = None, validate_args: bool | None = None) -> None:
        self.df = df
        super(Gamma, self).__init__(F, 0, validate_args)

    @property
    def shape(self) -> Any:
        """Half of `df`."""
        return (Value(self.df) * 0.5).raw

    @property
    def scale(self) -> Any:
        """2."""
        return 2.0
