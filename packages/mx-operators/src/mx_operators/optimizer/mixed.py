# SPDX-License-Identifier: Apache-2.0
"""Updates of 16-bit weights with a float32 master copy.

Source: Micikevicius et al., Mixed Precision Training, ICLR 2018.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from mx_core.operator import Array, Arrays, ReferenceContext
from mx_core.operator.declaration import P
from mx_operators.optimizer.base import MASTER_TYPES, Update
from mx_operators.optimizer.sgd import SGD, NAGParam, Nesterov, SGDMomentum, SGDMomentumParam, SGDParam


class MixedUpdate(Update[P]):
    """An update computed in float32: weight and grad of any type, states and weight32 in float32."""

    rule: ClassVar[Update[Any]]
    fixed_types = MASTER_TYPES

    def reference(self, p: P, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        """One step on the master copy, which is then rounded."""
        weight, grad, *states, master = inputs
        new = self.rule.step(p, master, grad.astype(np.float32), *states)
        master, *states = (np.asarray(x, np.float32) for x in new)
        return (master.astype(weight.dtype), *states, master)


class MixedSGD(MixedUpdate[SGDParam]):
    """sgd_update on weight32; weight is its rounded copy."""

    name = "mp_sgd_update"
    arguments = ("weight", "grad", "weight32")
    rule = SGD()


class MixedSGDMomentum(MixedUpdate[SGDMomentumParam]):
    """sgd_mom_update on weight32; weight is its rounded copy."""

    name = "mp_sgd_mom_update"
    arguments = ("weight", "grad", "mom", "weight32")
    rule = SGDMomentum()


class DecayedLate(Nesterov):
    """Nesterov's update whose momentum keeps the decay of the new weight; so does MXNet's mixed-precision update."""

    def step(self, p: NAGParam, w: Array, g: Array, *states: Array) -> Arrays:
        new, mom = super().step(p, w, g, *states)
        return new, mom - p.lr * p.wd * (new - w)


class MixedNAG(MixedUpdate[NAGParam]):
    """nag_mom_update on weight32; weight is its rounded copy, and the momentum decays with the new weight."""

    name = "mp_nag_mom_update"
    arguments = ("weight", "grad", "mom", "weight32")
    rule = DecayedLate()
