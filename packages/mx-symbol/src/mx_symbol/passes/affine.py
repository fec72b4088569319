# SPDX-License-Identifier: Apache-2.0
"""The operator that batch normalisation with known statistics becomes: a scale and a shift per channel."""

from __future__ import annotations

from functools import lru_cache

from mx_core.expression import Builder, Expression, functions
from mx_core.operator import Params, opt, required
from mx_core.operator.simple import Elementwise


class AffineParams(Params):
    """Those of the normalisation, and whether the layer before it has a bias."""

    eps: float = required("added to the variance", runtime=True)
    fix_gamma: bool = opt(False, "gamma is 1")
    biased: bool = opt(False, "the last input is added before the normalisation")


class Affine(Elementwise[AffineParams]):
    """scale = gamma / √(var + eps), and shift = beta − mean · scale [+ bias · scale]; all vectors over channels."""

    name = "_batch_norm_affine"
    Param = AffineParams
    differentiable = False  # of inference alone
    custom_gradient = True

    def inputs(self, p: AffineParams) -> tuple[str, ...]:
        """No gamma where it is fixed, no bias where there is none."""
        gamma, bias = () if p.fix_gamma else ("gamma",), ("bias",) if p.biased else ()
        return (*gamma, "beta", "mean", "var", *bias)

    def outputs(self, p: AffineParams) -> tuple[str, ...]:
        """Both."""
        return ("scale", "shift")

    def num_visible_outputs(self, p: AffineParams) -> int:
        """Both."""
        return 2

    def expression(self, p: AffineParams) -> Expression:
        """Both, from the inputs."""
        return _expression(self.inputs(p))


@lru_cache
def _expression(names: tuple[str, ...]) -> Expression:
    builder = Builder(len(names), 1)
    given = {name: builder.input(i) for i, name in enumerate(names)}
    scale = functions.rsqrt(given["var"] + builder.scalar(0))
    if "gamma" in given:
        scale = given["gamma"] * scale
    shift = given["beta"] - given["mean"] * scale
    if "bias" in given:
        shift = shift + given["bias"] * scale
    return builder.finish([scale, shift])


AFFINE = Affine()
